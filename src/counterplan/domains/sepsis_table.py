"""The sepsis cohort table of the AI Clinician pipeline, as the 2023 paper reads it (appendix G).

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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.table import Block, open_table_file
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, InputError

FIXED = ("gender", "re_admission", "age")
MOVING = (
    *("FiO2_1", "paO2", "Platelets_count", "Total_bili", "GCS"),
    *("MeanBP", "Creatinine", "output_4hourly", "SOFA"),
)
FEATURES = (*FIXED, *MOVING)
STAY, BLOC = "icustayid", "bloc"
VASOPRESSOR, FLUIDS, VENTILATION = "max_dose_vaso", "input_4hourly", "mechvent"
DIED = "died_within_48h_of_out_time"
COLUMNS = (STAY, BLOC, *FEATURES, VASOPRESSOR, FLUIDS, VENTILATION, DIED)
FLAGS = ("gender", "re_admission", VENTILATION, DIED)
# As Parquet stores flags.
TRUTH = {"false": 0.0, "true": 1.0}
SOFA = FEATURES.index("SOFA")
HIGHEST_SOFA = 24
LEVELS = 5
# Length of a bloc.
HOURS = 4
SHORTEST, LONGEST = 10, 20
# Larger floats stop to be whole numbers.
LARGEST_COUNT = 2**53
TOO_SHORT = f"fewer than {SHORTEST} steps"
TOO_LONG = f"more than {LONGEST} steps"


@dataclass(frozen=True)
class DoseEdges:
    """Where levels 2, 3 and 4 begin; level 1 is any smaller dose above zero."""

    vasopressor: tuple[float, float, float]
    fluids: tuple[float, float, float]

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
            low, middle, high = (float(q) for q in np.quantile(given, (0.25, 0.5, 0.75)))
            edges[name] = (low, middle, high)
        return cls(**edges)

    def levels(self, vasopressor: FloatArray, fluids: FloatArray) -> IntArray:
        """(n, 2) levels 0..4 of doses (n,) each."""
        pairs = ((vasopressor, self.vasopressor), (fluids, self.fluids))
        levels = [
            (doses > 0.0) * (1 + np.searchsorted(edges, doses, side="right"))
            for doses, edges in pairs
        ]
        return np.stack(levels, axis=1)


@dataclass(frozen=True, eq=False)
class SepsisCohort:
    """The stays of a table that are kept.

    episodes      (T, 12) states in physical units, in the order of FEATURES, and actions (T-1, 3):
                  vasopressor level, fluid level, ventilation
    died          (n,) within 48 hours of leaving the ICU
    edges         which doses make which level
    level_doses   (2, 5) median vasopressor and fluid dose of each level, nan if nobody had it
    dropped       why each stay that is left out is left out
    hours         for each episode (T,): when its rows begin, bloc 1 being hour 0
    """

    episodes: tuple[Episode, ...]
    died: BoolArray
    edges: DoseEdges
    level_doses: FloatArray
    dropped: Mapping[str, str]
    hours: tuple[IntArray, ...]

    @property
    def jumps(self) -> int:
        """Steps that are longer than four hours, since the table has no row for a bloc."""
        return sum(int((np.diff(hours) > HOURS).sum()) for hours in self.hours)

    def summary(self) -> str:
        """One line: how many stays were kept and dropped, and why; how many steps jump."""
        text = _summary(len(self.episodes), self.dropped)
        if not self.jumps:
            return text
        steps = "1 step is" if self.jumps == 1 else f"{self.jumps:,} steps are"
        return f"{text}; {steps} longer than {HOURS} hours, since blocs are missing"


def read_cohort(path: str | Path, edges: DoseEdges | None = None) -> SepsisCohort:
    """The cohort in a CSV or Parquet table. Mistakes in it are one error, about the first of them.

    edges  dose levels of another cohort, e.g. the one a model was trained on; None takes the
           quartiles of this one's doses
    """
    table = open_table_file(path, "a sepsis cohort", formats=()).read(COLUMNS)
    columns = _checked_columns(table)
    stays = table.groups(columns[STAY], columns[BLOC])
    repeated = np.zeros(len(table), dtype=np.bool_)
    for rows in stays:
        repeated[rows[1:]] = np.diff(columns[BLOC][rows]) == 0.0
    table.report(repeated, BLOC, "occurs twice in this stay; remove one of the rows")
    for name in (*FIXED, DIED):
        table.expect_constant(name, columns[name], stays)
    table.mistakes.refuse()
    kept, dropped = _select(columns[STAY], stays)
    if not kept:
        raise FileError(f"{path}: no stay can be used: {_summary(0, dropped)}; add others")
    try:
        return _cohort(columns, kept, dropped, edges)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


def _summary(kept: int, dropped: Mapping[str, str]) -> str:
    reasons = Counter(dropped.values())
    why = "; ".join(f"{count:,} with {reason}" for reason, count in sorted(reasons.items()))
    text = f"{kept:,} stays kept, {len(dropped):,} dropped"
    return f"{text} ({why})" if why else text


def _checked_columns(table: Block) -> dict[str, FloatArray]:
    """Every column as numbers, with what is wrong reported to the table."""
    columns = {name: table.numbers(name, may_miss=False) for name in COLUMNS if name not in FLAGS}
    for name in FLAGS:
        problem = "is not 0 or 1; correct it"
        columns[name] = table.choices(name, TRUTH, (0.0, 1.0), problem, may_miss=False)

    def expect(name: str, right: BoolArray, problem: str) -> None:
        table.expect(name, columns[name], right, problem)

    for name in (STAY, BLOC):
        whole = (columns[name] >= 1.0) & (columns[name] == np.floor(columns[name]))
        whole &= columns[name] <= LARGEST_COUNT
        expect(name, whole, "is not a whole number from 1 up; correct it")
    for name in (VASOPRESSOR, FLUIDS):
        expect(name, columns[name] >= 0.0, "is a negative dose; correct it or set it to 0")
    sofa = columns["SOFA"]
    expect("SOFA", (sofa >= 0.0) & (sofa <= HIGHEST_SOFA), "is not a SOFA score, 0..24; correct it")
    return columns


def _select(stay: FloatArray, stays: Sequence[IntArray]) -> tuple[list[IntArray], dict[str, str]]:
    """The stays whose length is right, and why the others are left out."""
    kept: list[IntArray] = []
    dropped: dict[str, str] = {}
    for rows in stays:
        if SHORTEST <= len(rows) <= LONGEST:
            kept.append(rows)
        else:
            dropped[_name(stay[rows[0]])] = TOO_SHORT if len(rows) < SHORTEST else TOO_LONG
    return kept, dropped


def _cohort(
    columns: Mapping[str, FloatArray],
    kept: Sequence[IntArray],
    dropped: Mapping[str, str],
    edges: DoseEdges | None,
) -> SepsisCohort:
    used = np.concatenate(kept)
    doses = np.stack([columns[VASOPRESSOR], columns[FLUIDS]])
    edges = edges or DoseEdges.quartiles(*doses[:, used])
    levels = edges.levels(*doses)
    states = np.stack([columns[name] for name in FEATURES], axis=1)
    actions = np.column_stack([levels, columns[VENTILATION]])
    episodes = tuple(
        Episode(states[rows], actions[rows[:-1]], id=_name(columns[STAY][rows[0]])) for rows in kept
    )
    return SepsisCohort(
        episodes,
        np.array([columns[DIED][rows[-1]] == 1.0 for rows in kept]),
        edges,
        _level_doses(doses[:, used], levels[used]),
        dropped,
        tuple(HOURS * (columns[BLOC][rows].astype(np.int64) - 1) for rows in kept),
    )


def _level_doses(doses: FloatArray, levels: IntArray) -> FloatArray:
    """(2, 5) the median dose of each level (the paper's Table 2)."""
    medians = np.full((2, LEVELS), np.nan)
    for drug in range(2):
        for level in range(LEVELS):
            given = doses[drug, levels[:, drug] == level]
            if given.size:
                medians[drug, level] = np.median(given)
    return medians


def _name(stay: float) -> str:
    return str(int(stay))
