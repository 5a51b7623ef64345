"""A first draft of a schema from the table itself, for the user to read and correct.

Roles are guessed from names and values; what was found in a column stands above it as a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.table import (
    GAPS,
    NO_ROWS,
    Mistakes,
    TableFile,
    as_number,
    open_table_file,
    shown,
)
from counterplan.errors import FileError, InputError
from counterplan.tables.schema import Column, Schema

if TYPE_CHECKING:
    import polars as pl

EPISODES = (
    *("episode_id", "episode", "icustayid", "icustay_id", "stay_id", "hadm_id", "patient_id"),
    *("subject_id", "trajectory_id", "traj_id", "trajectory", "voyage_id", "run_id", "id"),
)
TIMES = ("t", "time", "step", "timestep", "bloc", "hour", "hours", "day", "visit", "charttime")
ACTION = re.compile(
    r"(.+_)?(action|treatment|decision|dose|drug|intervention|therapy)s?(_.*|\d*)|(a|act)(_.*|\d*)",
    re.IGNORECASE,
)
OUTCOME = re.compile(
    r".*(died|death|dead|mortality|surviv|outcome|readmi|discharge).*", re.IGNORECASE
)
REWARD = re.compile(r"reward|rewards|r", re.IGNORECASE)
FLAG = re.compile(r"done|terminal|terminated|truncated|timeout|is_last|final", re.IGNORECASE)
STATE = re.compile(r"(state|s|obs|observation)(_.*|\d*)?", re.IGNORECASE)
MOST_LEVELS = 30
MOST_LABELS = 20
MOST_STATES = 1_000
# Columns with more different values are measurements, or names.
MOST_VALUES = 1_000
# Of so many episodes it is looked at whether a column changes within them.
WATCHED = 20_000


@dataclass(frozen=True)
class Draft:
    """A schema, and what to say about it: at the head of the file, and by column and key."""

    schema: Schema
    head: str
    comments: dict[str, dict[str, str]]
    rows: int
    episodes: int


def draft_schema(path: str | Path) -> Schema:
    """The drafted schema of a .csv or .parquet table."""
    return draft(path).schema


def draft(path: str | Path) -> Draft:
    """The same with comments."""
    found = profile_table(path, EPISODES, TIMES)
    guesses = [_guess(one) for one in found.columns]
    if not any(column.role == "action" for column, _ in guesses):
        guesses = _with_a_guess(path, guesses, found.columns)
    guesses = _counted(_with_actions(guesses))
    columns = tuple(column for column, _ in guesses)
    step = found.increment
    if not any(column.role == "state" for column in columns):
        raise FileError(
            f"{path}: no column looks like a state (one that changes within episodes) among "
            f"{', '.join(one.name for one in found.columns[:8])}; add what was measured"
        )
    try:
        schema = Schema(columns, found.episode, found.time, step=step, increment=step)
    except InputError as problem:
        raise FileError(f"{path}: cannot be drafted: {problem}; write the schema by hand") from None
    comments = {
        column.name: _comments(column, profile, why, found.rows)
        for (column, why), profile in zip(guesses, found.columns, strict=True)
    }
    return Draft(schema, _head(found, schema), comments, found.rows, found.episodes)


def _guess(profile: ColumnProfile) -> tuple[Column, str]:
    """The role of a column, and why."""
    name = profile.name
    if profile.is_empty:
        return Column(name, "ignore"), "empty"
    if FLAG.fullmatch(name):
        return Column(name, "ignore"), "says where an episode ends"
    if REWARD.fullmatch(name) and profile.is_number:
        return Column(name, "reward"), "by its name"
    if OUTCOME.fullmatch(name) and profile.is_constant:
        return Column(name, "outcome"), "one value for each episode"
    if ACTION.fullmatch(name) and (chosen := _choice(profile, MOST_LEVELS)):
        return replace(chosen, role="action"), "by its name"
    if profile.values is not None and len(profile.values) == 1:
        return Column(name, "ignore"), "the same in every row"
    if STATE.fullmatch(name) and (profile.is_whole or not profile.is_number):
        chosen = _choice(profile, MOST_STATES)
        if chosen:
            return replace(chosen, role="state"), "by its name"
    role = "fixed" if profile.is_constant else "state"
    why = "never changes within an episode" if profile.is_constant else "changes"
    if profile.is_number:
        return Column(name, role), why
    chosen = _choice(profile, MOST_LABELS)
    if chosen is None:
        return Column(name, "ignore"), "too many different texts"
    return replace(chosen, role=role), why


def _choice(profile: ColumnProfile, most: int) -> Column | None:
    """A column with the values found as its levels or labels, None if there are too many."""
    if profile.values is None or not 2 <= len(profile.values) <= most:
        return None
    if not profile.is_number:
        return Column(profile.name, "ignore", labels=tuple(sorted(profile.values)))
    levels = tuple(profile.numbers())
    return Column(profile.name, "ignore", levels=levels) if len(levels) > 1 else None


def _with_a_guess(
    path: str | Path, guesses: Sequence[tuple[Column, str]], columns: Sequence[ColumnProfile]
) -> list[tuple[Column, str]]:
    """The last column that moves and has few values is the action, since none is called so."""
    for place in reversed(range(len(columns))):
        profile, (column, _) = columns[place], guesses[place]
        chosen = (
            _choice(profile, MOST_LEVELS) if profile.is_whole or not profile.is_number else None
        )
        if chosen and column.role == "state":
            why = "only a guess: no column is called an action, and this one has few values"
            return [*guesses[:place], (replace(chosen, role="action"), why), *guesses[place + 1 :]]
    raise FileError(
        f"{path}: no column looks like an action; name it 'action' (or 'a_...', one for each "
        f"component), with at most {MOST_LEVELS} different values: bin doses into levels first"
    )


def _with_actions(guesses: Sequence[tuple[Column, str]]) -> list[tuple[Column, str]]:
    """The same where actions are not counted twice: as one number and by component, or as the
    dose behind a level."""
    actions = [column.name for column, _ in guesses if column.role == "action"]
    parts = [name for name in actions if "_" in name]
    stems = {name.partition("_")[2].lower(): name for name in parts}
    found = []
    for column, why in guesses:
        stem = column.name.lower().partition("_")[0]
        if column.name in actions and column.name not in parts and len(parts) > 1:
            column = Column(column.name, "ignore")
            why = f"seems to number the combinations of {' and '.join(parts)}"
        elif column.role == "state" and stem in stems:
            why = f"seems to be what {stems[stem]} is the level of"
            column = Column(column.name, "ignore")
        found.append((column, why))
    return found


def _counted(guesses: Sequence[tuple[Column, str]]) -> list[tuple[Column, str]]:
    """The same where measurements that never change are left out beside states with levels."""
    if any(column.role == "state" and column.size is None for column, _ in guesses):
        return list(guesses)
    return [
        (Column(column.name, "ignore"), "a measurement, but states have levels or labels only")
        if column.role == "fixed" and column.size is None
        else (column, why)
        for column, why in guesses
    ]


def _comments(column: Column, profile: ColumnProfile, why: str, rows: int) -> dict[str, str]:
    comments = {"role": why}
    if profile.is_number and not profile.is_empty:
        whole = "whole numbers from " if profile.is_whole else ""
        comments["role"] += f"; seen: {whole}{profile.low:g} to {profile.high:g}"
    elif profile.values and column.labels is None:
        some = ", ".join(repr(value[:30]) for value in sorted(profile.values)[:4])
        comments["role"] += f"; seen: {some}{', ...' if len(profile.values) > 4 else ''}"
    if profile.missing and column.role in ("state", "fixed", "contextual", "action"):
        fill = '"carry-forward"' if column.size is not None else '"carry-forward" or "mean"'
        last = "fine in the last row of an episode, elsewhere " if column.role == "action" else ""
        share = 100.0 * profile.missing / rows
        filled = f"{last}{fill} fills them, and counts how many"
        comments["missing"] = f"{share:.1f} % are missing: {filled}"
    return comments


def _head(found: TableProfile, schema: Schema) -> str:
    lines = [
        f"Draft from {Path(found.path).name}: {found.episodes:,} episodes, {found.rows:,} rows.",
        "Read every role: state (moves, and is moved by actions), fixed, contextual (an input that",
        "is replayed as it was), action, reward, outcome (describes an episode; no model sees it)",
        "or ignore. Add units, and low and high where values beyond them are mistakes.",
        _time_in_words(found),
    ]
    if found.nameless:
        lines.append(f"{found.nameless} columns without a name are left out.")
    if schema.reward is not None:
        kind = "discrete" if schema.is_discrete else "continuous"
        lines.append(f"States are {kind}; what is good is read from {schema.reward.name!r}.")
        if not schema.is_discrete:
            lines.append('If that is no linear function of the states, say better = "lower" or')
            lines.append('"higher" for the state columns that matter instead.')
    else:
        lines.append('Say what is good: better = "lower" or "higher" for a state column or more.')
    return "\n".join(lines)


def _time_in_words(found: TableProfile) -> str:
    if found.odd_time:
        return (
            f"{found.time!r} holds {shown(found.odd_time)}, but time must be a number: add a "
            "column that counts the steps of an episode (0, 1, 2, ...), and name it in [table]."
        )
    return (
        f"From row to row {found.time!r} grows by {found.increment:g}: say how long a step lasts, "
        'such as step = 4 and unit = "h".'
    )


# --- What the columns of a table hold ---------------------------------------------------------


@dataclass
class ColumnProfile:
    """A column so far.

    values       its different texts, None if there are too many
    is_number    whether every value is a number
    is_constant  whether it has one value in each episode
    """

    name: str
    missing: int = 0
    values: set[str] | None = field(default_factory=set)
    is_number: bool = True
    is_constant: bool = True
    low: float = np.inf
    high: float = -np.inf
    _first: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it has no value at all."""
        return self.values is not None and not self.values

    @property
    def is_whole(self) -> bool:
        """Whether it holds a few different whole numbers."""
        return self.is_number and bool(self.values) and all(n.is_integer() for n in self.numbers())

    def numbers(self) -> list[float]:
        """Its different values as numbers, in order."""
        found = {as_number(value) for value in self.values or ()}
        return sorted(number for number in found if number is not None)

    def add(self, texts: pl.Series, episodes: pl.Series) -> None:
        """Look at some more rows."""
        import polars as pl

        gap = texts.str.to_uppercase().is_in(GAPS)
        known, owners = texts.filter(~gap), episodes.filter(~gap)
        self.missing += int(gap.sum())
        if not len(known):
            return
        if self.values is not None:
            self.values |= set(known.unique().to_list())
            if len(self.values) > MOST_VALUES:
                self.values = None
        if self.is_number:
            numbers = known.cast(pl.Float64, strict=False)
            self.is_number = not numbers.is_null().any() and bool(numbers.is_finite().all())
            if self.is_number:
                self.low = min(self.low, float(np.min(numbers.to_numpy())))
                self.high = max(self.high, float(np.max(numbers.to_numpy())))
        if self.is_constant:
            self._watch(known, owners)

    def _watch(self, known: pl.Series, owners: pl.Series) -> None:
        import polars as pl

        pairs = pl.DataFrame({"owner": owners, "value": known}).unique(maintain_order=True)
        for owner, value in pairs.iter_rows():
            if self._first.get(owner, value) != value:
                self.is_constant = False
                self._first.clear()
                return
            if len(self._first) < WATCHED:
                self._first[owner] = value


