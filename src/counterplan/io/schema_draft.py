"""A first draft of a schema from the table itself, for the user to read and correct.

Roles are guessed from names and values; what was seen of a column stands above it as a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from counterplan.errors import FileError, InputError
from counterplan.io.mistakes import shown
from counterplan.io.schema import Column, Schema
from counterplan.io.schema_survey import Seen, Survey, survey

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
    found = survey(path, EPISODES, TIMES)
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
        column.name: _said(column, seen, why, found.rows)
        for (column, why), seen in zip(guesses, found.columns, strict=True)
    }
    return Draft(schema, _head(found, schema), comments, found.rows, found.episodes)


def _guess(seen: Seen) -> tuple[Column, str]:
    """The role of a column, and why."""
    name = seen.name
    if seen.is_empty:
        return Column(name, "ignore"), "empty"
    if FLAG.fullmatch(name):
        return Column(name, "ignore"), "says where an episode ends"
    if REWARD.fullmatch(name) and seen.is_number:
        return Column(name, "reward"), "by its name"
    if OUTCOME.fullmatch(name) and seen.is_constant:
        return Column(name, "outcome"), "one value for each episode"
    if ACTION.fullmatch(name) and (chosen := _choice(seen, MOST_LEVELS)):
        return replace(chosen, role="action"), "by its name"
    if seen.values is not None and len(seen.values) == 1:
        return Column(name, "ignore"), "the same in every row"
    if STATE.fullmatch(name) and (seen.is_whole or not seen.is_number):
        chosen = _choice(seen, MOST_STATES)
        if chosen:
            return replace(chosen, role="state"), "by its name"
    role = "fixed" if seen.is_constant else "state"
    why = "never changes within an episode" if seen.is_constant else "changes"
    if seen.is_number:
        return Column(name, role), why
    chosen = _choice(seen, MOST_LABELS)
    if chosen is None:
        return Column(name, "ignore"), "too many different texts"
    return replace(chosen, role=role), why


def _choice(seen: Seen, most: int) -> Column | None:
    """A column with the values seen as its levels or labels, None if there are too many."""
    if seen.values is None or not 2 <= len(seen.values) <= most:
        return None
    if not seen.is_number:
        return Column(seen.name, "ignore", labels=tuple(sorted(seen.values)))
    levels = tuple(seen.numbers())
    return Column(seen.name, "ignore", levels=levels) if len(levels) > 1 else None


def _with_a_guess(
    path: str | Path, guesses: Sequence[tuple[Column, str]], columns: Sequence[Seen]
) -> list[tuple[Column, str]]:
    """The last column that moves and has few values is the action, since none is called so."""
    for place in reversed(range(len(columns))):
        seen, (column, _) = columns[place], guesses[place]
        chosen = _choice(seen, MOST_LEVELS) if seen.is_whole or not seen.is_number else None
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


def _said(column: Column, seen: Seen, why: str, rows: int) -> dict[str, str]:
    said = {"role": why}
    if seen.is_number and not seen.is_empty:
        whole = "whole numbers from " if seen.is_whole else ""
        said["role"] += f"; seen: {whole}{seen.low:g} to {seen.high:g}"
    elif seen.values and column.labels is None:
        some = ", ".join(repr(value[:30]) for value in sorted(seen.values)[:4])
        said["role"] += f"; seen: {some}{', ...' if len(seen.values) > 4 else ''}"
    if seen.missing and column.role in ("state", "fixed", "contextual", "action"):
        fill = '"carry-forward"' if column.size is not None else '"carry-forward" or "mean"'
        last = "fine in the last row of an episode, elsewhere " if column.role == "action" else ""
        share = 100.0 * seen.missing / rows
        said["missing"] = f"{share:.1f} % are missing: {last}{fill} fills them, and counts how many"
    return said


def _head(found: Survey, schema: Schema) -> str:
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


def _time_in_words(found: Survey) -> str:
    if found.odd_time:
        return (
            f"{found.time!r} holds {shown(found.odd_time)}, but time must be a number: add a "
            "column that counts the steps of an episode (0, 1, 2, ...), and name it in [table]."
        )
    return (
        f"From row to row {found.time!r} grows by {found.increment:g}: say how long a step lasts, "
        'such as step = 4 and unit = "h".'
    )
