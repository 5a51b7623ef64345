"""Tables of scenarios: one row for each decision along a path that was realised.

    scenario_id,t,price,action
    voyage 7,0,1000,50
    voyage 7,1,1225,12

`voyage_id` or `episode_id` do as well; which columns there are is said by the problem
(`planning.description.Columns`). The rows of a scenario stand together, t = 0, 1, 2, ..., one for
each decision. The file is read in blocks and scenarios are given out one by one, so it may be of
any length. Mistakes are gathered, and raised at its end: whoever takes scenarios before must be
ready to drop them all.

Some scenarios are stored and sent as a part, one Parquet file in memory with a row for each step:
scenario_id, t, and the problem's columns (names as numbers), null where nothing is said.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.files import atomic_file, check_target, suffix_of
from counterplan.core.table import Block, Mistakes, TableFile, open_table_file, shown
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import FileError, InputError
from counterplan.planning.description import Column, Columns
from counterplan.planning.hindsight import checked_path
from counterplan.planning.policies import OpenLoop, futures, played

ID = "scenario_id"
IDS = (ID, "voyage_id", "episode_id")
LONGEST_ID = 200
STEP = "t"
NOT_A_STEP = "is not a whole number; number the decisions 0, 1, 2, ..."
LATER = "is not for later rows, where levels follow from the decisions; leave it empty"
PARTLY = "is empty, but another level of this row is given; give all or none"
UNDECIDED = (
    "is empty, but other decisions of this scenario are given; write 0 where nothing was done"
)


@dataclass(frozen=True, eq=False)
class Scenario:
    """What was revealed, and what was done, in the numbers of the table.

    observed   (T, n)
    decisions  (T, m), None where nothing is said
    start      (D,) the level it began with, None where nothing is said
    """

    id: str
    observed: FloatArray
    decisions: FloatArray | None = None
    start: FloatArray | None = None


@dataclass(frozen=True)
class ScenarioFile:
    """A table whose header has been read and fits the problem.

    unused   columns that say nothing to it
    present  the columns of `columns` that the table has: observed (or those that stand in for
             them), decisions, start
    """

    path: str | Path
    columns: Columns
    unused: tuple[str, ...]
    table: TableFile
    id_column: str
    present: tuple[tuple[Column, ...], tuple[Column, ...], tuple[Column, ...]]

    @property
    def has_decisions(self) -> bool:
        """Whether the table says what was done."""
        return bool(self.present[1])

    def scenarios(self) -> Iterator[Scenario]:
        """All of them, in the order of the file; raises at its end if there was any mistake."""
        mistakes = Mistakes(self.path)
        names = [column.name for some in self.present for column in some]
        begun: dict[str, int] = {}
        current, pending = "", list[FloatArray]()
        for block in self.table.blocks([self.id_column, STEP, *names], mistakes):
            ids, table = self._read(block)
            borders = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1), len(ids)]
            for first, last in pairwise(borders):
                if pending and ids[first] != current:
                    yield from self._whole(current, np.concatenate(pending), mistakes)
                    pending = []
                if not pending:
                    current, row = ids[first], int(block.rows[first])
                    if current and begun.setdefault(current, row) != row:
                        problem = f", column {self.id_column!r}: {shown(current)} continues here "
                        problem += f"what began in row {begun[current]}; put the rows of a "
                        mistakes.in_row(row, f"{problem}scenario together", "apart")
                pending.append(table[first:last])
        if pending:
            yield from self._whole(current, np.concatenate(pending), mistakes)
        mistakes.refuse()
        if not pending:
            raise FileError(f"{self.path}: has no rows; give one for each decision")

    def _read(self, block: Block) -> tuple[NDArray[np.object_], FloatArray]:
        """(n,) whose rows they are, and (n, 2 + columns) their places in the file, steps and
        values: nan where nothing is given, BAD where it is wrong."""
        ids = block.texts[self.id_column]
        block.report((ids == "").to_numpy(), self.id_column, "is empty; fill it in")
        is_long = (ids.str.len_chars() > LONGEST_ID).to_numpy()
        problem = f"is longer than {LONGEST_ID} characters; shorten it"
        block.report(is_long, self.id_column, problem)
        observed, decisions, start = self.present
        steps = block.numbers(STEP, may_miss=False)
        block.expect(STEP, steps, (steps >= 0) & (steps == np.rint(steps)), NOT_A_STEP)
        values = [_numbers(block, one, may_miss=False) for one in observed]
        values += [_numbers(block, one) for one in decisions]
        levels = [_numbers(block, one) for one in start]
        # A start is said in a scenario's first row, all of it or nothing.
        given = ~np.isnan(np.array(levels))
        for column, is_given in zip(start, given, strict=True):
            block.report(is_given & (steps > 0), column.name, LATER)
            block.report(~is_given & given.any(axis=0) & (steps == 0), column.name, PARTLY)
        # A name left out has been reported: its row is taken to belong to the one above.
        named = ids.replace("", None).forward_fill().fill_null("").to_list()
        table = np.column_stack([block.rows, steps, *values, *levels])
        return np.array(named, dtype=object), table

    def _whole(self, name: str, table: FloatArray, mistakes: Mistakes) -> Iterator[Scenario]:
        """The scenario that rows make up, if they do and nothing was wrong so far."""
        rows, steps = table[:, 0].astype(np.int64), table[:, 1]
        borders = np.cumsum([len(some) for some in self.present[:2]])
        observed, decisions, start = np.split(table[:, 2:], borders, axis=1)
        T, count = self.columns.problem.horizon, len(steps)
        wrong = np.flatnonzero(steps[:T] != np.arange(min(count, T)))
        if wrong.size or count != T:
            place, kind = min(count, T + 1) - 1, "length"
            problem = f"{shown(name)} has {count} decisions, but this problem has {T}, t = 0 to "
            problem += f"{T - 1}; give all of them"
            if wrong.size:
                place, kind = int(wrong[0]), "order"
                problem = f"{steps[place]:g} where {place} is expected; number the decisions of "
                problem += f"{shown(name)} 0 to {T - 1}, in order"
            if np.isfinite(steps[place]):  # else it has been reported
                mistakes.in_row(int(rows[place]), f", column {STEP!r}: {problem}", kind)
            return
        missing = np.isnan(decisions)
        if missing.any() and not missing.all():
            for column, empty in zip(self.present[1], missing.T, strict=True):
                mistakes.in_rows(column.name, UNDECIDED, rows[empty].tolist())
        if not mistakes.count:
            is_derived = self.present[0] == self.columns.instead
            yield Scenario(
                name,
                self.columns.derive(observed) if is_derived else observed,
                None if missing.any() or not decisions.size else decisions,
                None if np.isnan(start[0]).any() or not start.size else start[0],
            )


def _numbers(block: Block, column: Column, may_miss: bool = True) -> FloatArray:
    """(n,) the numbers of a column, as `Block.numbers` gives them."""
    if column.names:
        codes = {name: float(i) for i, name in enumerate(column.names)}
        return block.choices(column.name, codes, (), column.problem, may_miss)
    values = block.numbers(column.name, may_miss) + 0.0  # no -0
    right = column.accepts(np.where(np.isfinite(values), values, 0.0))
    block.expect(column.name, values, right, column.problem)
    return values


# --- The header -------------------------------------------------------------------------------


def open_scenarios(path: str | Path, columns: Columns) -> ScenarioFile:
    """A .csv or .parquet table of scenarios, its header read and checked."""
    table = open_table_file(path)
    header = table.header
    ids = [column for column in IDS if column in header]
    if len(ids) != 1:
        which = f"both {ids[0]!r} and {ids[1]!r}" if ids else f"no column {ID!r}"
        raise FileError(
            f"{path}: has {which}; name scenarios in one column, {', '.join(IDS[:-1])} or "
            f"{IDS[-1]}: found {_listed(header)}"
        )
    observed = _observed(path, header, columns)
    if STEP not in header:
        raise FileError(f"{path}: no column {STEP!r}; number a scenario's decisions 0, 1, 2, ...")
    decisions = _all_or_none(path, header, columns.decisions)
    start = _all_or_none(path, header, columns.start)
    used = [ids[0], STEP, *(column.name for column in (*observed, *decisions, *start))]
    twice = next((column for column in used if header.count(column) > 1), None)
    if twice is not None:
        raise FileError(f"{path}: two columns are named {twice!r}; keep one of them")
    unused = tuple(column for column in header if column and column not in used)
    return ScenarioFile(path, columns, unused, table, ids[0], (observed, decisions, start))


def _observed(path: str | Path, header: Sequence[str], columns: Columns) -> tuple[Column, ...]:
    """The columns that say what was revealed."""
    usual, instead = ([one.name for one in some] for some in (columns.observed, columns.instead))
    derived = [column for column in instead if column in header]
    if derived and usual[0] in header:
        raise FileError(
            f"{path}: has {usual[0]!r} and also {_listed(derived)}, which it would follow from; "
            "keep one of the two"
        )
    wanted = instead if derived else usual
    absent = [column for column in wanted if column not in header]
    if absent:
        either = f" (or {' and '.join(instead)})" if instead and not derived else ""
        raise FileError(
            f"{path}: no column {_listed(absent)}{either}: found {_listed(header)}; name the "
            f"columns {', '.join([ID, STEP, *wanted])}"
        )
    return columns.instead if derived else columns.observed


def _all_or_none(
    path: str | Path, header: Sequence[str], columns: Sequence[Column]
) -> tuple[Column, ...]:
    present = [column for column in columns if column.name in header]
    absent = [column.name for column in columns if column.name not in header]
    if present and absent:
        raise FileError(
            f"{path}: has {present[0].name!r} but no column {_listed(absent)}; give all or none"
        )
    return tuple(present)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column[:40]) for column in columns[:8])


# --- Templates --------------------------------------------------------------------------------

# How many sampled scenarios a template has.
SCENARIOS = 10


def write_template(path: Path, columns: Columns, seed: Seed) -> None:
    """Write sampled paths, with the decisions of the plan that is optimal for expected values."""
    suffix_of(path, (".csv",), "templates")
    if check_target(path).exists():
        raise InputError(f"{path}: exists already; remove it or choose another name")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    each = (*columns.observed, *columns.decisions)
    writer.writerow([ID, STEP, *(column.name for column in each)])
    problem = columns.problem
    rule = OpenLoop().prepare(problem)
    for i, sampled in enumerate(futures(problem, SCENARIOS, seed)):
        exogenous, state = checked_path(problem, sampled)
        done = played(problem, rule, exogenous, state)
        for t, row in enumerate(columns.written(exogenous, done.actions)):
            values = zip(each, row, strict=True)
            texts = [one.names[int(x)] if one.names else f"{x + 0.0:.10g}" for one, x in values]
            writer.writerow([f"s{i + 1:02d}", t, *texts])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


# --- Parts ------------------------------------------------------------------------------------


def scenario_parts(scenarios: Iterable[Scenario], columns: Columns, size: int) -> Iterator[bytes]:
    """`size` scenarios at a time."""
    left = iter(scenarios)
    while some := list(islice(left, size)):
        yield scenarios_to_bytes(some, columns)


def scenarios_to_bytes(scenarios: Sequence[Scenario], columns: Columns) -> bytes:
    """A Parquet file."""
    import polars as pl

    T = columns.problem.horizon
    each = (*columns.observed, *columns.decisions, *columns.start)
    borders = np.cumsum([len(columns.observed), len(columns.decisions)])
    values = np.full((len(scenarios), T, len(each)), np.nan)
    observed, decisions, start = np.split(values, borders, axis=2)  # views
    for i, one in enumerate(scenarios):
        observed[i] = one.observed
        decisions[i] = np.nan if one.decisions is None else one.decisions
        start[i, 0] = np.nan if one.start is None else one.start
    table: dict[str, Any] = {
        ID: np.repeat(np.array([one.id for one in scenarios], dtype=object), T),
        STEP: np.tile(np.arange(T), len(scenarios)),
        **{column.name: values[:, :, i].ravel() for i, column in enumerate(each)},
    }
    buffer = io.BytesIO()
    frame = pl.DataFrame(table, schema_overrides={ID: pl.String}).fill_nan(None)
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def scenarios_from_bytes(content: bytes, columns: Columns) -> list[Scenario]:
    """The scenarios of such a file, in its order."""
    import polars as pl

    def numbers(group: pl.DataFrame, some: Sequence[Column]) -> Any:
        values = group.select([column.name for column in some]).cast(pl.Float64).to_numpy()
        return None if np.isnan(values).any() or not some else values

    found = []
    for group in pl.read_parquet(io.BytesIO(content)).partition_by(ID, maintain_order=True):
        observed, decisions = numbers(group, columns.observed), numbers(group, columns.decisions)
        start = numbers(group[:1], columns.start)
        found.append(
            Scenario(group[ID][0], observed, decisions, None if start is None else start[0])
        )
    return found