@dataclass(frozen=True)
class TableProfile:
    """A table: its columns but for those of episode and time, and how time goes on.

    odd_time  a time that is no number, empty if there is none
    """

    path: str | Path
    episode: str
    time: str
    increment: float
    columns: tuple[ColumnProfile, ...]
    rows: int
    episodes: int
    nameless: int
    odd_time: str


def profile_table(
    path: str | Path, episode_names: Sequence[str], time_names: Sequence[str]
) -> TableProfile:
    """Look at a whole table; the names are those that its leading columns may have."""
    file = open_table_file(path)
    named = [name for name in file.header if name]
    file.check_columns(list(dict.fromkeys(named)))
    if len(named) < 2:
        raise FileError(
            f"{path}: has the column {shown(named[0])} only; add those of time, states and "
            "actions, separated by commas"
        )
    episode = _chosen(named, episode_names, named[0])
    others = [name for name in named if name != episode]
    time = _chosen(others, time_names, others[0])
    return _profile(file, named, episode, time)


def _profile(file: TableFile, named: Sequence[str], episode: str, time: str) -> TableProfile:
    mistakes = Mistakes(file.path)
    columns = [ColumnProfile(name) for name in named if name not in (episode, time)]
    names: set[str] = set()
    rows, steps, odd = 0, list[float](), ""
    for block in file.blocks(named, mistakes):
        owners = block.texts[episode]
        names |= set(owners.unique().to_list())
        rows += len(block.rows)
        if len(steps) < 2:
            steps.append(_usual_step(block.texts[time], owners))
        odd = odd or _no_number(block.texts[time])
        for column in columns:
            column.add(block.texts[column.name], owners)
    if not rows:
        mistakes.in_file(NO_ROWS)
    mistakes.refuse()
    known = [step for step in steps if step > 0.0]
    nameless = len(file.header) - len(named)
    increment = known[0] if known else 1.0
    return TableProfile(
        *(file.path, episode, time, increment, tuple(columns), rows, len(names), nameless, odd)
    )


def _no_number(texts: pl.Series) -> str:
    """The first text that is neither a number nor a gap, empty if there is none."""
    import polars as pl

    is_odd = texts.cast(pl.Float64, strict=False).is_null()
    odd = texts.filter(is_odd & ~texts.str.to_uppercase().is_in(GAPS))
    return str(odd[0]) if len(odd) else ""


def _usual_step(texts: pl.Series, owners: pl.Series) -> float:
    """By how much time mostly grows from one row of an episode to the next, 0 if it does not."""
    import polars as pl

    frame = pl.DataFrame({"owner": owners, "time": texts.cast(pl.Float64, strict=False)})
    frame = frame.filter(pl.col("time").is_finite()).sort("owner", "time", maintain_order=True)
    steps = frame.select(pl.col("time").diff().over("owner")).to_series().drop_nulls()
    usual = steps.filter(steps > 0.0).mode().sort()
    return float(usual[0]) if len(usual) else 0.0


def _chosen(header: Sequence[str], wanted: Sequence[str], usual: str) -> str:
    lower = {name.lower(): name for name in reversed(header)}
    return next((lower[name] for name in wanted if name in lower), usual)
