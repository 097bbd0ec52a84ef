"""Experiments: grids of runs, the plan of missing runs, the engines that do them, and result rows."""
