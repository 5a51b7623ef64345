"""A first draft of a schema from the table itself, for the user to read and correct.

Roles are guessed from names and values; what was found in a column stands above it as a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from counterplan.core.dates import UNITS, Spacing
from counterplan.core.table import (
    GAPS,
    MEASURED,
    MIXED,
    OPEN,
    Block,
    TableFile,
    open_table_file,
    plain_numbers,
    shown,
)
from counterplan.errors import FileError, InputError
from counterplan.scm.transitions import is_code
from counterplan.tables.rewards import is_cost_name, word
from counterplan.tables.schema import ALLOW, INPUT, REFUSE, STEP, Column, Schema

if TYPE_CHECKING:
    import polars as pl

EPISODES = (
    *("episode_id", "episode", "icustayid", "icustay_id", "stay_id", "hadm_id", "patient_id"),
    *("subject_id", "trajectory_id", "traj_id", "trajectory", "voyage_id", "run_id", "patient"),
    *("subject", "case_id", "id"),
)
TIMES = (
    *("t", "time", "step", "timestep", "bloc", "hour", "hours", "day", "charttime", "datetime"),
    *("timestamp", "date", "visit_date", "visit_time", "datum", "visit"),
)
# Columns of tables with a row for each measurement: what it is of, and the value.
MEASUREMENTS = ("variable", "parameter", "measurement", "itemid", "item", "analyte", "name", "test")
VALUES = ("value", "valuenum", "result")
# Of names as `word` writes them.
ACTION = re.compile(
    r"(.+_)?(action|treatment|decision|dose|dosage|drug|medication|intervention|therapy)s?(_.*|\d*)"
    r"|(.+_)?(dosis|medikament|behandlung|therapie)(_.*|\d*)|(a|act)(_.*|\d*)"
)
GOOD = r"surviv|discharge|passed|success|recover|cured|graduat|respon"
OUTCOME = re.compile(rf".*(died|death|dead|mortality|outcome|readmi|relapse|churn|failed|{GOOD}).*")
SURVIVAL = re.compile(rf".*({GOOD}).*")
REWARD = re.compile(r"rewards?|r|(.*_)?(profit|revenue|earnings|income|margin|gewinn)(_.*)?")
FLAG = re.compile(r"done|terminal|terminated|truncated|timeout|is_last|final")
LATER = re.compile(r"(next|following|future|upcoming)_.*|.+_next")
IDENTIFIER = re.compile(
    r"(.*_)?(id|mrn|uuid|guid|key|index|idx|nr|ssn|serial|row|(row|case|record)_?(no|num|number))",
    re.IGNORECASE,
)
STATE = re.compile(r"(state|s|obs|observation)(_.*|\d*)?")
PERCENT = re.compile(r"(.*_)?(pct|perc|percent|percentage|prozent)(_.*)?|s[ap]o2|fio2")
HEADING = re.compile(r".*[(\[](.+)[)\]]")
# A score has no more different values.
MOST_POINTS = 31
MOST_LEVELS = 30
MOST_LABELS = 20
MOST_STATES = 1_000
LONGEST_LABEL = 60
# Episodes or rows from which on it is no chance that all have another value.
FEWEST = 20
# Columns with more different values are measurements, or names.
MOST_VALUES = 1_000
# A column holds numbers, some of them mistaken, if so large a share of it does.
MOSTLY = 0.9


IDLE = "empty once in every episode, as where nothing is done any more"
A_DOSE = "a dose, any number between low and high: write what may be advised"

# A column with its role, and why.
Guess: TypeAlias = tuple[Column, str]


@dataclass(frozen=True)
class Draft:
    """A schema, and what to say about it: at the head of the file, and by column and key."""

    schema: Schema
    head: str
    comments: dict[str, dict[str, str]]
    rows: int
    episodes: int


def draft_schema(table: Any) -> Schema:
    """The drafted schema of a table: a file, or a frame of polars or pandas."""
    return draft(table).schema


def draft(table: Any) -> Draft:
    """The same with comments."""
    found = TableProfile(open_table_file(table))
    path = found.path
    _check_form(found)
    guesses = [_guess(one, found.rows, found.episodes) for one in found.columns]
    if not any(column.role == "action" for column, _ in guesses):
        _guess_action(path, guesses, found.columns)
    guesses = _ignore_doubles(guesses)
    guesses = [
        (replace(column, unit=profile.unit, **_range(column, profile)[0]), why)
        if column.role != "ignore"
        else (column, why)
        for (column, why), profile in zip(guesses, found.columns, strict=True)
    ]
    columns = tuple(column for column, _ in guesses)
    if not any(column.role == "state" for column in columns):
        raise FileError(
            f"{path}: no column looks like a state (one that changes within episodes) among "
            f"{', '.join(one.name for one in found.columns[:8])}; add what was measured"
        )
    try:
        schema = Schema(columns, found.episode, found.time)
        schema = replace(schema, **_pace(found.spacing, schema.is_discrete))
    except InputError as problem:
        raise FileError(f"{path}: cannot be drafted: {problem}; write the schema by hand") from None
    comments = {
        column.name: _comments(column, profile, why, found.rows)
        for (column, why), profile in zip(guesses, found.columns, strict=True)
    }
    head = _head(Path(path).name, found, schema)
    return Draft(schema, head, comments, found.rows, found.episodes)


def _check_form(found: TableProfile) -> None:
    """Raise if rows are no steps: measurements, one below the other, or whole episodes."""
    names = {one.name.lower(): one.name for one in found.columns}
    kind = next((names[name] for name in MEASUREMENTS if name in names), None)
    if kind is not None and not names.keys().isdisjoint(VALUES):
        raise FileError(
            f"{found.path}: has a row for each measurement, named in {kind!r}; give one row for "
            f"each step, with a column for each {kind!r}"
        )
    if 1 < found.rows == found.episodes:
        raise FileError(
            f"{found.path}: every episode ({found.episode!r}) has a single row; give one for each "
            "step: columns such as lactate_1, lactate_2 become rows, and 'episode_id' names the "
            "episode"
        )


def _guess(profile: ColumnProfile, rows: int, episodes: int) -> Guess:
    name, constant, called = profile.name, profile.is_constant, word(profile.name)
    if profile.values is not None and not profile.values:
        return Column(name, "ignore"), "empty"
    if FLAG.fullmatch(called):
        return Column(name, "ignore"), "says where an episode ends"
    if LATER.fullmatch(called):
        return Column(name, "ignore"), "by its name it is known only after the decision"
    is_reward = profile.is_number and REWARD.fullmatch(called) is not None
    if is_reward and not constant:
        return Column(name, "reward"), "by its name"
    is_cost = profile.is_number and profile.high > 0.0 and is_cost_name(name)
    if (OUTCOME.fullmatch(called) or is_cost or is_reward) and constant:
        role = "reward" if is_reward or SURVIVAL.fullmatch(called) else "cost"
        names = sorted(profile.values or ()) if not profile.is_number else []
        more = f'; to optimise it: role = "{role}", when = "last"'
        if names:
            more = f"{more}, labels = {json.dumps(names)}" if len(names) == 2 else ""
        return Column(name, "outcome"), f"one value for each episode{more}"
    if OUTCOME.fullmatch(called) and profile.levels == (0.0, 1.0):
        role = "reward" if SURVIVAL.fullmatch(called) else "cost"
        return Column(name, role, when="last"), "by its name; its last value counts"
    if is_cost:
        return Column(name, "cost"), "by its name: less is better"
    if ACTION.fullmatch(called) and (chosen := profile.choice("action", MOST_LEVELS)):
        return chosen, "by its name"
    if ACTION.fullmatch(called) and (dose := profile.dose()):
        return dose, f"by its name; {A_DOSE}"
    if profile.values is not None and len(profile.values) == 1:
        return Column(name, "ignore"), "the same in every row"
    if (
        STATE.fullmatch(called)
        and profile.counts
        and (chosen := profile.choice("state", MOST_STATES))
    ):
        return chosen, "by its name"
    if profile.is_identifier:
        return Column(name, "ignore"), "a name: another one in every episode or row"
    if not profile.is_number and max(map(len, profile.values or ("",))) > LONGEST_LABEL:
        return Column(name, "ignore"), "free text: what it says of why things were done is not used"
    if (
        not constant
        and profile.counts
        and profile.missing == episodes
        and (chosen := profile.choice("action", MOST_LEVELS))
    ):
        return chosen, IDLE
    if not constant and profile.missing == episodes and (dose := profile.dose()):
        return dose, f"{IDLE}; {A_DOSE}"
    if constant and profile.missing == rows - episodes and rows > episodes:
        how = '; to optimise it: role = "cost" or "reward", when = "last"'
        return Column(name, "outcome"), f"once in every episode{how if profile.is_number else ''}"
    role, why = "state", "changes"
    if constant:
        role, why = "fixed", 'never changes within an episode; known at its end only: "outcome"'
    if profile.is_number:
        return Column(name, role), why
    if chosen := profile.choice(role, MOST_LABELS):
        return chosen, why
    return Column(name, "ignore"), "too many different texts"


def _guess_action(path: str | Path, guesses: list[Guess], columns: Sequence[ColumnProfile]) -> None:
    """The last column that moves and has few values is the action, since none is called so."""
    for place, profile in reversed(list(enumerate(columns))):
        is_moving = guesses[place][0].role == "state"
        if is_moving and profile.counts and (chosen := profile.choice("action", MOST_LEVELS)):
            why = "only a guess: no column is called an action, and this one has few values"
            guesses[place] = chosen, why
            return
    raise FileError(
        f"{path}: no column looks like an action; name it 'action' (or 'a_...', 'dose_...', one "
        f"for each component); what holds more than {MOST_LEVELS} different numbers is a dose"
    )


def _ignore_doubles(guesses: list[Guess]) -> list[Guess]:
    """Ignore what is said twice: actions as one number and by component, or as the dose behind a
    level; and what the other states leave no room for: names that change beside measurements, or
    measurements that never change beside states with levels."""
    actions = [column.name for column, _ in guesses if column.role == "action"]
    parts = [name for name in actions if "_" in name]
    stems = {name.partition("_")[2].lower(): name for name in parts}
    is_listed = any(one.role == "action" and not one.is_dose for one, _ in guesses)
    is_earned = any(one.role == "reward" and one.when == STEP for one, _ in guesses)

    def is_double(column: Column) -> str:
        stem = column.name.lower().partition("_")[0]
        if column.is_dose and is_listed:
            return 'a dose: any number; beside actions with levels, give levels or "contextual"'
        if column.name in actions and column.name not in parts and len(parts) > 1:
            return f"seems to number the combinations of {' and '.join(parts)}"
        if column.role == "state" and stem in stems:
            return f"seems to be what {stems[stem]} is the level of"
        if is_earned and column.role == "cost" and column.when == STEP:
            return 'by its name it costs; role = "cost" counts it besides the reward'
        return ""

    def has_no_room(column: Column) -> str:
        if column.role == "state" and column.categories and is_measured:
            return "names that change; a scale is a state: labels in order, ordered = true"
        if column.role == "fixed" and column.size is None and not is_measured:
            return "a measurement, but states have levels or labels only"
        return ""

    guesses = _ignored(guesses, is_double)
    is_measured = any(one.role == "state" and one.size is None for one, _ in guesses)
    return _ignored(guesses, has_no_room)


def _ignored(guesses: list[Guess], why: Callable[[Column], str]) -> list[Guess]:
    """With role = "ignore" where there is a reason."""
    said = [(guess, why(guess[0])) for guess in guesses]
    return [(Column(one[0].name, "ignore"), text) if text else one for one, text in said]


def _range(column: Column, profile: ColumnProfile) -> tuple[dict[str, Any], dict[str, str]]:
    """Where the values of a state column can lie by what was seen, and why for each bound."""
    if column.role != "state" or column.size is not None or not 0.0 <= profile.low < profile.high:
        return {}, {}
    if (PERCENT.fullmatch(word(column.name)) or profile.unit == "%") and profile.high <= 100.0:
        return {"low": 0.0, "high": 100.0}, {"high": "percent, as it seems"}
    points = len(profile.levels) if profile.is_whole else 0
    if 2 < points <= MOST_POINTS and profile.high <= 100.0:
        why = "the largest seen, of a score as it seems: write the end of its scale"
        return {"low": 0.0, "high": profile.high}, {"high": why}
    if profile.high <= 1.0:
        return {"low": 0.0, "high": 1.0}, {"high": "a share, or 0 and 1, as it seems"}
    return {"low": 0.0}, {"low": "no value seen is negative"}


def _pace(spacing: Spacing, is_discrete: bool) -> dict[str, Any]:
    """What [table] says of time."""
    usual, regular = spacing.usual or 1.0, spacing.is_regular
    gaps = REFUSE if regular else ALLOW if is_discrete else INPUT
    if not spacing.dates:
        step = usual if regular else 1.0
        return {"step": step, "increment": step, "gaps": gaps}
    unit = spacing.unit(whole=regular or is_discrete)
    step = usual / UNITS[unit] if regular and spacing.steps else 1.0
    return {"step": step, "unit": unit, "dates": spacing.order or True, "gaps": gaps}


def _comments(column: Column, profile: ColumnProfile, why: str, rows: int) -> dict[str, str]:
    comments = {"role": why} | _range(replace(column, low=None, high=None), profile)[1]
    if profile.is_number and profile.low <= profile.high:
        whole = "whole numbers from " if profile.is_whole else ""
        comments["role"] += f"; seen: {whole}{profile.low:g} to {profile.high:g}"
        codes = [f"{end:.12g}" for end in (profile.low, profile.high) if profile.may_be_code(end)]
        if codes and column.role in ("state", "fixed", "contextual") and column.size is None:
            words = f'{" and ".join(codes)} may stand for gaps: low, high and outside = "missing"'
            comments["role"] += f"; {words} make them such"
        if profile.odd:
            many = f"{profile.odd:,} entries" if profile.odd > 1 else "one entry"
            comments["role"] += f"; no numbers: {many}, {profile.first_odd}: correct or empty them"
    elif profile.values and column.labels is None:
        some = ", ".join(repr(value[:30]) for value in sorted(profile.values)[:4])
        comments["role"] += f"; seen: {some}{', ...' if len(profile.values) > 4 else ''}"
        if len(profile.units) > 1 and profile.odd <= (1.0 - MOSTLY) * profile.count:
            units = " and ".join(map(repr, sorted(profile.units)[:4]))
            comments["role"] += f"; if these are numbers in {units}, convert them to one unit"
    if column.labels is not None and len(column.labels) < len(profile.values or ()):
        others = sorted((profile.values or set()) - set(column.labels))
        comments["labels"] = f"{', '.join(map(repr, others[:4]))}: the same in other letters"
    if profile.missing and column.role in ("state", "fixed", "contextual", "action"):
        fill = '"carry-forward"' if column.size is not None else '"carry-forward" or "mean"'
        last = "fine in the last row of an episode, elsewhere " if column.role == "action" else ""
        share = 100.0 * profile.missing / rows
        filled = f"{last}{fill} fills them, and counts how many"
        comments["missing"] = f"{share:.1f} % are missing: {filled}"
    return comments


def _head(name: str, found: TableProfile, schema: Schema) -> str:
    lines = [
        f"Draft from {name}: {found.episodes:,} episodes, {found.rows:,} rows"
        f"{f', read as {found.form}' if found.form else ''}.",
        "Read every role: state (moves, and is moved by actions), fixed (known from the start),",
        "contextual (an input that is replayed as it was), action, reward, cost, outcome (says",
        "how an episode ended; no model sees it) or ignore. Add units, and low and high: values",
        "beyond them are mistakes, and answers that lead beyond them say so.",
        *_pace_in_words(found.time, found.spacing, schema),
    ]
    if found.nameless:
        lines.append(f"{found.nameless} columns without a name are left out.")
    named = " and ".join(repr(column.name) for column in schema.of("reward", "cost"))
    if not named:
        lines.append('Say what is good: better = "lower" or "higher" for state columns, or role =')
        lines.append('"reward" or "cost" for what was earned or paid (at the end: when = "last").')
        return "\n".join(lines)
    lines.append(f"States are {schema.kind}; what is good is read from {named}, added up.")
    if schema.rewards and not schema.is_discrete:
        lines.append('If that is no linear function of states and actions, say better = "lower" or')
        lines.append('"higher" for the state columns that matter instead.')
    if schema.rewards:
        lines.append('If episodes go on after their last row: final = "value" counts what follows.')
    return "\n".join(lines)


def _pace_in_words(name: str, spacing: Spacing, schema: Schema) -> list[str]:
    if spacing.odd:
        wanted = "a date such as 2024-03-31 14:30" if spacing.dates else "a number or a date"
        other = "name another column in [table], such as one that counts the steps (0, 1, 2, ...)."
        if "/" in spacing.odd:
            other = (
                'say which comes first, the day or the month: dates = "dmy" or "mdy" in [table].'
            )
        return [
            f"{name!r} holds {shown(spacing.odd)}, but time must be {wanted}: correct it, or",
            other,
        ]
    scale, unit = schema.step / schema.spacing, f" {schema.unit}".rstrip()
    if schema.gaps == REFUSE:
        said = f"From row to row {name!r} grows by {(spacing.usual or 1.0) * scale:g}{unit}"
        hint = (
            "" if schema.dates else ': say how long a step lasts, such as step = 4 and unit = "h"'
        )
        missed = [
            f"{spacing.missed:,} times it grows by more, so rows are missing: add them, or say",
            'gaps = "allow" to count those that are there as consecutive, or "input" to make the',
            "time until the next row an input of the model.",
        ]
        return [f"{said}{hint}.", *(missed if spacing.missed else [])]
    low, high = min(spacing.steps) * scale, max(spacing.steps) * scale
    return [
        f"From row to row {name!r} grows by {low:g} to {high:g}{unit}, not regularly:",
        "rows count as consecutive steps, however long they are apart."
        if schema.gaps == ALLOW
        else "the time until the next row, gap, is an input of the model, replayed as it was.",
    ]


# --- What the columns of a table hold ---------------------------------------------------------


class ColumnProfile:
    """What a column holds, of which `episodes` names the rows.

    missing      how many entries are empty
    count, odd   how many there are, and how many of them are no numbers
    first_odd    the first of these, and its row
    units        what stands beside its numbers
    values       its different texts, None if there are too many
    levels       its different numbers in order, none if there are too many
    low, high    the least and largest
    is_constant  whether it has one value in each episode
    is_rising    whether it is a larger whole number in every row, or in every episode
    """

    def __init__(self, block: Block, name: str, episodes: pl.Series) -> None:
        import polars as pl

        texts = block.plain(name)
        gap = texts.str.to_uppercase().is_in(GAPS)
        known, owners = texts.filter(~gap), episodes.filter(~gap)
        self.name, self.missing, self.count = name, int(gap.sum()), len(known)
        numbers, self.units = known.cast(pl.Float64, strict=False), set[str]()
        if numbers.has_nulls():
            parts = known.str.extract_groups(MEASURED).struct.unnest()
            given = plain_numbers(parts["number"], block.signs.get(name) or ".")
            is_new = numbers.is_null() & given.is_not_null()
            beside = (parts["before"] + parts["after"].fill_null("")).filter(is_new)
            self.units = set(beside.unique().head(MOST_LABELS))
            numbers = numbers.fill_null(given.cast(pl.Float64, strict=False))
        is_odd, self.first_odd = ~(numbers.is_finite().fill_null(False)), ""
        self.odd = int(is_odd.sum())
        if self.odd:
            row = block.rows[(~gap).arg_true()[int(is_odd.arg_max() or 0)]]
            self.first_odd = f"{shown(known.filter(is_odd)[0])} in {block.mistakes.place(row)}"
        values, levels = known.unique(), numbers.filter(~is_odd).unique().sort()
        self.values = set(values) if len(values) <= MOST_VALUES else None
        self.levels: tuple[float, ...] = tuple(levels) if len(levels) <= MOST_VALUES else ()
        pairs = pl.DataFrame({"owner": owners, "value": known}).unique()
        self._episodes, self._different = pairs["owner"].n_unique(), len(values)
        self.is_constant = self._episodes == pairs.height
        right = numbers.filter(~is_odd).to_numpy()
        # What never changes within an episode rises from one to the next.
        rises = np.diff(right) >= 0.0 if self.is_constant else np.diff(right) > 0.0
        self.is_rising = bool(rises.all() and not (right % 1.0).any())
        self.low, self.high = float(right.min(initial=np.inf)), float(right.max(initial=-np.inf))

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers in one unit, but for a few entries."""
        return self.odd <= (1.0 - MOSTLY) * self.count and len(self.units) < 2

    @property
    def unit(self) -> str:
        """What its numbers are in, as far as the table says."""
        found = HEADING.fullmatch(self.name)
        return next(iter(self.units), found[1].strip() if found else "") if self.is_number else ""

    @property
    def is_whole(self) -> bool:
        """Whether it holds a few different whole numbers."""
        return self.is_number and bool(self.levels) and all(n.is_integer() for n in self.levels)

    @property
    def counts(self) -> bool:
        """Whether it holds names or numbers of things, not measurements."""
        return self.is_whole or not self.is_number

    @property
    def is_identifier(self) -> bool:
        """Whether it names episodes or numbers rows, by its name or in their order."""
        if not self.is_constant or self._episodes < FEWEST:
            return self.is_rising and self.is_number and self.high - self.low >= FEWEST
        return self._different == self._episodes and bool(
            (self.is_number and self.is_rising) or IDENTIFIER.fullmatch(self.name)
        )

    def may_be_code(self, end: float) -> bool:
        """Whether its least or largest number is a usual code of gaps, apart from the others."""
        others = [one for one in self.levels if one != end]
        if not is_code(end) or len(others) < 2:
            return is_code(end)
        apart = min(abs(one - end) for one in others) > others[-1] - others[0]
        return apart or end < 0.0 <= others[0]

    def choice(self, role: str, most: int) -> Column | None:
        """A column with the values found as its levels or labels, None if there are too many."""
        if self.is_number:
            few = 2 <= len(self.levels) <= most
            return Column(self.name, role, levels=self.levels) if few else None
        # Of those that differ in capitals only, one.
        labels = tuple(sorted({one.casefold(): one for one in sorted(self.values or ())}.values()))
        return Column(self.name, role, labels=labels) if 2 <= len(labels) <= most else None

    def dose(self) -> Column | None:
        """A column of doses, between none (or the least) and the largest seen; None unless it
        holds numbers that differ."""
        if not (self.is_number and self.low < self.high):
            return None
        return Column(self.name, "action", low=min(self.low, 0.0), high=self.high)


