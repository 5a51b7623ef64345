"""All mistakes of a table, gathered before anything is used.

Mistakes of one kind in one column share their lines: the first few are shown with row and value,
the last of them says how many more there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counterplan.errors import MistakesError

MOST_LINES = 20
# The row of mistakes that no row is to blame for.
WHOLE = -1
# How many mistakes of one kind are shown.
MOST_ALIKE = 3
LONGEST_VALUE = 60
# The kind of mistake that leaves a row out.
BROKEN = "fields"


@dataclass
class _Kind:
    shown: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0


@dataclass
class Mistakes:
    """What is wrong with a file so far; rows are those that an editor shows."""

    path: str | Path
    _kinds: dict[tuple[str, str], _Kind] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many mistakes there are."""
        return sum(kind.count for kind in self._kinds.values())

    @property
    def has_broken_rows(self) -> bool:
        """Whether rows had to be left out."""
        return ("", BROKEN) in self._kinds

    def in_rows(
        self, column: str, problem: str, rows: Sequence[int], values: Sequence[object] = ()
    ) -> None:
        """Entries of a column that are wrong for the same reason; the first values are enough."""
        if not len(rows):
            return
        kind = self._kinds.setdefault((column, problem), _Kind())
        for place in range(min(MOST_ALIKE - len(kind.shown), len(rows))):
            value = shown(values[place]) + " " if place < len(values) else ""
            text = f"row {rows[place]}, column {column!r}: {value}{problem}"
            kind.shown.append((int(rows[place]), text))
        kind.count += len(rows)

    def in_row(self, row: int, problem: str, kind: str) -> None:
        """Something about a whole row, or about an entry where the text names others."""
        found = self._kinds.setdefault(("", kind), _Kind())
        if len(found.shown) < MOST_ALIKE:
            found.shown.append((row, f"row {row}{problem}"))
        found.count += 1

    def in_file(self, problem: str) -> None:
        """Something that no row is to blame for."""
        self._kinds.setdefault(("", problem), _Kind([(WHOLE, problem)])).count += 1

    def refuse(self) -> None:
        """Raise if there is any mistake: a line for each, in the order of rows."""
        if not self._kinds:
            return
        lines: list[tuple[int, str]] = []
        # Every kind is shown before more of the same are.
        alike = max(MOST_LINES // len(self._kinds), 1)
        for kind in self._kinds.values():
            chosen = kind.shown[:alike]
            others = kind.count - len(chosen)
            more = f" (and {others:,} more like it)" if others else ""
            row, text = chosen[-1]
            lines += [*chosen[:-1], (row, text + more)]
        lines.sort(key=lambda line: line[0])
        texts = [
            f"{self.path}{':' if row == WHOLE else ','} {text}" for row, text in lines[:MOST_LINES]
        ]
        if self.count > len(lines[:MOST_LINES]):
            texts.append(f"{self.path}: {self.count:,} mistakes in all; nothing was read")
        raise MistakesError("\n".join(" ".join(text.splitlines()) for text in texts))


def shown(value: object) -> str:
    """A value as messages show it, cut if it is long."""
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - 10]}... ({len(text):,} characters)"
