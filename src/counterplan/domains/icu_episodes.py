"""Tables of intensive-care stays with a schema of the program's own: what they share, and real
episodes as they are, gaps, slips of the pen and all.

`read_episodes_4h` reads the table of four-hour steps made from the open MIMIC-III demo (132 stays),
CSV or Parquet: a row for each step t = 0, 1, .. of an episode with vital signs, laboratory values,
and five levels each of intravenous fluids (`a_iv`) and vasopressors (`a_vaso`). Its values are
crude, so it says what it makes of them, in this order, and counts every case:

    implausible   outside the bounds of schemas/icu_stays.toml: taken as missing
    carried       missing: the last value of the same episode
    imputed       nothing before it: the median of the column over all episodes

Steps from or to a row with such a value are not learned from, if enough others are left.

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

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.table import open_table_file
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import CheckedTable, Filled, check_shipped
from counterplan.tables.schema import Column, Grid, Schema, read_schema

# Of each drug.
LEVELS = 5
DRUGS = ("vasopressor", "fluids")
# Length of a step.
HOURS = 4
TRUTH = {"0": "0", "false": "0", "1": "1", "true": "1"}


@dataclass(frozen=True, eq=False)
class Stays:
    """The stays of a table that are used.

    recorded  episodes with the hours at which their rows begin, and whether the patient died
    dropped   why each stay that is left out is left out
    """

    recorded: tuple[Recorded, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The stays as a model learns from them."""
        return tuple(one.episode for one in self.recorded)

    @property
    def hours(self) -> tuple[FloatArray, ...]:
        """For each episode (T,): when its rows begin."""
        return tuple(one.times for one in self.recorded)

    @property
    def died(self) -> BoolArray:
        """(n,) whether each patient died."""
        return np.array([dict(one.outcomes)["died"] == "1" for one in self.recorded], dtype=bool)


@cache
def shipped_schema(name: str) -> Schema:
    """A schema that comes with the program."""
    return read_schema(Path(str(files("counterplan.domains") / "schemas" / f"{name}.toml")))


def read_stays(path: str | Path, schema: Schema, what: str) -> tuple[CheckedTable, list[Recorded]]:
    """A table and its stays, each with the outcome "died", 0 or 1; all mistakes are one error."""
    with check_shipped(open_table_file(path, what, formats=()), schema) as table:
        return table, [_stay(path, one) for one in table]


def _stay(path: str | Path, one: Recorded) -> Recorded:
    ((column, given),) = one.outcomes
    died = TRUTH.get(given.lower())
    if died is None:
        assert one.rows is not None
        place = f"{path}, row {one.rows.min()}, column {column!r}"
        raise FileError(f"{place}: {given!r} is not 0 or 1; correct it")
    states, actions, name = one.episode.states, one.episode.actions, one.episode.id or ""
    # A stay 12.0 is stay 12.
    episode = Episode(states, actions, id=re.sub(r"\.0+$", "", name))
    return one._replace(episode=episode, outcomes=(("died", died),))


def drug_levels(*names: str) -> tuple[Column, ...]:
    """Columns of drugs that are given in five levels."""
    levels = tuple(float(level) for level in range(LEVELS))
    return tuple(Column(name, "action", levels=levels) for name in names)


# --- Four-hour steps as they were recorded ---------------------------------------------------

# Values at which the next point is given.
LUNGS = (400.0, 300.0, 200.0, 100.0)
PLATELETS = (150.0, 100.0, 50.0, 20.0)
BILIRUBIN = (1.2, 2.0, 6.0, 12.0)
PRESSURE = (70.0, 65.0)
NERVES = (14.0, 12.0, 9.0, 5.0)
CREATININE = (1.2, 2.0, 3.5, 5.0)
LITTLE_URINE, NO_URINE = 84.0, 34.0
HIGH_VASOPRESSOR = 0.1

SCHEMA = shipped_schema("icu_stays")
FIXED = tuple(column.name for column in SCHEMA.of("fixed"))
MEASURED = tuple(column.name for column in SCHEMA.of("state"))
FEATURES = (*FIXED, *MEASURED, "sofa")
ACTIONS = tuple(column.name for column in SCHEMA.of("action"))


