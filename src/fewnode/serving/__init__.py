"""A model folder as an HTTP service."""
