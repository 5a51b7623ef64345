"""What every system shares: episodes, problems, constraints, limits and results. No algorithms."""
