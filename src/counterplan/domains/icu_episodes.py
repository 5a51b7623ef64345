"""Real intensive-care episodes as they are: gaps, slips of the pen and all.

Reads the table of four-hour steps made from the open MIMIC-III demo (132 stays), CSV or Parquet: a
row for each step t = 0, 1, .. of an episode with vital signs, laboratory values, and five levels
each of intravenous fluids (`a_iv`) and vasopressors (`a_vaso`). Its values are crude, so this
reader says what it makes of them, in this order, and counts every case:

    implausible   outside PLAUSIBLE: taken as missing (a heart rate of 0 is a lost electrode)
    carried       missing: the last value of the same episode
    imputed       nothing before it: the median of the column over all episodes

The SOFA score says how far six organ systems have failed, 0..4 points each, 24 in all:

    lungs        PaO2 / FiO2 below 400, 300, 200, 100 mmHg
    coagulation  platelets below 150, 100, 50, 20 thousand per microlitre
    liver        bilirubin from 1.2, 2, 6, 12 mg/dL on
    circulation  mean arterial pressure below 70 (1) or 65 mmHg (2); any vasopressor (3), more than
                 0.1 mcg/kg/min (4)
    nerves       Glasgow coma scale up to 14, 12, 9, 5
    kidneys      creatinine from 1.2, 2, 3.5, 5 mg/dL on, or urine below 84 (3) or 34 mL (4) in four
                 hours

It is computed from the filled values without its nerve points, since the table has no
coma scale, and without points for vasopressors, which are actions here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.table import Block, open_table_file
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError

# --- The SOFA score ---------------------------------------------------------------------------

# Values at which the next point is given.
LUNGS = (400.0, 300.0, 200.0, 100.0)
PLATELETS = (150.0, 100.0, 50.0, 20.0)
BILIRUBIN = (1.2, 2.0, 6.0, 12.0)
PRESSURE = (70.0, 65.0)
NERVES = (14.0, 12.0, 9.0, 5.0)
CREATININE = (1.2, 2.0, 3.5, 5.0)
LITTLE_URINE, NO_URINE = 84.0, 34.0
HIGH_VASOPRESSOR = 0.1


@dataclass(frozen=True, eq=False)
class Organs:
    """What the score looks at, (n,) each.

    fio2         fraction of oxygen in the air breathed, 0.21..1
    pao2         mmHg
    platelets    thousand per microlitre
    bilirubin    mg/dL
    gcs          Glasgow coma scale, 3..15; None where it is not known: no points for it
    pressure     mean arterial pressure, mmHg
    creatinine   mg/dL
    urine        mL in four hours
    vasopressor  mcg/kg/min of noradrenaline
    """

    fio2: FloatArray
    pao2: FloatArray
    platelets: FloatArray
    bilirubin: FloatArray
    gcs: FloatArray | None
    pressure: FloatArray
    creatinine: FloatArray
    urine: FloatArray
    vasopressor: FloatArray


def sofa_points(organs: Organs) -> Mapping[str, IntArray]:
    """(n,) points of each organ system."""
    pressure = _below(organs.pressure, PRESSURE)
    infusion = np.where(organs.vasopressor > 0.0, 3, 0) + (organs.vasopressor > HIGH_VASOPRESSOR)
    urine = np.where(organs.urine < LITTLE_URINE, 3, 0) + (organs.urine < NO_URINE)
    # Up to 14 is one point: a threshold that is reached counts here, unlike the others.
    nerves = 0 if organs.gcs is None else sum((organs.gcs <= start) for start in NERVES)
    return {
        "lungs": _below(organs.pao2 / organs.fio2, LUNGS),
        "coagulation": _below(organs.platelets, PLATELETS),
        "liver": len(BILIRUBIN) - _below(organs.bilirubin, BILIRUBIN),
        "circulation": np.maximum(pressure, infusion),
        "nerves": np.zeros(len(organs.pao2), dtype=np.int64) + nerves,
        "kidneys": np.maximum(len(CREATININE) - _below(organs.creatinine, CREATININE), urine),
    }


def sofa_score(organs: Organs) -> IntArray:
    """(n,) the sum of all points."""
    return np.asarray(sum(sofa_points(organs).values()), dtype=np.int64)


def _below(values: FloatArray, thresholds: tuple[float, ...]) -> IntArray:
    """How many of the thresholds a value is below."""
    return np.asarray(sum((values < threshold) * 1 for threshold in thresholds), dtype=np.int64)


# --- The table --------------------------------------------------------------------------------

SEXES = {"Male": 0.0, "Female": 1.0}
# Lowest and highest value that is believed.
PLAUSIBLE = {
    "hr": (20.0, 250.0),
    "map": (20.0, 200.0),
    "resp": (3.0, 80.0),
    "fio2": (20.0, 100.0),
    "po2": (20.0, 700.0),
    "lact": (0.1, 30.0),
    "bili": (0.05, 60.0),
    "plt": (1.0, 2000.0),
    "crea": (0.1, 25.0),
    "urine": (0.0, 5000.0),
}
FIXED = ("sex", "age")
FEATURES = (*FIXED, *PLAUSIBLE, "sofa")
ACTIONS = ("a_vaso", "a_iv")
LEVELS = 5
EPISODE, STEP, DIED = "episode_id", "t", "died"
COLUMNS = (EPISODE, STEP, *FIXED, *PLAUSIBLE, *ACTIONS, DIED)


@dataclass(frozen=True, eq=False)
class IcuEpisodes:
    """The episodes of a table, filled.

    episodes     (T, 13) states in the order of FEATURES, the first two fixed, and actions (T-1, 2):
                 vasopressor level, fluid level
    died         (n,) in hospital
    implausible, carried, imputed   how many values of each column were
    filled       (n,) how many values of each episode were filled in
    """

    episodes: tuple[Episode, ...]
    died: BoolArray
    implausible: Mapping[str, int]
    carried: Mapping[str, int]
    imputed: Mapping[str, int]
    filled: IntArray

    def summary(self) -> str:
        """One line: how many episodes and steps, and how much of them is filled."""
        steps = sum(len(episode) for episode in self.episodes)
        values = steps * len(PLAUSIBLE)
        filled = [sum(counts.values()) for counts in (self.carried, self.imputed)]
        return (
            f"{len(self.episodes):,} episodes, {steps:,} steps; of {values:,} values "
            f"{sum(self.implausible.values()):,} implausible, {filled[0]:,} carried forward, "
            f"{filled[1]:,} imputed"
        )


def action_set() -> FloatArray:
    """(25, 2) all pairs of levels, numbered 5 * vasopressor + fluids."""
    levels = np.arange(LEVELS, dtype=np.float64)
    return np.stack(np.meshgrid(levels, levels, indexing="ij"), axis=-1).reshape(-1, 2)


def reward() -> LinearReward:
    """-SOFA, in points."""
    weights = np.zeros(len(FEATURES))
    weights[FEATURES.index("sofa")] = -1.0
    return LinearReward(weights)


def read_episodes_4h(path: str | Path) -> IcuEpisodes:
    """The episodes of a table. Mistakes in it are one error, about the first of them."""
    table = open_table_file(path, "intensive-care episodes", formats=()).read(COLUMNS)
    columns = _checked_columns(table)
    groups = table.groups(columns[EPISODE], columns[STEP])
    expected = np.empty(len(table))
    for rows in groups:
        expected[rows] = np.arange(len(rows))
    problem = "is not the next step of its stay (0, 1, 2, ..); correct it"
    table.expect(STEP, columns[STEP], columns[STEP] == expected, problem)
    for name in FIXED:
        table.expect_constant(name, columns[name], groups)
    table.mistakes.refuse()
    implausible = {name: _forget_implausible(columns, name) for name in PLAUSIBLE}
    gaps = np.sum([np.isnan(columns[name]) for name in PLAUSIBLE], axis=0)
    filled = np.array([gaps[rows].sum() for rows in groups], dtype=np.int64)
    carried, imputed = {}, {}
    for name in PLAUSIBLE:
        carried[name] = _carry_forward(columns[name], groups)
        imputed[name] = _impute(columns[name], name, path)
    columns["sofa"] = sofa_score(_organs(columns)).astype(np.float64)
    states = np.stack([columns[name] for name in FEATURES], axis=1)
    actions = np.stack([columns[name] for name in ACTIONS], axis=1)
    episodes = tuple(
        Episode(states[rows], actions[rows[:-1]], id=str(int(columns[EPISODE][rows[0]])))
        for rows in groups
    )
    died = np.array([columns[DIED][rows[-1]] == 1.0 for rows in groups])
    return IcuEpisodes(episodes, died, implausible, carried, imputed, filled)


def _checked_columns(table: Block) -> dict[str, FloatArray]:
    """Every column as numbers, with what is wrong reported to the table."""
    columns = {
        name: table.numbers(name, may_miss=name in PLAUSIBLE) for name in COLUMNS if name != "sex"
    }
    problem = f"is not one of {', '.join(SEXES)}; correct it"
    columns["sex"] = table.choices("sex", SEXES, (), problem, may_miss=False)
    for name in (EPISODE, STEP):
        whole = (columns[name] >= 0.0) & (columns[name] == np.floor(columns[name]))
        table.expect(name, columns[name], whole, "is not a whole number from 0 up; correct it")
    for name in ACTIONS:
        known = np.isin(columns[name], np.arange(LEVELS))
        table.expect(name, columns[name], known, f"is not a level, 0..{LEVELS - 1}; correct it")
    table.expect(DIED, columns[DIED], np.isin(columns[DIED], (0, 1)), "is not 0 or 1; correct it")
    return columns


def _forget_implausible(columns: dict[str, FloatArray], name: str) -> int:
    values = columns[name]
    low, high = PLAUSIBLE[name]
    # nan compares false, so what is missing is not counted.
    wrong = (values < low) | (values > high)
    columns[name] = np.where(wrong, np.nan, values)
    return int(wrong.sum())


def _carry_forward(values: FloatArray, groups: Sequence[IntArray]) -> int:
    """Fill gaps in place with the last value before them; how many."""
    filled = 0
    for rows in groups:
        known = np.isfinite(values[rows])
        last = np.maximum.accumulate(np.where(known, np.arange(len(rows)), -1))
        gaps = ~known & (last >= 0)
        values[rows[gaps]] = values[rows[last[gaps]]]
        filled += int(gaps.sum())
    return filled


def _impute(values: FloatArray, name: str, path: str | Path) -> int:
    """Fill what is left in place with the median of all; how many."""
    gaps = ~np.isfinite(values)
    if gaps.all():
        raise FileError(f"{path}, column {name!r}: has no usable value to fill its gaps from")
    values[gaps] = np.median(values[~gaps])
    return int(gaps.sum())


def _organs(columns: Mapping[str, FloatArray]) -> Organs:
    return Organs(
        fio2=columns["fio2"] / 100.0,
        pao2=columns["po2"],
        platelets=columns["plt"],
        bilirubin=columns["bili"],
        gcs=None,
        pressure=columns["map"],
        creatinine=columns["crea"],
        urine=columns["urine"],
        vasopressor=np.zeros(len(columns["map"])),
    )
