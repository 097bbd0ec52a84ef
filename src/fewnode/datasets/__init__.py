"""Data sets: a catalog of published ones, one bundled, and a generator."""
