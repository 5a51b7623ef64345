"""Tables of ICU stays that a neural model can be learned from, and how each is laid out.

    CohortLayout   the sepsis cohort of the AI Clinician's pipeline (`domains.sepsis`)
    IcuLayout      four-hour steps as they were recorded, gaps and all (`domains.icu_episodes`)

Actions of both are five levels each of vasopressors and fluids, numbered 5 * vasopressor + fluids;
the reward is -SOFA. A model learned from doses remembers where their levels begin, so that a level
means the same dose in every table it is used on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.table import table_columns
from counterplan.core.validation import whole_number
from counterplan.domains import icu_episodes, sepsis, sepsis_table
from counterplan.domains.sepsis_table import BLOC, HOURS, LEVELS, STAY, DoseEdges
from counterplan.errors import FileError, InputError
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.point import Scaling
from counterplan.scm.support import collect_seen
from counterplan.scm.training import MOST_UNITS, Training, constants
from counterplan.scm.transitions import Transitions
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded
from counterplan.tables.schema import Column, Grid, Schema

DRUGS = ("vasopressor", "fluids")

UNDERSTOOD = (
    "discrete episodes (episode_id, t, state, action, reward), a sepsis cohort (icustayid, bloc, "
    "...) or ICU stays in four-hour steps (episode_id, t, a_vaso, a_iv, ...)"
)


@dataclass(frozen=True, eq=False)
class Stays:
    """What a table holds.

    hours    for each episode (T,): when its rows begin, in the table's unit
    summary  one line about the table
    edges    which doses make which level, None if the table has levels instead of doses
    dropped  why each stay that is left out is left out
    died     whether each patient died, none if the table does not say
    filled   how many missing values of each episode were filled in, none if none were
    """

    episodes: tuple[Episode, ...]
    hours: tuple[NDArray[Any], ...]
    summary: str
    edges: DoseEdges | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)
    died: Sequence[bool] = ()
    filled: Sequence[int] = ()

    def recorded(self) -> list[Recorded]:
        """The stays as cohort runs take them."""
        died: list[tuple[tuple[str, str], ...]] = [(("died", str(int(one))),) for one in self.died]
        died = died or [()] * len(self.episodes)
        filled = list(self.filled) or [0] * len(self.episodes)
        hours = [np.asarray(times, dtype=np.float64) for times in self.hours]
        rows = zip(self.episodes, hours, filled, died, strict=True)
        return [Recorded(episode, times, int(count), what) for episode, times, count, what in rows]


def _levels(name: str) -> Column:
    return Column(name, "action", levels=tuple(float(level) for level in range(LEVELS)))


class CohortLayout(SchemaLayout):
    """The sepsis cohort of the AI Clinician's pipeline: see `domains.sepsis_table`."""

    def __init__(self) -> None:
        columns = [Column(name, "fixed") for name in sepsis_table.FIXED]
        columns += [Column(name, "state") for name in sepsis_table.MOVING[:-1]]
        columns += [Column("SOFA", "state", better="lower"), *map(_levels, DRUGS)]
        columns.append(Column("ventilation", "contextual", levels=(0.0, 1.0)))
        super().__init__(Schema(tuple(columns), STAY, BLOC, HOURS, 1.0, "h"))

    def matches(self, columns: set[str]) -> bool:
        """Whether a table with these columns is meant to be of this kind."""
        return bool(columns & {STAY, BLOC})

    def read(self, path: str | Path, edges: DoseEdges | None) -> Stays:
        """The stays of a table; the edges of doses are its own if not given."""
        cohort = sepsis_table.read_cohort(path, edges)
        return Stays(
            cohort.episodes,
            cohort.hours,
            cohort.summary(),
            cohort.edges,
            cohort.dropped,
            cohort.died.tolist(),
        )

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        """The paper's."""
        return sepsis.scaling_of(episodes)


class IcuLayout(SchemaLayout):
    """Four-hour steps as they were recorded, gaps and all: see `domains.icu_episodes`."""

    def __init__(self) -> None:
        columns = [Column(name, "fixed") for name in icu_episodes.FIXED]
        columns += [Column(name, "state") for name in icu_episodes.PLAUSIBLE]
        columns.append(Column("sofa", "state", better="lower"))
        columns += map(_levels, icu_episodes.ACTIONS)
        super().__init__(Schema(tuple(columns), step=HOURS, unit="h"))
        self.choices = Grid(tuple(map(_levels, DRUGS)))

    def matches(self, columns: set[str]) -> bool:
        """Whether a table with these columns is meant to be of this kind."""
        return set(icu_episodes.ACTIONS) <= columns

    def read(self, path: str | Path, edges: DoseEdges | None) -> Stays:
        """The stays of a table, which holds levels instead of doses."""
        found = icu_episodes.read_episodes_4h(path)
        hours = tuple(HOURS * np.arange(len(episode)) for episode in found.episodes)
        died, filled = found.died.tolist(), found.filled.tolist()
        return Stays(found.episodes, hours, found.summary(), died=died, filled=filled)

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        """The range of each column."""
        return None


