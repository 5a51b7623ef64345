"""Discrete states: the budgeted dynamic program and what follows from it."""
