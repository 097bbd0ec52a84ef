"""Arrays as long as a graph, on disk: a graph that is larger than memory, and what is made from it."""
