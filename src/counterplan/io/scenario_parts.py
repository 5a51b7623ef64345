"""Some scenarios as one Parquet file in memory: the form in which they are stored and sent.

One row for each step: scenario_id, t, and the columns of the problem's form (modes as numbers),
null where nothing is said.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.io.scenario_form import Entry, ScenarioForm
from counterplan.io.scenario_rows import STEP
from counterplan.io.scenario_table import ID, Scenario


def scenario_parts(scenarios: Iterable[Scenario], form: ScenarioForm, size: int) -> Iterator[bytes]:
    """`size` scenarios at a time."""
    left = iter(scenarios)
    while some := list(islice(left, size)):
        yield scenarios_to_bytes(some, form)


def scenarios_to_bytes(scenarios: Sequence[Scenario], form: ScenarioForm) -> bytes:
    """A Parquet file."""
    import polars as pl

    T = form.problem.horizon
    columns: dict[str, Any] = {
        ID: np.repeat(np.array([one.id for one in scenarios], dtype=object), T),
        STEP: np.tile(np.arange(T), len(scenarios)),
    }
    nothing, no_start = (np.full((T, len(some)), np.nan) for some in (form.decided, form.start))
    for one in scenarios:
        assert one.seen.shape == (T, len(form.seen))
    columns |= _columns(form.seen, [one.seen for one in scenarios])
    done = [nothing if one.decided is None else one.decided for one in scenarios]
    columns |= _columns(form.decided, done)
    begun = []
    for one in scenarios:
        level = no_start.copy()
        level[:1] = np.nan if one.start is None else one.start
        begun.append(level)
    columns |= _columns(form.start, begun)
    frame = pl.DataFrame(columns, schema_overrides={ID: pl.String}).fill_nan(None)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _columns(entries: Sequence[Entry], tables: Sequence[FloatArray]) -> dict[str, Any]:
    whole = np.concatenate(tables)
    return {entry.column: column for entry, column in zip(entries, whole.T, strict=True)}


def scenarios_from_bytes(content: bytes, form: ScenarioForm) -> list[Scenario]:
    """The scenarios of such a file, in its order."""
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(content))

    def numbers(group: pl.DataFrame, entries: Sequence[Entry]) -> FloatArray | None:
        chosen = group.select([entry.column for entry in entries])
        values = np.array(chosen.to_numpy(), dtype=np.float64)
        return None if np.isnan(values).any() or not entries else values

    found = []
    for group in frame.partition_by(ID, maintain_order=True):
        seen, start = numbers(group, form.seen), numbers(group[:1], form.start)
        assert seen is not None
        level = None if start is None else start[0]
        found.append(Scenario(group[ID][0], seen, numbers(group, form.decided), level))
    return found
