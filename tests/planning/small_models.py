"""Problems small enough to enumerate, in the forms that a user may bring them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.planning.model import State
from counterplan.planning.search.kernel import Kernel
from tests.planning.expectimax import expectimax

from .selling import Selling

FAIR = Selling(np.array([2.0, 1.0, 3.0]), np.full((3, 3), 1 / 3))
STICKY = Selling(
    np.array([4.0, 1.0, 9.0]), np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.6, 0.1]])
)
BUYING = replace(STICKY, sense="min", least=3)
# Prices that follow each other for certain: 2, 5, 1, 2, ...
CERTAIN = Selling(np.array([2.0, 5.0, 1.0]), np.roll(np.eye(3), 1, axis=1))


class Plain:
    """A model's Python methods alone: without its compiled functions, and whatever is left out."""

    def __init__(self, model: Any, *without: str) -> None:
        self._model = model
        self._without = ("compiled", *without)

    def __getattr__(self, name: str) -> Any:
        if name in self._without or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._model, name)

    # Protocols look methods up on the class.
    horizon = property(lambda self: self._model.horizon)
    sense = property(lambda self: self._model.sense)
    start = property(lambda self: self._model.start)


class Bounded(Plain):
    """A plain model that knows bounds on its value: the value itself, give or take."""

    def __init__(self, model: Any, below: float = 0.0, above: float = 0.0) -> None:
        super().__init__(model)
        self._away = (below, above)

    def bounds(self, state: State) -> tuple[float, float]:
        value = expectimax(self._model, state).value
        return value - self._away[0], value + self._away[1]


def continuous(model: Selling) -> Any:
    """The same model, its finite support kept from the search: it can only draw."""

    class Drawn(Selling):
        successors = None  # type: ignore[assignment]

        def compiled(self, quantiles: int = 0) -> Kernel:
            from counterplan.planning.search.kernel import no_successors

            kernel = super().compiled(quantiles)
            return replace(kernel, successors=no_successors, most_successors=0)

    return Drawn(**{name: getattr(model, name) for name in model.__dataclass_fields__})


def every_path(model: Any) -> tuple[FloatArray, FloatArray]:
    """(n, T, X) all futures, and their probabilities."""
    found = [([model.start.exogenous], 1.0)]
    for t in range(model.horizon - 1):
        longer = []
        for path, chance in found:
            for following, odds in zip(*model.successors(t, path[-1]), strict=True):
                longer.append(([*path, following], chance * float(odds)))
        found = longer
    return np.array([path for path, _ in found]), np.array([chance for _, chance in found])
