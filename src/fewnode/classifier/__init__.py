"""A classifier for a user's own graph: learn its labelled classes, define new ones by examples, predict every node."""
