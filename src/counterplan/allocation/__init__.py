"""Exact allocation of a resource along one realised path, and along thousands."""
