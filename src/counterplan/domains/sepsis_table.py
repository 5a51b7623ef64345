"""The sepsis cohort table of the AI Clinician pipeline, as the 2023 paper reads it (appendix G),
and models learned from tables of stays that need no schema of the user's.

One row for each four hours of an ICU stay (`bloc` = 1, 2, ..), in physical units:

    icustayid, bloc                  which stay, which four hours of it
    gender, re_admission, age        fixed; 0/1, 0/1, days as the pipeline writes it
    FiO2_1 .. output_4hourly, SOFA   what moves
    max_dose_vaso, input_4hourly     vasopressor mcg/kg/min and fluids mL in these four hours
    mechvent                         mechanical ventilation, 0/1
    died_within_48h_of_out_time      0/1

CSV or Parquet; other columns are ignored. A dose is level 0 if there is none, else 1..4 by the
quartiles of all doses above zero; a dose that equals a quartile belongs to the level above it.
Stays of 10 to 20 rows are kept. The pipeline leaves out four hours in which nothing was recorded;
like the paper, this reader takes the rows of a stay as consecutive steps, but keeps the hours at
which they begin, and counts the steps that jump.

Actions of this table and of that of `domains.icu_episodes` are five levels each of vasopressors and
fluids, numbered 5 * vasopressor + fluids; the reward is -SOFA. A model learned from doses remembers
where their levels begin, so that a level means the same dose in every table it is used on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.table import table_columns
from counterplan.core.validation import FloatArray, IntArray
from counterplan.domains.icu_episodes import (
    ACTIONS,
    DRUGS,
    HOURS,
    LEVELS,
    IcuEpisodes,
    IcuLayout,
    Stays,
    drug_levels,
    read_episodes_4h,
    read_stays,
    shipped_schema,
)
from counterplan.errors import FileError, InputError
from counterplan.tables.fit import Fit, LearnerSettings, examined
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.schema import Column

if TYPE_CHECKING:
    from counterplan.scm.learned import LearnedSCM

SCHEMA = shipped_schema("sepsis_cohort")
FIXED = tuple(column.name for column in SCHEMA.of("fixed"))
# The last two columns of states are doses.
MOVING = tuple(column.name for column in SCHEMA.of("state"))[:-2]
FEATURES = (*FIXED, *MOVING)
COLUMNS = (SCHEMA.episode, SCHEMA.time, *(column.name for column in SCHEMA.columns))
SOFA = FEATURES.index("SOFA")
# So many leading features are 0 or 1: shifted, not stretched to the range seen.
BINARY = 2
SHORTEST, LONGEST = 10, 20
TOO_SHORT = f"fewer than {SHORTEST} steps"
TOO_LONG = f"more than {LONGEST} steps"


@dataclass(frozen=True)
class DoseEdges:
    """Where levels 2, 3 and 4 begin; level 1 is any smaller dose above zero."""

    vasopressor: tuple[float, ...]
    fluids: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("vasopressor", "fluids"):
            edges = np.asarray(getattr(self, name), dtype=np.float64)
            rising = edges.shape == (LEVELS - 2,) and (np.diff(edges) >= 0.0).all()
            if not (rising and edges[0] > 0.0 and edges[-1] < np.inf):
                raise InputError(
                    f"edges of {name} doses must be three rising numbers above zero, got "
                    f"{getattr(self, name)}"
                )

    @classmethod
    def quartiles(cls, vasopressor: FloatArray, fluids: FloatArray) -> DoseEdges:
        """Of the doses above zero."""
        edges = {}
        for name, doses in (("vasopressor", vasopressor), ("fluids", fluids)):
            given = doses[doses > 0.0]
            if given.size == 0:
                raise InputError(
                    f"no {name} dose is above zero, so it has no quartiles: pass the edges of "
                    "another cohort"
                )
            edges[name] = tuple(np.quantile(given, (0.25, 0.5, 0.75)).tolist())
        return cls(**edges)

    def levels(self, vasopressor: FloatArray, fluids: FloatArray) -> IntArray:
        """(n, 2) levels 0..4 of doses (n,) each."""
        pairs = ((vasopressor, self.vasopressor), (fluids, self.fluids))
        starts = ((doses > 0.0, np.searchsorted(edges, doses, "right")) for doses, edges in pairs)
        return np.column_stack([given * (1 + above) for given, above in starts])


@dataclass(frozen=True, eq=False)
class SepsisCohort(Stays):
    """The stays of a table that are kept: states (T, 12) in physical units, in the order of
    FEATURES, and actions (T-1, 3), vasopressor level, fluid level, ventilation. Bloc 1 is hour 0,
    and died who did so within 48 hours of leaving the ICU.

    edges  which doses make which level
    """

    edges: DoseEdges | None = None

    @property
    def jumps(self) -> int:
        """Steps that are longer than four hours, since the table has no row for a bloc."""
        return sum(int((np.diff(hours) > HOURS).sum()) for hours in self.hours)

    def summary(self) -> str:
        """One line: how many stays were kept and dropped, and why; how many steps jump."""
        text = f"{len(self.recorded):,} stays kept, {len(self.dropped):,} dropped"
        if self.dropped:
            reasons = sorted(Counter(self.dropped.values()).items())
            text += f" ({'; '.join(f'{count:,} with {reason}' for reason, count in reasons)})"
        if not self.jumps:
            return text
        steps = "1 step is" if self.jumps == 1 else f"{self.jumps:,} steps are"
        return f"{text}; {steps} longer than {HOURS} hours, since blocs are missing"


def read_cohort(path: str | Path, edges: DoseEdges | None = None) -> SepsisCohort:
    """The cohort in a CSV or Parquet table; all mistakes in it are one error.

    edges  dose levels of another cohort, e.g. the one a model was trained on; None takes the
           quartiles of this one's doses
    """
    _, every = read_stays(path, SCHEMA, "a sepsis cohort")
    for one in every:
        blocs = one.times / HOURS
        for t in np.flatnonzero((blocs < 1.0) | (blocs % 1.0 > 0.0)):
            assert one.rows is not None
            place = f"{path}, row {one.rows[t]}, column {SCHEMA.time!r}"
            raise FileError(f"{place}: {blocs[t]:g} is not a whole number from 1 up; correct it")
    kept = [one for one in every if SHORTEST <= len(one.times) <= LONGEST]
    dropped = {
        str(one.episode.id): TOO_SHORT if len(one.times) < SHORTEST else TOO_LONG
        for one in every
        if not SHORTEST <= len(one.times) <= LONGEST
    }
    if not kept:
        nothing = SepsisCohort((), dropped).summary()
        raise FileError(f"{path}: no stay can be used: {nothing}; add others")
    doses = np.concatenate([one.episode.states[:, len(FEATURES) :] for one in kept])
    try:
        edges = edges or DoseEdges.quartiles(*doses.T)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    return SepsisCohort(tuple(_with_levels(one, edges) for one in kept), dropped, edges)


def _with_levels(one: Recorded, edges: DoseEdges) -> Recorded:
    """A stay whose doses, the last columns of its states, have become actions."""
    states, doses = np.split(one.episode.states, [len(FEATURES)], axis=1)
    actions = np.column_stack([edges.levels(*doses[:-1].T), one.episode.actions])
    episode = Episode(states, actions, id=one.episode.id)
    return one._replace(episode=episode, times=one.times - HOURS)


class CohortLayout(SchemaLayout):
    """States and actions as above, ventilation replayed as it was, and -SOFA as the reward."""

    dose_unit = "level"

    def __init__(self) -> None:
        ventilation = Column("ventilation", "contextual", levels=(0.0, 1.0))
        columns = (*SCHEMA.features[: len(FEATURES)], *drug_levels(*DRUGS), ventilation)
        super().__init__(replace(SCHEMA, columns=columns))

    def state_ranges(self, table: Rows) -> FloatArray:
        """The paper's: 0/1 features are shifted, not stretched to the range seen."""
        flags = np.array([[0.0], [1.0]]).repeat(BINARY, axis=1)
        return np.concatenate([flags, table.ranges[:, BINARY:]], axis=1)


