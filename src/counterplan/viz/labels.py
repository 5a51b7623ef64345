"""What the numbers of states and actions are called: features, doses, and changes of doses.

labels_of(schema)                  of a schema, a layout, a model or a shipped problem
Labels.named(features, doses, actions)      names given one by one
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.result import Change
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.layout import SchemaLayout, layout_of_model
from counterplan.tables.models import outcome_of_model
from counterplan.tables.schema import Column, Grid, Schema
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from counterplan.domains.icu_sepsis import IcuSepsis
    from counterplan.scm.gumbel import GumbelMaxSCM
    from counterplan.scm.learned import LearnedSCM


@dataclass(frozen=True, eq=False)
class Labels:
    """Names, units and what the numbers of states and actions stand for.

    features  the numbers of a state
    doses     the parts of an action that can be chosen
    actions   (N, doses) the doses that each action stands for; none where they may be any numbers
    states    (S, features) the features of each discrete state, nan where one means nothing; None
              where states are vectors
    endings   names of discrete states in which an episode is over
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
        for name, letter, vectors, columns in (
            ("actions", "N", self.actions, self.doses),
            ("states", "S", self.states, self.features),
        ):
            if vectors is not None and vectors.shape[1:] != (len(columns),):
                raise InputError(
                    f"labels: {name} have shape {vectors.shape}, expected ({letter}, "
                    f"{len(columns)}): a number for each of {len(columns)} names"
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
        columns = tuple(
            Column(
                name, "action", levels=tuple(np.unique(vectors[..., place : place + 1]).tolist())
            )
            for place, name in enumerate(doses)
        )
        states = tuple(Column(name, "state") for name in features)
        return cls(states, columns, vectors, step=step, unit=unit)

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
        return value_names(self.features[place]).get(value) or f"{value:.3g}"

    @property
    def quantity(self) -> Quantity:
        """What an outcome is, as far as that is known."""
        return self.outcome or Quantity()


def with_unit(column: Column) -> str:
    """The name of a column with its unit, "map (mmHg)", unless the name says it already."""
    return f"{column.name} ({column.unit_beside})" if column.unit_beside else column.name


def value_names(column: Column) -> dict[float, str]:
    """The names of a column's values, none where it has none."""
    return dict(zip(column.values or (), column.labels or (), strict=False))


def step_title(unit: str) -> str:
    """What stands at an axis of time."""
    return f"time ({unit})" if unit else "step"


# --- Labels of everything that knows names ---

Named: TypeAlias = (
    "Labels | Schema | SchemaLayout | TabularMDP | GumbelMaxSCM | LearnedSCM | IcuSepsis"
)


def labels_of(source: Named) -> Labels:
    """The names that a schema, a layout, a model or a shipped problem has for its numbers."""
    if isinstance(source, Labels):
        return source
    if isinstance(source, Schema):
        return _of_layout(SchemaLayout(source))
    if isinstance(source, SchemaLayout):
        return _of_layout(source)
    if hasattr(source, "sofa"):
        return _of_icu_sepsis(cast("IcuSepsis", source))
    model: Any = getattr(source, "mdp", source)
    if not hasattr(model, "about"):
        raise InputError(
            f"{type(source).__name__} has no names for features and doses: pass a SchemaLayout, or "
            "viz.Labels.named(features, doses, actions)"
        )
    return labels_of_run(model, layout_of_model(model))


def labels_of_run(model: TabularMDP | LearnedSCM, layout: SchemaLayout | None) -> Labels:
    """The names that a table's layout has, where there is one, and what the model's outcome is."""
    known = _of_model(model) if layout is None else _of_layout(layout)
    named = outcome_of_model(model)
    return (
        known if named is None else replace(known, outcome=Quantity(named[0], named[2], named[1]))
    )


def _of_model(model: TabularMDP | LearnedSCM) -> Labels:
    if not isinstance(model, TabularMDP):
        raise InputError(
            "the model remembers no schema, so its features have no names: pass a layout, or "
            "viz.Labels.named(features, doses, actions)"
        )
    states = tuple(map(model.state_name, range(model.n_states)))
    actions = tuple(map(model.action_name, range(model.n_actions)))
    features = Grid((Column("state", "state", labels=states),))
    doses = Grid((Column("action", "action", labels=actions),))
    return Labels(features.columns, doses.columns, doses.vectors, features.vectors)


def _of_layout(layout: SchemaLayout) -> Labels:
    schema, choices, states = layout.schema, layout.choices, layout.states
    doses = choices.columns
    if layout.dose_unit:
        doses = tuple(replace(dose, unit=layout.dose_unit) for dose in doses)
    grid = None if states is None else states.vectors
    listed = np.zeros((0, len(doses))) if layout.doses else choices.vectors
    words = schema.outcome_in_words
    outcome = Quantity(unit=f"summed {words}") if words else None
    return Labels(
        schema.features, doses, listed, grid, step=schema.step, unit=schema.unit, outcome=outcome
    )


def _of_icu_sepsis(model: IcuSepsis) -> Labels:
    """Discrete states with a severity; the last three are no states of illness."""
    from counterplan.domains.icu_sepsis import DEATH, LEVELS, SURVIVAL

    score = np.where(np.arange(len(model.sofa)) < DEATH, model.sofa, np.nan)[:, np.newaxis]
    levels = tuple(map(float, range(LEVELS)))
    drugs = ("fluids", "vasopressor")
    doses = Grid(tuple(Column(drug, "action", unit="level", levels=levels) for drug in drugs))
    return Labels(
        (Column("SOFA", "state", unit="points", better="lower"),),
        doses.columns,
        doses.vectors,
        score,
        {DEATH: "died", SURVIVAL: "alive"},
        outcome=Quantity("survival probability", percent=True),
    )


# --- Changes of doses ---


class Move(NamedTuple):
    """At step t the dose `what` goes from `before` to `after`.

    text  what is written beside it; empty for the size of the change. nan as `before` and `after`
          means that there is no more or less, only another
    """

    t: int
    what: str
    before: float
    after: float
    text: str = ""

    @property
    def size(self) -> float:
        """How much is added; nan where that means nothing."""
        return self.after - self.before

    @property
    def direction(self) -> int:
        """1: raised, -1: lowered, 0: replaced by something that is neither more nor less."""
        return 0 if math.isnan(self.size) else int(math.copysign(1, self.size))

    @property
    def texts(self) -> tuple[str, str, str]:
        """Ways to write it, from long to short: "none → high", the same in two lines, and "+2",
        which is empty where there is no more or less."""
        number = f"{self.size:+g}".replace("-", "−") if self.direction else ""
        label = self.text or number
        return label, label.replace(" → ", "\n→ "), number

    @property
    def label(self) -> str:
        """Direction and size in a few signs: "+2", "−0.5", "none → high"."""
        return self.texts[0]


def moves_of(changes: Iterable[Change], labels: Labels) -> tuple[Move, ...]:
    """One for each dose that a change of the action changes."""
    found: list[Move] = []
    known = range(len(labels.actions))
    for t, observed, alternative in changes:
        if isinstance(observed, tuple) and isinstance(alternative, tuple):  # doses themselves
            both = zip(labels.doses, observed, alternative, strict=False)
            found += [move(t, dose, old, new) for dose, old, new in both if old != new]
            continue
        if observed not in known or alternative not in known:
            found.append(Move(t, "action", math.nan, math.nan, f"{observed} → {alternative}"))
            continue
        both = zip(labels.doses, labels.actions[observed], labels.actions[alternative], strict=True)
        found += [move(t, dose, float(old), float(new)) for dose, old, new in both if old != new]
    return tuple(found)


def move(t: int, dose: Column, before: float, after: float) -> Move:
    """A change of one dose, in the words of its column."""
    names = value_names(dose)
    if dose.is_dose and dose.low is not None:
        before, after = (round(one, dose.decimals) for one in (before, after))
    if before not in names or after not in names:
        return Move(t, with_unit(dose), before, after)
    text = f"{names[before]} → {names[after]}"
    if dose.levels is None:  # names alone have no order
        before = after = math.nan
    return Move(t, with_unit(dose), before, after, text)
