"""The open question: which nodes are of the classes asked about, of a known one, or of none."""
