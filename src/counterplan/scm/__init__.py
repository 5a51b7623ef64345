"""Causal models, one per file."""
