"""What numbers are called and how they are written: outcomes, features, doses and their changes.

Quantity   an outcome: its name, unit and way of writing values
    Labels     features of states and doses of actions; `labels_of` a schema, a layout or a model
Move       what an explanation changes about one dose
as_rows    tables of a run, as frames or mappings, which figures take as well as results
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.result import Change
from counterplan.core.validation import FloatArray
from counterplan.domains.icu_episodes import IcuLayout
from counterplan.domains.icu_sepsis import DEATH, SURVIVAL, IcuSepsis
from counterplan.domains.icu_sepsis import LEVELS as DOSE_LEVELS
from counterplan.domains.sepsis_table import CohortLayout
from counterplan.errors import InputError
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.layout import SchemaLayout, layout_of_model
from counterplan.tables.schema import Column, Grid, Schema
from counterplan.tables.stays import DRUGS, HOURS

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axis import Axis

# From where to where numbers are written in full.
LARGE, HUGE = 1e3, 1e15


@dataclass(frozen=True)
class Quantity:
    """An outcome's name, whether it is a probability to be written in percent, its unit, and
    whether higher or lower values are better."""

    name: str = "outcome"
    percent: bool = False
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"

    @property
    def title(self) -> str:
        """The name at the start of a label."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def label(self) -> str:
        """What stands at an axis: the name and the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def write(self, value: float) -> str:
        """A value as text: 83.8 % for probabilities, otherwise four significant digits or, if it
        is large, all in front of the point."""
        if not math.isfinite(value):
            return f"{value}"
        value = 0.0 if value == 0.0 else value  # no minus in front of a zero
        if self.percent:
            return f"{100 * value:.1f} %"
        return f"{value:,.0f}" if LARGE <= abs(value) < HUGE else f"{value:.4g}"

    def write_gain(self, value: float) -> str:
        """A difference of two values, with its sign; of percentages, in points."""
        sign = "+" if value > 0 else ""
        if self.percent and math.isfinite(value):
            return f"{sign}{100 * value + 0.0:.1f} points"
        return f"{sign}{self.write(value)}"

    def write_range(self, low: float, high: float) -> str:
        """An interval as text."""
        if self.percent and math.isfinite(low) and math.isfinite(high):
            return f"{100 * low + 0.0:.1f} to {100 * high + 0.0:.1f} %"
        return f"{self.write(low)} to {self.write(high)}"

    def label_axis(self, axis: Axis) -> None:
        """Write the axis's numbers in this quantity's way."""
        axis.set_major_formatter(lambda value, _: self.write_tick(value))

    def write_tick(self, value: float) -> str:
        """A round number beside an axis, with as many digits as it needs: 2.5 % rounded to whole
        percent would be wrong."""
        if self.percent:
            return f"{100 * value + 0.0:.6g} %"
        return f"{value + 0.0:,.6g}".replace("-", "−")


def share(probability: float) -> str:
    """A probability in whole percent; what is neither never nor always does not look so."""
    if 0.0 < probability < 0.01:
        return "< 1 %"
    if 0.99 < probability < 1.0:
        return "> 99 %"
    return f"{100 * probability:.0f} %"


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


# --- Labels of everything that knows names ---

Named: TypeAlias = (
    Labels | Schema | SchemaLayout | TabularMDP | GumbelMaxSCM | NeuralSCM | IcuSepsis
)
# Units of the built-in tables of intensive care, by column.


def labels_of(source: Named) -> Labels:
    """The names that a schema, a layout, a model or a shipped problem has for its numbers."""
    if isinstance(source, Labels):
        return source
    if isinstance(source, GumbelMaxSCM):
        source = source.mdp
    if isinstance(source, TabularMDP | NeuralSCM):
        return _of_model(source)
    if isinstance(source, Schema):
        source = SchemaLayout(source)
    if isinstance(source, CohortLayout | IcuLayout):
        return _of_stays(source)
    if isinstance(source, SchemaLayout):
        return _of_schema(source)
    if isinstance(source, IcuSepsis):
        return _of_icu_sepsis(source)
    raise InputError(
        f"{type(source).__name__} has no names for features and doses: pass a SchemaLayout, or "
        "viz.Labels.named(features, doses, actions)"
    )


def _of_schema(layout: SchemaLayout) -> Labels:
    schema, states = layout.schema, layout.states
    return Labels(
        schema.features,
        layout.choices.columns,
        layout.choices.vectors,
        None if states is None else states.vectors,
        step=schema.step,
        unit=schema.unit,
    )


def _of_model(model: TabularMDP | NeuralSCM) -> Labels:
    layout = layout_of_model(model)
    if layout is not None:
        return _of_schema(layout)
    if isinstance(model, NeuralSCM):
        raise InputError(
            "the model remembers no schema, so its features have no names: pass a layout, or "
            "viz.Labels.named(features, doses, actions)"
        )
    states = tuple(model.state_name(state) for state in range(model.n_states))
    actions = tuple(model.action_name(action) for action in range(model.n_actions))
    return Labels(
        (Column("state", "state", labels=states),),
        (Column("action", "action", labels=actions),),
        _numbered(model.n_actions),
        _numbered(model.n_states),
    )


def _of_stays(layout: CohortLayout | IcuLayout) -> Labels:
    """The tables of intensive care: five levels each of two drugs, the SOFA score to be lowered."""
    features = tuple(
        Column(column.name, "state", unit=column.unit, better=column.better)
        for column in layout.schema.features
    )
    doses = Grid(tuple(_levels(drug) for drug in DRUGS))
    return Labels(features, doses.columns, doses.vectors, step=float(HOURS), unit="h")


def _of_icu_sepsis(model: IcuSepsis) -> Labels:
    """Discrete states with a severity; the last three are no states of illness."""
    score = np.where(np.arange(len(model.sofa)) < DEATH, model.sofa, np.nan)[:, np.newaxis]
    doses = Grid((_levels("fluids"), _levels("vasopressor")))
    return Labels(
        (Column("SOFA", "state", unit="points", better="lower"),),
        doses.columns,
        doses.vectors,
        score,
        {DEATH: "died", SURVIVAL: "alive"},
        outcome=Quantity("survival probability", percent=True),
    )


def _levels(drug: str) -> Column:
    levels = tuple(float(level) for level in range(DOSE_LEVELS))
    return Column(drug, "action", unit="level", levels=levels)


def _numbered(count: int) -> FloatArray:
    return np.arange(count, dtype=np.float64)[:, np.newaxis]


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
    def label(self) -> str:
        """Direction and size in a few signs: "+2", "−0.5", "none → high"."""
        return self.text or self.number

    @property
    def number(self) -> str:
        """The size of the change; empty where there is no more or less."""
        return f"{self.size:+g}".replace("-", "−") if self.direction else ""

    @property
    def two_lines(self) -> str:
        """The label in less width."""
        return self.label.replace(" → ", "\n→ ")


def moves_of(changes: Iterable[Change], labels: Labels) -> tuple[Move, ...]:
    """One for each dose that a change of the action changes."""
    found: list[Move] = []
    for t, observed, alternative in changes:
        known = range(len(labels.actions))
        if observed not in known or alternative not in known:
            found.append(Move(t, "action", math.nan, math.nan, f"{observed} → {alternative}"))
            continue
        both = zip(labels.doses, labels.actions[observed], labels.actions[alternative], strict=True)
        found += [move(t, dose, float(old), float(new)) for dose, old, new in both if old != new]
    return tuple(found)


def move(t: int, dose: Column, before: float, after: float) -> Move:
    """A change of one dose, in the words of its column."""
    named = dict(zip(dose.values or (), dose.labels or (), strict=False))
    if before not in named or after not in named:
        return Move(t, with_unit(dose), before, after)
    text = f"{named[before]} → {named[after]}"
    if dose.levels is None:  # names alone have no order
        before = after = math.nan
    return Move(t, with_unit(dose), before, after, text)


# --- Tables of a run as rows: polars frames, lazy or not, or mappings ---

Rows: TypeAlias = "pl.DataFrame | pl.LazyFrame | Iterable[Mapping[str, Any]]"


def is_table(given: object) -> bool:
    """Whether this is a frame, or rows of one."""
    if hasattr(given, "collect_schema") or hasattr(given, "to_dicts"):
        return True
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)


def as_rows(table: Any, what: str, *needed: str) -> list[Mapping[str, Any]]:
    """The rows of a table that must have some columns; `what` names it in errors."""
    frame = table.collect() if hasattr(table, "collect") else table
    rows: list[Mapping[str, Any]]
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else list(frame)
    if not rows:
        raise InputError(f"{what}: there are no rows to draw")
    absent = [name for name in needed if name not in rows[0]]
    if absent:
        raise InputError(f"{what}: the table has no column {absent[0]!r}")
    return rows


def one_episode(rows: list[Mapping[str, Any]], what: str) -> list[Mapping[str, Any]]:
    """Rows of one episode and budget, in the order of their steps."""
    which = {(row["episode_id"], row["k"]) for row in rows}
    if len(which) > 1:
        raise InputError(
            f"{what}: the table holds {len(which):,} pairs of episode and k; choose one, such as "
            "table.filter(episode_id=..., k=...)"
        )
    return sorted(rows, key=lambda row: int(row["t"]))
