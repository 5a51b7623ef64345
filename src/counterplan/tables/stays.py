"""Tables of intensive-care stays that have a schema of the program's own, which ships with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.table import open_table_file
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.errors import FileError
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import CheckedTable, check_shipped
from counterplan.tables.schema import Column, Schema, read_schema

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