class TableProfile:
    """A table: its columns but for those of episode and time, and how time goes on."""

    def __init__(self, file: TableFile) -> None:
        named = [name for name in file.header if name]
        file.check_columns(list(dict.fromkeys(named)))
        if len(named) < 2:
            raise FileError(
                f"{file.path}: has the column {shown(named[0])} only; add those of time, states "
                "and actions, separated by commas"
            )
        self.path, self.nameless = file.path, len(file.header) - len(named)
        self.episode = _chosen(named, EPISODES)
        self.time = _chosen([name for name in named if name != self.episode], TIMES)
        block = file.read(named)
        self.form, owners = ", ".join(file.form), block.texts[self.episode]
        why = "names no episode; if this row holds units or a second heading, remove it"
        block.report((owners == "").to_numpy(), self.episode, why)
        others = [name for name in named if name not in (self.episode, self.time)]
        self.columns = [ColumnProfile(block, name, owners) for name in others]
        for one in self.columns:
            if block.signs.get(one.name) in (OPEN, MIXED) and _are_numbers(block, one.name):
                block.numbers(one.name, unit=next(iter(one.units), ""))
        block.mistakes.refuse()
        self.rows, self.episodes = len(block), owners.n_unique()
        self.spacing = Spacing.of(block.texts[self.time], owners)


def _are_numbers(block: Block, name: str) -> bool:
    """Whether all entries are numbers, whatever their commas and points mean."""
    import polars as pl

    known = block.texts[name].filter(~block.texts[name].str.to_uppercase().is_in(GAPS))
    plain = known.str.replace(MEASURED, "${number}").str.replace_all("[,.]", "")
    return not plain.cast(pl.Float64, strict=False).has_nulls()


def _chosen(header: Sequence[str], wanted: Sequence[str]) -> str:
    lower = {word(name): name for name in reversed(header)}
    return next((lower[name] for name in wanted if name in lower), header[0])
