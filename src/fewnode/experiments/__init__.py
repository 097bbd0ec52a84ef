"""Experiments: grids of runs, what is left of them to do, the engines that do it, and the rows that come out."""
