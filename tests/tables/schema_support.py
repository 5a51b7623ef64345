"""A small ward with measurements, its schema, and ways to write tables of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from counterplan.errors import CounterplanError
from counterplan.tables.schema import Column, Schema, schema_from_dict

Answer = TypeVar("Answer")

WARD = """\
episode_id,t,sofa,map,age,sex,vent,vaso,fluids,died
ann,0,9,65.5,70,F,0,0,low,1
ann,1,8,70,70,F,1,2,high,1
ann,2,6,72,70,F,1,,,1
bob,0,4,80,55,M,0,1,low,0
bob,1,5,78,55,M,0,0,low,0
"""

SCHEMA_TOML = """\
[table]
step = 4.0
unit = "h"

[columns]
sofa = {role = "state", unit = "points", low = 0, high = 24, better = "lower"}
map = {role = "state", unit = "mmHg"}
age = {role = "fixed"}
sex = {role = "fixed", labels = ["F", "M"]}
vent = {role = "contextual"}
vaso = {role = "action", unit = "µg/kg/min", levels = [0, 1, 2]}
fluids = {role = "action", labels = ["low", "high"]}
died = {role = "outcome"}
"""

DISCRETE = schema_from_dict(
    {
        "columns": {
            "state": {"role": "state", "labels": ["ill", "well"]},
            "action": {"role": "action", "labels": ["rest", "walk"]},
            "reward": {"role": "reward"},
        }
    }
)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def answer(read: Callable[[], Answer]) -> Answer | CounterplanError:
    """What is read, or why it is refused; anything else is a fault of the program."""
    try:
        return read()
    except CounterplanError as problem:
        return problem


def names_the_file(path: Path, problem: CounterplanError) -> bool:
    return all(line.startswith(str(path)) for line in str(problem).splitlines())


def measured(*more: Column, kind: str = "") -> Schema:
    """One measurement, one action, and what else is wanted."""
    columns = (
        Column("x", "state", better="higher"),
        Column("a", "action", levels=(0.0, 1.0)),
        *more,
    )
    return Schema(columns, kind=kind)