StayLayout: TypeAlias = CohortLayout | IcuLayout
LAYOUTS: tuple[StayLayout, ...] = (CohortLayout(), IcuLayout())


def layout_of(path: str | Path) -> StayLayout | None:
    """The kind of a table by its columns, None if it is no table of stays."""
    columns = set(table_columns(path))
    return next((layout for layout in LAYOUTS if layout.matches(columns)), None)


EDGES = "dose_edges"
# Nats per transition and feature by which a fit may be worse than a linear one without a warning.
TOLERATED_LOSS = 0.1


@dataclass(frozen=True)
class CohortSettings:
    """How a model is learned from a cohort; see `NeuralSCM.fit`.

    support  keep some of the data in the model, to tell how far explanations leave it
    """

    hidden: int = 200
    epochs: int = 100
    lipschitz: tuple[float, float] | None = (1.0, 0.1)
    seed: int = 0
    support: bool = True

    def __post_init__(self) -> None:
        whole_number(self.hidden, "hidden", 1, MOST_UNITS)
        whole_number(self.epochs, "epochs", minimum=1)
        constants(self.lipschitz)


def is_cohort_table(path: str | Path) -> bool:
    """Whether the columns of the file are those of a table of ICU stays."""
    return layout_of(path) is not None


def fit_cohort(path: str | Path, settings: CohortSettings) -> tuple[NeuralSCM, Stays]:
    """Learn a model from a table."""
    layout = _layout(path)
    stays = layout.read(path, None)
    try:
        scm = learn(stays.episodes, layout, settings)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    if stays.edges is None:
        return scm, stays
    edges = {drug: list(getattr(stays.edges, drug)) for drug in DRUGS}
    return replace(scm, about={**scm.about, EDGES: edges}), stays


def learn(episodes: Sequence[Episode], layout: SchemaLayout, settings: CohortSettings) -> NeuralSCM:
    """A model of the episodes of a table."""
    transitions = Transitions.collect(episodes, None, layout.features, layout.actions)
    scm = NeuralSCM.fit(
        transitions,
        hidden=settings.hidden,
        lipschitz=settings.lipschitz,
        epochs=settings.epochs,
        seed=settings.seed,
        fixed=layout.fixed,
        training=Training(scaling=layout.scaling(episodes)),
    )
    if not settings.support:
        return scm
    return replace(scm, seen=collect_seen(transitions, scm.scaling, settings.seed))


def poor_fit(scm: NeuralSCM) -> str | None:
    """Which simple model fits clearly better than this one, with its log-likelihood; None if none
    does."""
    record = scm.about["training"]
    loss = record["validation_nll"][record["best_epoch"] - 1]
    worst = loss - TOLERATED_LOSS * len(scm.noise_cholesky)
    for kind, words in (
        ("constant", "a constant, which looks at neither states nor actions,"),
        ("linear", "linear regression"),
    ):
        reference = record["reference_nll"][kind]
        if reference < worst:
            return f"{words} fits the held-out episodes better ({-reference:.3f} nats)"
    return None


def stays_for(scm: NeuralSCM, model: str | Path, table: str | Path) -> tuple[Stays, StayLayout]:
    """The stays of a table, with the dose levels of the cohort that the model was learned from."""
    layout = _layout(table)
    try:
        scm.check_schema(layout.features, layout.actions)
    except InputError as problem:
        raise FileError(f"{model}: does not fit {table}: {problem}; give another") from None
    edges = _edges(scm, model) if isinstance(layout, CohortLayout) else None
    return layout.read(table, edges), layout


def _layout(path: str | Path) -> StayLayout:
    layout = layout_of(path)
    if layout is None:
        raise FileError(f"{path}: is no table of ICU stays (columns icustayid, bloc, ...)")
    return layout


def _edges(scm: NeuralSCM, model: str | Path) -> DoseEdges:
    stored = scm.about.get(EDGES)
    if not isinstance(stored, Mapping) or set(stored) != {"vasopressor", "fluids"}:
        raise FileError(
            f"{model}: does not say which doses make which level, so it was not learned from a "
            "cohort table; use `counterplan fit` on one"
        )
    try:
        vasopressor, fluids = (
            tuple(map(float, stored[drug])) for drug in ("vasopressor", "fluids")
        )
        return DoseEdges(vasopressor, fluids)  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        raise FileError(f"{model}: its dose levels are damaged: {problem}; fit it anew") from None
