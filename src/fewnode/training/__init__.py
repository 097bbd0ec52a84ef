"""Training: the one loop, where its tasks come from, its state on disk, its share of several processes."""
