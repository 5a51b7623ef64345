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

The SOFA score says how far organ systems have failed, 0..4 points each:

    lungs        PaO2 / FiO2 below 400, 300, 200, 100 mmHg
    coagulation  platelets below 150, 100, 50, 20 thousand per microlitre
    liver        bilirubin from 1.2, 2, 6, 12 mg/dL on
    circulation  mean arterial pressure below 70 (1) or 65 mmHg (2)
    kidneys      creatinine from 1.2, 2, 3.5, 5 mg/dL on, or urine below 84 (3) or 34 mL (4) in four
                 hours

It is computed from the filled values, without points for nerves, since the table has no coma scale,
and without those for vasopressors, which are actions here.
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
from counterplan.core.shown import module_tells
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

SCHEMA = shipped_schema("icu_stays")
FIXED = tuple(column.name for column in SCHEMA.of("fixed"))
MEASURED = tuple(column.name for column in SCHEMA.of("state"))
FEATURES = (*FIXED, *MEASURED, "sofa")
ACTIONS = tuple(column.name for column in SCHEMA.of("action"))


def sofa_points(
    fio2: FloatArray,
    pao2: FloatArray,
    platelets: FloatArray,
    bilirubin: FloatArray,
    pressure: FloatArray,
    creatinine: FloatArray,
    urine: FloatArray,
) -> dict[str, IntArray]:
    """(n,) points of each organ system by measurements (n,); fio2 is a fraction, 0.21 to 1."""
    little = 3 * (urine < 84.0) + (urine < 34.0)
    return {
        "lungs": _below(pao2 / fio2, 400.0, 300.0, 200.0, 100.0),
        "coagulation": _below(platelets, 150.0, 100.0, 50.0, 20.0),
        "liver": 4 - _below(bilirubin, 1.2, 2.0, 6.0, 12.0),
        "circulation": _below(pressure, 70.0, 65.0),
        "kidneys": np.maximum(4 - _below(creatinine, 1.2, 2.0, 3.5, 5.0), little),
    }


def _below(values: FloatArray, *thresholds: float) -> IntArray:
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
    return np.asarray(sum(sofa_points(fio2 / 100.0, *others).values()), dtype=np.int64)


class IcuLayout(SchemaLayout):
    """States as above, five levels each of two drugs, and -SOFA as the reward."""

    dose_unit = "level"

    def __init__(self) -> None:
        # 4 points for each organ, 2 for the circulation, whose others are for drugs.
        sofa = Column("sofa", "state", unit="points", better="lower", low=0.0, high=18.0)
        columns = (*SCHEMA.features, sofa, *SCHEMA.of("action"))
        super().__init__(replace(SCHEMA, columns=columns))
        self.choices = Grid(drug_levels(*DRUGS))


def action_set() -> FloatArray:
    """(25, 2) all pairs of levels, numbered 5 * vasopressor + fluids."""
    return IcuLayout().choices.vectors


def reward() -> LinearReward:
    """-SOFA, in points."""
    return IcuLayout().reward()


module_tells(globals())
