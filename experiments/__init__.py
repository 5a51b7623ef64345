"""The papers' figures, recomputed: one module for each family of figures, and a registry."""

from __future__ import annotations
