"""A model that keeps its slopes to itself, to see what they are worth."""

from __future__ import annotations

from counterplan.core.validation import FloatArray
from counterplan.scm import PointSCM
from counterplan.scm.point import Replay


class ConstantsOnly(PointSCM):
    """Everything of another model but its slopes."""

    def __init__(self, inner: PointSCM) -> None:
        self._inner = inner
        self.fixed = inner.fixed

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        return self._inner.infer(states, actions, after)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        return self._inner.step(states, actions, noise)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        return self._inner.lipschitz(noise)

    def replay(self, vectors: FloatArray, noise: FloatArray, start: FloatArray) -> Replay:
        return self._inner.replay(vectors, noise, start)
