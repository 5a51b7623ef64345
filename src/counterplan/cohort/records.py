"""Rows of results as plain records for JSON, CSV and the terminal.

JSON has no infinities: they are written as the texts "inf" and "-inf".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

HOURS = "h"


def records(rows: Sequence[Mapping[str, Any]], unit: str) -> list[dict[str, Any]]:
    """One record for each row; what is known of none of them is left out.

    unit  of times, as `Words.unit` has it
    """
    names = {name for row in rows for name, value in row.items() if value is not None}
    return [_record(row, unit, names) for row in rows]


def changes_in_words(record: Mapping[str, Any]) -> list[str]:
    """Such as "step 3: rest -> walk (87%)", one text for each change."""
    return [change["text"] for change in record["changes"]]


def support_in_words(record: Mapping[str, Any]) -> str:
    """Whether there is data under an explanation, and if not, what is missing."""
    if record.get("supported") is None:
        return ""
    if record["supported"]:
        return "seen"
    if record["new_actions"]:
        return f"{record['new_actions']} new"
    return "far" if record.get("far_from_data") else "new"


def _record(row: Mapping[str, Any], unit: str, names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"episode_id": row["episode_id"]}
    for name, value in row.items():
        if name in names and name not in ("episode_id", "n_changes", "changes"):
            found[name] = finite(value)
    found["changes"] = [_change(change, unit) for change in row["changes"]]
    return found


def _change(change: Mapping[str, Any], unit: str) -> dict[str, Any]:
    found: dict[str, Any] = {"t": change["t"], "time": whole(change["time"])}
    if unit == HOURS:
        found["hours"] = found["time"]
    if change["probability"] is None:
        for side in ("observed", "alternative"):
            found[side] = {part["name"]: whole(part[side]) for part in change["parts"]}
    else:
        for side in ("observed", "alternative"):
            found |= {side: change[side], f"{side}_label": change[f"{side}_label"]}
        found["probability"] = change["probability"]
    if change["taken"] is not None:
        found["taken"] = change["taken"]
    return {**found, "text": change["text"]}


def whole(value: float) -> float | int:
    """Without a point where there is nothing behind it."""
    return int(value) if float(value).is_integer() else value


def finite(value: Any) -> Any:
    """A text where JSON has no number for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
