"""A user's own graph: learn from its labelled classes, name new ones by example, predict every node."""
