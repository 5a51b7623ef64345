"""Tables of scenarios: one row for each decision of a voyage, journey or option.

    scenario_id,t,price,action
    voyage 7,0,1000,50
    voyage 7,1,1225,12

`voyage_id` or `episode_id` do as well; `io.scenario_form` says which columns a problem has. The
rows of a scenario stand together, t = 0, 1, 2, ..., one for each decision of the problem.
The file is read in blocks and scenarios are given out one by one, so it may be of any length.
Mistakes are gathered, and raised at its end: whoever takes scenarios before must be ready to drop
them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import FileError
from counterplan.io.csv_blocks import Block
from counterplan.io.mistakes import Mistakes
from counterplan.io.scenario_form import Entry, ScenarioForm
from counterplan.io.scenario_rows import EMPTY, STEP, STEPS, Grouping, Rows, read_numbers, report
from counterplan.io.table_blocks import TableFile, open_table_file

ID = "scenario_id"
IDS = (ID, "voyage_id", "episode_id")
LONGEST_ID = 200
LATER = "is not for later rows, where levels follow from the decisions; leave it empty"
PARTLY = "is empty, but another level of this row is given; give all or none"


@dataclass(frozen=True, eq=False)
class Scenario:
    """What was revealed, and what was done, in the numbers of the table.

    seen     (T, n)
    decided  (T, m), None where nothing is said
    start    (D,) the level it began with, None where nothing is said
    """

    id: str
    seen: FloatArray
    decided: FloatArray | None = None
    start: FloatArray | None = None


@dataclass(frozen=True)
class ScenarioFile:
    """A table whose header has been read and fits the problem.

    unused  columns that say nothing to it
    """

    path: str | Path
    form: ScenarioForm
    unused: tuple[str, ...]
    table: TableFile
    id_column: str
    seen: tuple[Entry, ...]
    decided: tuple[Entry, ...]
    start: tuple[Entry, ...]

    def scenarios(self) -> Iterator[Scenario]:
        """All of them, in the order of the file; raises at its end if there was any mistake."""
        mistakes = Mistakes(self.path)
        entries = (*self.seen, *self.decided, *self.start)
        columns = [self.id_column, STEP, *(entry.column for entry in entries)]
        decided = len(self.seen), [entry.column for entry in self.decided]
        grouping = Grouping(self.id_column, self.form.problem.horizon, decided, mistakes)
        is_empty = True
        for block in self.table.blocks(columns, mistakes):
            is_empty = False
            for rows in grouping.ended(self._read(block, entries, mistakes)):
                if not mistakes.count:
                    yield self._scenario(rows)
        for rows in grouping.last():
            if not mistakes.count:
                yield self._scenario(rows)
        mistakes.refuse()
        if is_empty:
            raise FileError(f"{self.path}: has no rows; give one for each decision")

    def _read(self, block: Block, entries: Sequence[Entry], mistakes: Mistakes) -> Rows:
        """The rows of a block, each entry checked on its own."""
        ids = block.texts[self.id_column]
        report(block, self.id_column, (ids == "").to_numpy(), EMPTY, mistakes)
        problem = f"is longer than {LONGEST_ID} characters; shorten it"
        is_long = (ids.str.len_chars() > LONGEST_ID).to_numpy()
        report(block, self.id_column, is_long, problem, mistakes)
        optional = {entry.column for entry in (*self.decided, *self.start)}
        steps = read_numbers(block, STEPS, False, mistakes)
        values = [read_numbers(block, one, one.column in optional, mistakes) for one in entries]
        self._check_start(block, steps, values[len(values) - len(self.start) :], mistakes)
        # A name left out has been reported: its row is taken to belong to the one above.
        named = ids.replace("", None).forward_fill().fill_null("").to_list()
        return Rows(block.rows, named, steps, np.column_stack(values))

    def _check_start(
        self, block: Block, steps: FloatArray, levels: Sequence[FloatArray], mistakes: Mistakes
    ) -> None:
        """A start is said in a scenario's first row, all of it or nothing."""
        given = ~np.isnan(np.array(levels))
        for entry, is_given in zip(self.start, given, strict=True):
            report(block, entry.column, is_given & (steps > 0), LATER, mistakes)
            partly = ~is_given & given.any(axis=0) & (steps == 0)
            report(block, entry.column, partly, PARTLY, mistakes)

    def _scenario(self, rows: Rows) -> Scenario:
        borders = np.cumsum([len(self.seen), len(self.decided)])
        seen, decided, start = np.split(rows.values, borders, axis=1)
        return Scenario(
            rows.ids[0],
            self.form.derive(seen) if self.seen == self.form.instead else seen,
            decided if self.decided and not np.isnan(decided).any() else None,
            start[0] if self.start and not np.isnan(start[0]).any() else None,
        )


def open_scenarios(path: str | Path, form: ScenarioForm) -> ScenarioFile:
    """A .csv or .parquet table of scenarios, its header read and checked."""
    table = open_table_file(path)
    header = table.header
    present = [column for column in IDS if column in header]
    if len(present) != 1:
        which = f"both {present[0]!r} and {present[1]!r}" if present else f"no column {ID!r}"
        raise FileError(
            f"{path}: has {which}; name scenarios in one column, {', '.join(IDS[:-1])} or "
            f"{IDS[-1]}: found {_listed(header)}"
        )
    seen = _chosen(path, header, form)
    if STEP not in header:
        raise FileError(f"{path}: no column {STEP!r}; number a scenario's decisions 0, 1, 2, ...")
    decided = _all_or_none(path, header, form.decided)
    start = _all_or_none(path, header, form.start)
    used = [present[0], STEP, *(entry.column for entry in (*seen, *decided, *start))]
    twice = next((column for column in used if header.count(column) > 1), None)
    if twice is not None:
        raise FileError(f"{path}: two columns are named {twice!r}; keep one of them")
    unused = tuple(column for column in header if column and column not in used)
    return ScenarioFile(path, form, unused, table, present[0], seen, decided, start)


def _chosen(path: str | Path, header: Sequence[str], form: ScenarioForm) -> tuple[Entry, ...]:
    """The columns that say what was revealed."""
    usual, instead = ([one.column for one in entries] for entries in (form.seen, form.instead))
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
    return form.instead if derived else form.seen


def _all_or_none(
    path: str | Path, header: Sequence[str], entries: Sequence[Entry]
) -> tuple[Entry, ...]:
    present = [entry for entry in entries if entry.column in header]
    absent = [entry.column for entry in entries if entry.column not in header]
    if present and absent:
        raise FileError(
            f"{path}: has {present[0].column!r} but no column {_listed(absent)}; give all or none"
        )
    return tuple(present)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column[:40]) for column in columns[:8])
