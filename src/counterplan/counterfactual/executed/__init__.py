"""Executed plans: what should have been spent along the path that was."""
