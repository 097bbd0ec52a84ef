"""Labelling: a session of answers, its journal, and the page that shows it."""
