"""Nodes that arrive after the fit."""
