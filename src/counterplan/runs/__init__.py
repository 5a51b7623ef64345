"""Whole tables of episodes: run in parts, stopped and resumed at will, here or on a cluster."""