# --- Models of stays -------------------------------------------------------------------------

StayLayout: TypeAlias = CohortLayout | IcuLayout
EDGES = "dose_edges"


def layout_of(path: str | Path) -> StayLayout | None:
    """The kind of a table by its columns, None if it is no table of stays."""
    columns = set(table_columns(path))
    if columns & {SCHEMA.episode, SCHEMA.time}:
        return CohortLayout()
    return IcuLayout() if set(ACTIONS) <= columns else None


def fit_cohort(path: str | Path, settings: LearnerSettings, support: bool = True) -> Fit:
    """Learn a model from a table of stays; see `tables.fit.examined`."""
    layout = layout_of(path)
    if layout is None:
        raise FileError(f"{path}: is no table of ICU stays (columns icustayid, bloc, ...)")
    stays = read_episodes_4h(path) if isinstance(layout, IcuLayout) else read_cohort(path)
    about = {}
    if isinstance(stays, SepsisCohort):
        about[EDGES] = {drug: list(getattr(stays.edges, drug)) for drug in DRUGS}
    try:
        scm, told = examined(Rows(stays.recorded), layout, settings, support, about)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    dropped = len(stays.dropped)
    return Fit(scm, stays.summary(), layout, told, episodes=stays.episodes, dropped=dropped)


def stays_for(
    scm: LearnedSCM, model: str | Path, table: str | Path, layout: StayLayout
) -> IcuEpisodes | SepsisCohort:
    """The stays of a table, with the dose levels of the cohort that the model was learned from."""
    try:
        scm.check_schema(layout.features, layout.actions)
    except InputError as problem:
        raise FileError(f"{model}: does not fit {table}: {problem}; give another") from None
    if isinstance(layout, IcuLayout):
        return read_episodes_4h(table)
    stored = scm.about.get(EDGES)
    if not isinstance(stored, Mapping) or set(stored) != set(DRUGS):
        raise FileError(
            f"{model}: does not say which doses make which level, so it was not learned from a "
            "cohort table; use `counterplan fit` on one"
        )
    try:
        edges = DoseEdges(*(tuple(map(float, stored[drug])) for drug in DRUGS))
    except (TypeError, ValueError) as problem:
        raise FileError(f"{model}: its dose levels are damaged: {problem}; fit it anew") from None
    return read_cohort(table, edges)
