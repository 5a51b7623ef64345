"""Tables of cognitive behavioural therapy sessions, as the 2021 paper's data has them (section 6).

A CSV file with one row per session, each patient's rows in time order:

    patient          any name
    topic            what the session was about: a label or number of TOPICS
    phq1 .. phq9     the PHQ-9 answers of that session, 0..3, empty if not given

The severity of a session comes from the sum of the answers, scaled up where some are missing
(9 / valid answers * their sum, rounded; halves go to the even number), in the usual five bands.
Other columns and blank lines are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.episode import Episode
from counterplan.core.validation import IntArray
from counterplan.errors import FileError
from counterplan.files.contents import read_bytes

if TYPE_CHECKING:
    import polars as pl

TOPICS = ("STR", "BIO", "PSE", "BHA", "REV", "CRT", "INR", "THP", "RLP", "EXT", "END")
START = TOPICS.index("STR")
END = TOPICS.index("END")
SEVERITIES = ("none", "mild", "moderate", "moderately severe", "severe")
SEVERITY_STARTS = (5, 10, 15, 20)
QUESTIONS = tuple(f"phq{i}" for i in range(1, 10))
LARGEST_ANSWER = 3
MISSING = -1
MINIMUM_SESSIONS = 10
TOO_SHORT = f"fewer than {MINIMUM_SESSIONS} sessions"
NO_ANSWERS = "a session without any PHQ-9 answer"
ROW = "row in the file"
EXPECTED = "patient, topic, phq1 .. phq9, separated by commas"


@dataclass(frozen=True)
class TherapyCohort:
    """The patients of a table.

    episodes  one per patient: severities 0..4 as states, topics 0..10 as actions
    dropped   why each patient that is left out is left out
    """

    episodes: tuple[Episode, ...]
    dropped: Mapping[str, str]

    def summary(self) -> str:
        """One line: how many patients were kept and dropped, and why."""
        reasons = Counter(self.dropped.values())
        why = "; ".join(f"{count} with {reason}" for reason, count in sorted(reasons.items()))
        kept = f"{len(self.episodes)} patients kept, {len(self.dropped)} dropped"
        return f"{kept} ({why})" if why else kept


def phq9_severity(answers: ArrayLike) -> IntArray:
    """(n,) severity bands 0..4 of (n, 9) answers 0..3, -1 where missing; -1 if all nine are."""
    table = np.asarray(answers)
    given = table != MISSING
    valid = given.sum(axis=1)
    scores = np.rint(9 / np.maximum(valid, 1) * np.where(given, table, 0).sum(axis=1))
    bands = np.searchsorted(SEVERITY_STARTS, scores, side="right")
    return np.where(valid > 0, bands, MISSING).astype(np.int64)


def read_sessions(path: str | Path) -> TherapyCohort:
    """The cohort in a CSV table; mistakes in it are errors that name row, column and value."""
    table = _Table(path, _read_text(path))
    topics, severities = _topics(table), _severities(table)
    episodes: list[Episode] = []
    dropped: dict[str, str] = {}
    for patient, rows in _rows_of_patients(table).items():
        _check_topic_order(topics, rows, patient, table)
        if len(rows) < MINIMUM_SESSIONS:
            dropped[patient] = TOO_SHORT
        elif (severities[rows] == MISSING).any():
            dropped[patient] = NO_ANSWERS
        else:
            episodes.append(Episode(severities[rows], topics[rows], id=patient))
    cohort = TherapyCohort(tuple(episodes), dropped)
    if not episodes:
        raise FileError(f"{path}: no patient can be used: {cohort.summary()}")
    return cohort


def _read_text(path: str | Path) -> pl.DataFrame:
    """The needed columns as stripped strings, empty where nothing is given, and ROW numbers."""
    import polars as pl

    content = read_bytes(path, f"a table with the columns {EXPECTED}")
    try:
        table = pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(
            f"{path}: is not a CSV table in UTF-8: {reason}; expected columns {EXPECTED}"
        ) from None
    needed = ("patient", "topic", *QUESTIONS)
    absent = [column for column in needed if column not in table.columns]
    if absent:
        raise FileError(f"{path}: no column {', '.join(map(repr, absent))}; expected {EXPECTED}")
    # Numbered as spreadsheets do: the header is row 1.
    numbered = table.with_row_index(ROW, offset=2)
    texts = numbered.select(ROW, pl.col(needed).fill_null("").str.strip_chars())
    filled = texts.filter(pl.any_horizontal(pl.col(needed) != ""))
    if filled.height == 0:
        raise FileError(f"{path}: has a header but no sessions; add one row per session")
    return filled


@dataclass(frozen=True)
class _Table:
    """The texts of a file, and errors that say where in it."""

    path: str | Path
    texts: pl.DataFrame

    def reject(self, index: int, column: str, problem: str) -> NoReturn:
        row, value = self.texts[ROW][index], self.texts[column][index]
        raise FileError(f"{self.path}, row {row}, column {column!r}: {value!r} {problem}")

    def codes(self, column: str, accepted: Mapping[str, int], expected: str) -> IntArray:
        """(n,) numbers that the texts of a column stand for."""
        import polars as pl

        numbers = (
            self.texts[column]
            .str.to_uppercase()
            .replace_strict(accepted, default=None, return_dtype=pl.Int64)
        )
        unknown = numbers.is_null().arg_true()
        if len(unknown):
            self.reject(unknown[0], column, f"is not {expected}; correct the entry")
        return numbers.to_numpy()


def _topics(table: _Table) -> IntArray:
    labels = {label: code for code, label in enumerate(TOPICS)}
    expected = f"a topic (0..{len(TOPICS) - 1} or one of {' '.join(TOPICS)})"
    return table.codes("topic", labels | _numbers(len(TOPICS)), expected)


def _severities(table: _Table) -> IntArray:
    accepted = _numbers(LARGEST_ANSWER + 1) | {"": MISSING}
    expected = f"an answer (0..{LARGEST_ANSWER} or empty)"
    answers = [table.codes(question, accepted, expected) for question in QUESTIONS]
    return phq9_severity(np.stack(answers, axis=1))


def _numbers(count: int) -> dict[str, int]:
    """Texts of 0..count-1, also as spreadsheets write them where a column has gaps (3.0)."""
    return {text: code for code in range(count) for text in (str(code), f"{code}.0")}


def _rows_of_patients(table: _Table) -> dict[str, list[int]]:
    """Row indices of each patient, in the order of the table."""
    rows: dict[str, list[int]] = {}
    for index, patient in enumerate(table.texts["patient"]):
        if not patient:
            table.reject(index, "patient", "is no name; name the patient or remove the row")
        rows.setdefault(patient, []).append(index)
    return rows


def _check_topic_order(topics: IntArray, rows: list[int], patient: str, table: _Table) -> None:
    """STR only in a patient's first session, END only in the last."""
    for t, row in enumerate(rows):
        where = f"is session {t + 1} of {len(rows)} of patient {patient!r}, but may only be the"
        if topics[row] == START and t > 0:
            table.reject(row, "topic", f"{where} first; correct the topic or the order of rows")
        if topics[row] == END and t < len(rows) - 1:
            table.reject(row, "topic", f"{where} last; correct the topic or the order of rows")
