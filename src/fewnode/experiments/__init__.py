"""Experiments: grids of runs, the plan of what is left to do, the engines that run it, and result rows."""