@dataclass(frozen=True, eq=False)
class Organs:
    """What the score looks at, (n,) each.

    fio2         fraction of oxygen in the air breathed, 0.21..1
    pao2         mmHg
    platelets    thousand per microlitre
    bilirubin    mg/dL
    pressure     mean arterial pressure, mmHg
    creatinine   mg/dL
    urine        mL in four hours
    gcs          Glasgow coma scale, 3..15; no points for it where it is not known
    vasopressor  mcg/kg/min of noradrenaline
    """

    fio2: FloatArray
    pao2: FloatArray
    platelets: FloatArray
    bilirubin: FloatArray
    pressure: FloatArray
    creatinine: FloatArray
    urine: FloatArray
    gcs: FloatArray | float = 15.0
    vasopressor: FloatArray | float = 0.0


def sofa_points(organs: Organs) -> Mapping[str, IntArray]:
    """(n,) points of each organ system."""
    infusion = 3 * (np.asarray(organs.vasopressor) > 0.0)
    infusion += np.asarray(organs.vasopressor) > HIGH_VASOPRESSOR
    urine = 3 * (organs.urine < LITTLE_URINE) + (organs.urine < NO_URINE)
    # Up to 14 is one point: a threshold that is reached counts here, unlike the others.
    nerves = sum((organs.gcs <= start) * 1 for start in NERVES)
    return {
        "lungs": _below(organs.pao2 / organs.fio2, LUNGS),
        "coagulation": _below(organs.platelets, PLATELETS),
        "liver": len(BILIRUBIN) - _below(organs.bilirubin, BILIRUBIN),
        "circulation": np.maximum(_below(organs.pressure, PRESSURE), infusion),
        "nerves": np.zeros(len(organs.pao2), dtype=np.int64) + nerves,
        "kidneys": np.maximum(len(CREATININE) - _below(organs.creatinine, CREATININE), urine),
    }


def sofa_score(organs: Organs) -> IntArray:
    """(n,) the sum of all points."""
    return np.asarray(sum(sofa_points(organs).values()), dtype=np.int64)


def _below(values: FloatArray, thresholds: tuple[float, ...]) -> IntArray:
    """How many of the thresholds a value is below."""
    return np.asarray(sum((values < threshold) * 1 for threshold in thresholds), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class IcuEpisodes(Stays):
    """The episodes of a table, filled: states (T, 13) in the order of FEATURES, the first two
    fixed, and actions (T-1, 2), the levels of vasopressors and fluids.

    filled  by column: how many values were carried forward, imputed (`mean`) and implausible
            (`outside`)
    """

    filled: Mapping[str, Filled] = field(default_factory=dict)

    def summary(self) -> str:
        """One line: how many episodes and steps, and how much of them is filled."""
        steps = sum(map(len, self.episodes))
        carried, imputed, implausible = np.sum([*self.filled.values()], axis=0)
        return (
            f"{len(self.recorded):,} episodes, {steps:,} steps; of {steps * len(MEASURED):,} "
            f"values {implausible:,} implausible, {carried:,} carried forward, {imputed:,} imputed"
        )


def read_episodes_4h(path: str | Path) -> IcuEpisodes:
    """The episodes of a table; all mistakes in it are one error."""
    table, every = read_stays(path, SCHEMA, "intensive-care episodes")
    recorded = []
    for one in every:
        states, actions, name = one.episode.states, one.episode.actions, one.episode.id
        whole = Episode(np.column_stack([states, _sofa(states)]), actions, id=name)
        recorded.append(one._replace(episode=whole))
    return IcuEpisodes(tuple(recorded), filled={name: table.filled[name] for name in MEASURED})


def _sofa(states: FloatArray) -> IntArray:
    by_name = dict(zip(FEATURES, states.T, strict=False))
    names = "fio2", "po2", "plt", "bili", "map", "crea", "urine"
    fio2, *others = (by_name[name] for name in names)
    return sofa_score(Organs(fio2 / 100.0, *others))


class IcuLayout(SchemaLayout):
    """States as above, five levels each of two drugs, and -SOFA as the reward."""

    dose_unit = "level"

    def __init__(self) -> None:
        sofa = Column("sofa", "state", unit="points", better="lower")
        columns = (*SCHEMA.features, sofa, *SCHEMA.of("action"))
        super().__init__(replace(SCHEMA, columns=columns))
        self.choices = Grid(drug_levels(*DRUGS))


def action_set() -> FloatArray:
    """(25, 2) all pairs of levels, numbered 5 * vasopressor + fluids."""
    return IcuLayout().choices.vectors


def reward() -> LinearReward:
    """-SOFA, in points."""
    return IcuLayout().reward()
