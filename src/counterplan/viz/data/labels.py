"""How figures call what an episode is made of: features, doses and times, from a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.io.schema import Column
from counterplan.viz.quantity import Quantity


@dataclass(frozen=True, eq=False)
class Labels:
    """Names, units and what the numbers of states and actions stand for.

    features  the numbers of a state
    doses     the parts of an action that can be chosen
    actions   (N, doses) the doses that each action stands for
    states    (S, features) the features of each discrete state, nan where one means nothing; None
              where states are vectors
    endings   names of discrete states in which a course is over
    step      how long a step lasts, in `unit`
    unit      of time; empty where steps are counted
    outcome   what an outcome is, where no feature says it
    """

    features: tuple[Column, ...]
    doses: tuple[Column, ...] = ()
    actions: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    states: FloatArray | None = None
    endings: Mapping[int, str] = field(default_factory=dict)
    step: float = 1.0
    unit: str = ""
    outcome: Quantity | None = None

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("labels: no features; name at least one number of a state")
        if self.actions.ndim != 2 or self.actions.shape[1] != len(self.doses):
            raise InputError(
                f"labels: actions have shape {self.actions.shape}, expected (N, "
                f"{len(self.doses)}): a number for each of {len(self.doses)} doses"
            )
        if self.states is not None and self.states.shape[1:] != (len(self.features),):
            raise InputError(
                f"labels: states have shape {self.states.shape}, expected (S, "
                f"{len(self.features)}): a number for each feature"
            )

    @classmethod
    def named(
        cls,
        features: Sequence[str],
        doses: Sequence[str] = (),
        actions: ArrayLike = (),
        *,
        step: float = 1.0,
        unit: str = "",
    ) -> Self:
        """Labels without a schema: names of features and doses, and the action vectors (N, d)."""
        vectors = np.asarray(actions, dtype=np.float64)
        if vectors.ndim == 1:  # one dose, or none
            vectors = vectors.reshape(len(vectors), 1 if len(vectors) else len(doses))
        if vectors.ndim != 2 or len(doses) != vectors.shape[1]:
            raise InputError(
                f"labels: {len(doses)} doses, but actions of shape {vectors.shape}: expected "
                "(N, doses)"
            )
        columns = [
            Column(name, "action", levels=tuple(np.unique(given).tolist()))
            for name, given in zip(doses, vectors.T, strict=True)
        ]
        states = tuple(Column(name, "state") for name in features)
        return cls(states, tuple(columns), vectors, step=step, unit=unit)

    def place(self, feature: str | int | None = None) -> int:
        """Which feature is meant: by name or number; None for the first that says what is better,
        or else the last one."""
        names = [column.name for column in self.features]
        if feature is None:
            good = [place for place, column in enumerate(self.features) if column.better]
            return good[0] if good else len(names) - 1
        if isinstance(feature, str) and feature in names:
            return names.index(feature)
        if isinstance(feature, int) and 0 <= feature < len(names):
            return feature
        raise InputError(f"no feature {feature!r}: there are {', '.join(names)}")

    def values(self, states: ArrayLike, place: int) -> FloatArray:
        """The feature in some states: numbers of discrete ones (...), or vectors (..., D)."""
        found = np.asarray(states)
        if self.states is not None:
            return np.asarray(self.states[found.astype(np.int64), place])
        return np.asarray(found[..., place], dtype=np.float64)

    def title(self, place: int) -> str:
        """A feature with its unit."""
        return with_unit(self.features[place])

    def text(self, place: int, value: float) -> str:
        """A value of a feature, short: its label, or the number."""
        column = self.features[place]
        known = column.values
        if column.labels is not None and known is not None and value in known:
            return column.labels[known.index(value)]
        return f"{value:.3g}"

    def ticks(self, place: int) -> tuple[tuple[float, str], ...]:
        """Numbers and names of a feature that has names; none of one that has not."""
        column = self.features[place]
        if column.labels is None or column.values is None:
            return ()
        return tuple(zip(column.values, column.labels, strict=True))

    @property
    def quantity(self) -> Quantity:
        """What an outcome is: as given, or the sum of the one feature that says what is better."""
        if self.outcome is not None:
            return self.outcome
        good = [column for column in self.features if column.better]
        if len(good) != 1 or good[0].weight != 1.0:
            return Quantity()
        sign = "−" if good[0].better == "lower" else ""
        unit = f", {good[0].unit}" if good[0].unit else ""
        return Quantity(unit=f"summed {sign}{good[0].name}{unit}")


def with_unit(column: Column) -> str:
    """The name of a column with its unit: "map (mmHg)"."""
    return f"{column.name} ({column.unit})" if column.unit else column.name


def step_title(unit: str) -> str:
    """What stands at an axis of time."""
    return f"time ({unit})" if unit else "step"
