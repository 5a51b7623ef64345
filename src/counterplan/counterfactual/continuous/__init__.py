"""Continuous states: best-first search over action sequences with certified bounds."""
