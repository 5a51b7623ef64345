"""Processes that no action touches, and decision problems built on them."""
