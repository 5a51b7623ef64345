"""Given what happened, what should have been done: solvers, distributions, bounds, baselines."""
