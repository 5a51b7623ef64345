"""A policy: a rule that sees the present, never the future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from counterplan.core.validation import FloatArray, Seed
from counterplan.exogenous.model import ExogenousModel

# (t, x (n, X), d (n, D)) -> actions (n, A)
Rule: TypeAlias = Callable[[int, FloatArray, FloatArray], FloatArray]


@runtime_checkable
class Policy(Protocol):
    """Prepared once for a model (a table, a regression), then asked at every state."""

    @property
    def name(self) -> str: ...

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule: ...
