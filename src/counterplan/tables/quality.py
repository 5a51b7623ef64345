"""What a table is like before anything is learned from it: what to correct, and what to doubt.

Actions that never vary leave nothing to learn, which is an error; all else is a finding, a warning
(what is learned may well be wrong) or a note. Findings name rows, never episodes, so that models
and reports may carry them.

docs/how-to/explain-my-table.md has a line on each kind of finding; each is a check below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from counterplan.core.table import numbered
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError, counted
from counterplan.scm.transitions import can_spare, is_code, plausible_range
from counterplan.tables.draft import FEWEST, IDENTIFIER
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Rows
from counterplan.tables.schema import Column

WARNING, NOTE = "warning", "note"
# The entry of `model.about`.
FINDINGS = "findings"
# Whole numbers up to this are scores and counts, which have no units.
LARGEST_SCORE = 24.0
# How far apart quantities are in two units that are both in use.
FACTORS = {
    10.0: "a slip of the decimal point?",
    100.0: "shares and per cent?",
    1000.0: "such as g and kg, or mL and L?",
    17.6: "such as glucose in mg/dL and mmol/L, or bilirubin in µmol/L and mg/dL?",
    88.4: "such as creatinine in µmol/L and mg/dL?",
    38.7: "such as cholesterol in mg/dL and mmol/L?",
    2.205: "such as lb and kg?",
    2.54: "cm and inches?",
    7.501: "mmHg and kPa?",
    60.0: "minutes and hours?",
}
# Of the logarithms of such factors.
NEAR = 0.15
# A column with fewer different values holds settings or classes, whatever factors lie between them.
MEASURED = 10
SAME = 0.999
# Neighbours that may differ where a column tells all.
UNTOLD = 0.005
# So many times the usual time between rows, an episode may be several.
PAUSE = 10.0
# An action is hardly varied where the others have a smaller share; told if so in this share of the
# steps.
RARE, TOLD = 0.05, 0.05
# Share of the steps in which a total grows.
GROWING = 0.2
# By so much more variance of a dose the row before has to tell than its own.
BEFORE = 0.1
# The tree: questions in a row, fewest steps behind an answer, rows looked at.
QUESTIONS, LEAF, LOOKED_AT = 3, 50, 20_000
# First rows that are named.
NAMED = 10
# Transitions for each input of the model.
ENOUGH, TOO_FEW = 100, 30
UNKNOWN = "the data cannot tell what would have come of other actions there"


@dataclass(frozen=True)
class Finding:
    """Something about a table.

    severity  warning or note
    kind      what it is about: one of those above, memory (`tables.memory`) or persistence
    column    which column, empty if it is about the table
    text      what it is, and what to do
    count     how many rows, episodes or columns it is about
    rows      of the file: the first of them
    """

    severity: str
    kind: str
    column: str
    text: str
    count: int = 0
    rows: Sequence[int] = ()


def findings(every: Rows, layout: SchemaLayout) -> list[Finding]:
    """What there is to say about a table of continuous states, warnings first; raises if no action
    varies."""
    table = _Table(every, layout)
    if not table.acts.any():
        return []
    checks = (_positivity, _outliers, _units, _doses, _totals, _late, _leaks, _identifiers)
    guessed = np.concatenate([one.guesses for one in every.every])
    found = [one for check in (*checks, _copies) for one in check(table)]
    found += [*filled_gaps(int(guessed.sum()), len(guessed)), *_size(table)]
    return sorted(found, key=lambda one: one.severity == NOTE)


def discrete_findings(visits: IntArray, layout: SchemaLayout) -> list[Finding]:
    """The same of a table of discrete states, by how often each action was taken in each, (S, A);
    what never varies is a warning there: pairs that were never seen are known to the model."""
    taken = visits[:, : len(layout.choices)]
    total, most = taken.sum(axis=1), taken.max(axis=1)
    hardly = (total >= LEAF) & (most > (1.0 - RARE) * total)
    if np.count_nonzero(taken.sum(axis=0)) == 1:
        hardly = total > 0
    count, steps = int(total[hardly].sum()), int(total.sum())
    if count < TOLD * steps or not count:
        return []
    text = (
        f"nearly always the same action in {hardly.sum():,} of {np.sum(total > 0):,} states, "
        f"{count / steps:.0%} of all steps: {UNKNOWN}"
    )
    return [Finding(WARNING, "positivity", "", text, count)]


def plausible_means(
    every: Rows, layout: SchemaLayout, means: Mapping[str, float]
) -> dict[str, float]:
    """The means of columns without their outliers and without gaps that were set to `means`."""
    found, table = dict(means), _Table(every, layout)
    for name, (_, values) in table.measured.items():
        known = ~table.outside[name] & np.isfinite(values) & (values != means.get(name))
        if table.outside[name].any() and name in means and known.any():
            found[name] = float(values[known].mean())
    return found


class _Table:
    """The rows of all episodes, with their columns.

    columns   by name: with its (n,) values, nan where no action follows
    measured  those of them that are neither levels nor labels
    ranges    what is plausible, by column of these
    outside   (n,) the cells that are not, likewise
    """

    def __init__(self, table: Rows, layout: SchemaLayout) -> None:
        self.every, self.rows, self.schema = table.every, table.rows, layout.schema
        self.owner, self.starts, self.acts = table.owner, table.starts, table.acts
        features, components = self.schema.features, self.schema.components
        values = zip((*features, *components), (*table.states.T, *table.actions.T), strict=True)
        self.columns = {column.name: (column, value) for column, value in values}
        self.measured = {k: v for k, v in self.columns.items() if v[0].size is None}
        known = dict(zip(layout.features, table.ranges.T.tolist(), strict=True))
        self.ranges = {
            k: known[k] if k in known else plausible_range(x[np.isfinite(x)])
            for k, (_, x) in self.measured.items()
        }
        self.outside = {
            k: np.asarray((x < self.ranges[k][0]) | (x > self.ranges[k][1]))
            for k, (_, x) in self.measured.items()
        }

    def coded(self, name: str) -> BoolArray:
        """(n,) cells of a column that stand for a gap, as it seems: implausible ones that are a
        usual code or not positive, or the one negative number among whole ones."""
        values = self.measured[name][1]
        codes = [value for value in np.unique(values[self.outside[name]]) if is_code(value)]
        found = self.outside[name] & (np.isin(values, codes) | (values <= 0.0))
        return np.asarray(found | (values < 0.0) if self.has_negative_code(name) else found)

    def has_negative_code(self, name: str) -> bool:
        """Whether a column of whole numbers is -1 or -9 in some rows and never negative else."""
        values = self.measured[name][1]
        known = np.unique(values[np.isfinite(values)])
        is_one = known[known < 0.0].tolist() in ([-1.0], [-9.0])
        return is_one and len(known) > 3 and not (known % 1.0).any()

    @cached_property
    def usable(self) -> BoolArray:
        """(n,) rows without outliers that an action follows."""
        return np.asarray(self.acts & ~np.any([*self.outside.values()], axis=0))

    def features(self, role: str = "") -> list[tuple[Column, FloatArray]]:
        """Fixed columns and states, or those alone."""
        roles = (role,) if role else ("fixed", "state")
        return [pair for pair in self.columns.values() if pair[0].role in roles]

    def some(self, chosen: BoolArray) -> IntArray:
        """Some places of many, evenly."""
        places = np.flatnonzero(chosen)
        return places[:: 1 + len(places) // LOOKED_AT]

    def one_each(self, chosen: BoolArray) -> IntArray:
        """One place of each episode, drawn at random."""
        order = np.random.default_rng(0).permutation(np.flatnonzero(chosen))
        return order[np.unique(self.owner[order], return_index=True)[1]]

    def about(self, kind: str, name: str, text: str, chosen: BoolArray) -> Finding:
        """A warning about some rows."""
        rows = np.sort(self.rows[chosen])[:NAMED].tolist()
        return Finding(WARNING, kind, name, text, int(chosen.sum()), rows)


# --- Cells ------------------------------------------------------------------------------------


def _outliers(table: _Table) -> Iterator[Finding]:
    for name, (column, values) in table.measured.items():
        outside = table.outside[name]
        fill = "mean" if column.role == "fixed" else "carry-forward"
        gap = f"outside = 'missing' and missing = '{fill}'"
        if outside.any():
            low, high = table.ranges[name]
            text = (
                f"is {numbered(values[outside], table.rows[outside])}, far from all other values, "
                f"{low:g} to {high:g}; steps with it are not learned from: correct "
            )
            is_given = column in table.schema.columns  # not so the time between rows
            say = f"it, or say {_bounds(low, high)}, {gap}"
            text += say if is_given else f"{table.schema.time!r}, which it comes from"
            yield table.about("outliers", name, text, outside)
        if table.has_negative_code(name):
            text = (
                f"is {np.nanmin(values):g} in some rows and never negative else; if that stands "
                f"for a gap, say low = 0, {gap}"
            )
            yield table.about("outliers", name, text, values < 0.0)


def _bounds(low: float, high: float) -> str:
    """Bounds around a plausible range, with some room."""
    room = max(high - low, 1e-12)
    digit = 10.0 ** np.floor(np.log10(room))
    floor = 0.0 if low >= 0.0 else np.floor((low - room / 2) / digit) * digit
    return f"low = {floor:g}, high = {np.ceil((high + room / 2) / digit) * digit:g}"


def _units(table: _Table) -> Iterator[Finding]:
    for name, (column, values) in table.measured.items():
        chosen = np.isfinite(values)
        if column.role == "fixed":
            chosen &= np.isin(np.arange(len(values)), table.starts)
        if column in table.schema.computed:
            usual = np.quantile(values[chosen], 0.9)
            long = chosen & (values > PAUSE * usual)
            if long.any():
                text = f"is {numbered(values[long], table.rows[long])}, mostly up to {usual:g}: if "
                text += "an id stands for several episodes, give each its own"
                yield table.about("units", name, text, long)
            continue
        chosen &= ~table.coded(name)
        distinct = np.unique(values[chosen])
        is_score = distinct[-1:].max(initial=0.0) <= LARGEST_SCORE and (distinct % 1.0 == 0.0).all()
        if len(distinct) < MEASURED or distinct[0] <= 0.0 or is_score:
            continue
        found = _groups(values, chosen) or _jumps(np.where(chosen, values, np.nan), table.acts)
        if found is not None:
            text = f"seems to be in two units, {found[0]}; convert them to one"
            yield table.about("units", name, text, found[1])


def _doses(table: _Table) -> Iterator[Finding]:
    """Levels of an action that fall into groups which no episode mixes."""
    for one in table.schema.of("action"):
        values = table.columns[one.name][1]
        levels = np.unique(values[np.isfinite(values) & (values != 0.0)])
        if one.levels is None or len(levels) < 4:
            continue
        given = np.zeros((len(table.every), len(levels)), dtype=np.bool_)
        for place, level in enumerate(levels):
            given[table.owner[values == level], place] = True
        together = (given.T.astype(np.int64) @ given > 0).astype(np.int64)
        for _ in levels:  # who is with whom, in the end by way of others
            together = (together @ together > 0).astype(np.int64)
        groups = np.unique(together, axis=0).astype(np.bool_)
        if len(groups) == 2 and groups.sum(axis=1).min() > 1:
            words = " and ".join(
                ", ".join(f"{level:g}" for level in levels[group]) for group in groups[::-1]
            )
            text = (
                f"is {words} in different episodes and never in the same: if its unit or meaning "
                "changed, write all in one"
            )
            yield table.about("units", one.name, text, np.isin(values, levels[groups[0]]))


def _totals(table: _Table) -> Iterator[Finding]:
    """Doses that are a total so far: they grow and never fall within an episode."""
    both = np.append(table.acts[:-1] & table.acts[1:], False)
    for one in table.schema.of("action"):
        if one.labels is not None or both.sum() < LEAF:
            continue
        moved = np.append(np.diff(table.columns[one.name][1]), 0.0)
        rises, falls = both & (moved > 0.0), both & (moved < 0.0)
        if rises.sum() < GROWING * both.sum() or falls.sum() > RARE * rises.sum():
            continue
        text = (
            f"grows in {rises.sum() / both.sum():.0%} of the steps and hardly ever falls within an "
            "episode: if it is a total so far, write what was given in each step"
        )
        yield table.about("totals", one.name, text, rises)


def _late(table: _Table) -> Iterator[Finding]:
    """Doses that stand one row late: decided by the row before, and acting on their own."""
    rows = np.flatnonzero(np.append(False, table.acts[:-1] & table.acts[1:]))
    states = [x for one, x in table.columns.values() if one.role == "state" and one.size is None]
    if len(rows) < LEAF or not states:
        return
    steps = (np.arange(len(table.rows)) - table.starts[table.owner])[rows]
    for one in table.schema.of("action"):
        # All of it beside the mean of a step: a season moves doses and states by itself.
        dose = _beside(steps, table.columns[one.name][1][rows])
        own, before = (
            _told(dose, [_beside(steps, x[at]) for x in states]) for at in (rows, rows - 1)
        )
        if one.labels is None and before > max(own + BEFORE, 2.0 * own):
            text = (
                f"is told by the states of the row before ({before:.0%} of its variance) more than "
                f"by its own ({own:.0%}): if a row says what was given before it was measured, "
                "move it one row up"
            )
            yield table.about("late", one.name, text, np.zeros(len(table.rows), dtype=np.bool_))


def _beside(groups: IntArray, values: FloatArray) -> FloatArray:
    """Values less the mean of their group."""
    means = np.bincount(groups, weights=values) / np.maximum(np.bincount(groups), 1)
    return values - means[groups]


def _told(wanted: FloatArray, columns: list[FloatArray]) -> float:
    """The share of the variance that a regression on columns and their squares tells."""
    centred = [(x - np.median(x)) / max(float(x.std()), 1e-300) for x in columns]
    design = np.column_stack([np.ones(len(wanted)), *centred, *(x**2 for x in centred)])
    left = wanted - design @ np.linalg.lstsq(design, wanted, rcond=None)[0]
    return 1.0 - float(left.var()) / max(float(wanted.var()), 1e-300)


def _groups(every: FloatArray, chosen: BoolArray) -> tuple[str, BoolArray] | None:
    """Two groups of values with a wide gap between them, a known factor apart: which, and the rows
    of the smaller one."""
    values = every[chosen]
    distinct, counts = np.unique(values, return_counts=True)
    below, gaps = np.cumsum(counts)[:-1], np.diff(np.log(distinct))
    gaps[(below < 3) | (len(values) - below < 3)] = 0.0
    if not gaps.any():
        return None
    place = int(gaps.argmax())
    low, high = values[values <= distinct[place]], values[values > distinct[place]]
    spreads = [np.subtract(*np.quantile(np.log(one), [0.75, 0.25])) for one in (low, high)]
    middles = np.median(low), np.median(high)
    ratio = np.log(middles[1] / middles[0])
    if gaps[place] < 0.4 * ratio or max(spreads) > 4.0 * min(spreads) + NEAR:
        return None
    factor = min(FACTORS, key=lambda one: abs(np.log(one) - ratio))
    words = f", a factor of {factor:g} apart ({FACTORS[factor]})"
    if 30.0 < middles[0] < 43.0 and abs(middles[1] - 32.0 - 1.8 * middles[0]) < 5.0:
        words = " (°C and °F?)"
    elif abs(np.log(factor) - ratio) > NEAR:
        return None
    smaller = low if len(low) < len(high) else high
    ends = f"{low.min():g} to {low.max():g} and {high.min():g} to {high.max():g}"
    return ends + words, (every >= smaller.min()) & (every <= smaller.max())


def _jumps(values: FloatArray, acts: BoolArray) -> tuple[str, BoolArray] | None:
    """Jumps within episodes by a known factor, in a column that moves little else: which, and the
    rows after them."""
    size = np.zeros(len(values))
    size[1:] = np.nan_to_num(np.abs(np.diff(np.log(values)))) * acts[:-1]
    usual = np.quantile(size[1:][acts[:-1]], 0.75)
    for factor, words in FACTORS.items():
        wide = size > np.log(factor) / 2
        near = np.abs(size - np.log(factor)) < 3.0 * usual + 0.01
        if usual < np.log(factor) / 8 and wide.sum() >= 3 and near[wide].mean() > 0.8:
            return f"with jumps by a factor of {factor:g} ({words})", near & wide
    return None


# --- Columns ----------------------------------------------------------------------------------


def _leaks(table: _Table) -> Iterator[Finding]:
    later = np.append(np.arange(1, len(table.rows)), 0)
    between = table.usable & table.usable[later] & table.acts
    advice = "if it is known only after the decision, give it role = 'ignore'"
    for action in table.schema.of("action"):
        taken = table.columns[action.name][1]
        for when, chosen, truth in (
            ("its row", table.usable, taken),
            ("the next row", between, taken[later]),
        ):
            places = table.one_each(chosen)
            for one, values in table.features():
                if _tells(values[places], truth[places]):
                    text = (
                        f"tells what {action.name!r} is in {when}: {advice}; if {action.name!r} "
                        "was decided by it alone, the data cannot tell what another would have "
                        "done"
                    )
                    yield Finding(WARNING, "leaks", one.name, text, len(places))
    places, moving = table.some(between), table.features("state")
    r = _correlation([values[at] for at in (places, later[places]) for _, values in moving])
    for i, j in np.argwhere(np.abs(r[: len(moving), len(moving) :]) > SAME).tolist():
        if i != j and len(places) >= FEWEST and abs(r[j, len(moving) + j]) < SAME:
            text = (
                f"is what {moving[j][0].name!r} is in the next row, which is known only later; "
                "give it role = 'ignore'"
            )
            yield Finding(WARNING, "leaks", moving[i][0].name, text, len(places))
    for place, outcome in enumerate(table.schema.of("outcome")):
        texts = [one.outcomes[place][1] for one in table.every]
        codes = np.unique(texts, return_inverse=True)[1].astype(np.float64)
        for one, values in table.features():
            if _tells(values[table.starts], codes):
                text = f"tells {outcome.name!r} in the first row already: {advice}"
                yield Finding(WARNING, "leaks", one.name, text, len(codes))


def _tells(values: FloatArray, truth: FloatArray) -> bool:
    """Whether values tell the truth, which is not nearly always the same: in their order nearly all
    neighbours have the same."""
    kinds, counts = np.unique(truth, return_counts=True)
    if len(truth) < FEWEST or counts.max() > (1.0 - RARE) * len(truth):
        return False
    chance = np.random.default_rng(0).permutation(len(truth))
    changes = np.count_nonzero(np.diff(truth[np.lexsort((chance, values))]))
    by_chance = len(truth) - (counts**2).sum() / len(truth)
    return bool(changes <= min(2 * len(kinds) + UNTOLD * len(truth), by_chance / 4))


def _correlation(columns: Sequence[FloatArray]) -> FloatArray:
    centred = np.stack([column - column.sum() / max(len(column), 1) for column in columns])
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.where(size > 0.0, size, 1.0)
    return np.asarray(unit @ unit.T)


def _identifiers(table: _Table) -> Iterator[Finding]:
    for name, (column, values) in table.measured.items():
        is_fixed = column.role == "fixed"
        whole = values[table.starts] if is_fixed else values[np.argsort(table.rows)]
        if column.role == "contextual" or len(table.starts) < FEWEST or (whole % 1.0).any():
            continue
        grows = bool((np.diff(whole) > 0.0).all())
        if grows or (IDENTIFIER.fullmatch(name) and len(np.unique(whole)) == len(whole)):
            text = (
                "is another number in every "
                f"{'episode' if is_fixed else 'row'}{', ever larger' if grows else ''}: a name, of "
                "which nothing can be learned; give it role = 'ignore'"
            )
            yield Finding(WARNING, "identifiers", name, text, len(whole))


def _copies(table: _Table) -> Iterator[Finding]:
    names = [name for name, (column, _) in table.columns.items() if not column.categories]
    names = [name for name in names if table.columns[name][0].role != "action"]
    places = table.some(table.usable)
    r = _correlation([table.columns[name][1][places] for name in names])
    for i, j in np.argwhere(np.triu(np.abs(r), 1) > SAME).tolist():
        text = (
            f"says the same as {names[i]!r} (r = {r[i, j]:.4f}); give one of them role = 'ignore'"
        )
        yield Finding(NOTE, "copies", names[j], text, 1)
    contents: dict[bytes, int] = {}
    again = []
    for start, one in zip(table.starts, table.every, strict=True):
        episode, row = one.episode, int(table.rows[start])
        whole = blake2b(episode.states.tobytes() + episode.actions.tobytes()).digest()
        if len(episode) > 1 and (first := contents.setdefault(whole, row)) != row:
            again.append((row, first))
    if again:
        text = (
            f"{counted(len(again), 'episode')} more than once, under other names: that from row "
            f"{again[0][0]} on is that from row {again[0][1]} on; remove the copies, which count "
            "double and judge what was learned from them"
        )
        rows = [row for row, _ in again[:NAMED]]
        yield Finding(WARNING, "copies", "", text, len(again), rows)


def filled_gaps(count: int, steps: int) -> Iterator[Finding]:
    """Of steps that lead from or to a state that was filled in, `count` in all."""
    if not count:
        return
    said = f"{count:,} of {steps:,} steps lead from or to a state with a gap that was filled"
    if can_spare(count, steps):
        yield Finding(NOTE, "gaps", "", f"{said}: they are not learned from", count)
        return
    text = (
        f"{said}: too many to learn without them. A filled gap looks as if nothing that was done "
        "mattered, so what changes bring may be underrated; ignore columns that are rarely measured"
    )
    yield Finding(WARNING, "gaps", "", text, count)


def _size(table: _Table) -> Iterator[Finding]:
    inputs = sum(max(column.categories, 1) for column, _ in table.columns.values())
    if (there := int(table.usable.sum())) < ENOUGH * inputs:
        enough = ENOUGH * inputs
        episodes = math.ceil(enough * len(table.every) / max(there, 1))
        text = (
            f"{there:,} transitions are few for {inputs} inputs; by a rule of thumb {enough:,} "
            f"would do, {episodes:,} such episodes: add some, or ignore columns that matter least"
        )
        severity = WARNING if there < TOO_FEW * inputs else NOTE
        yield Finding(severity, "size", "", text, there)


# --- Actions ----------------------------------------------------------------------------------


def _positivity(table: _Table) -> Iterator[Finding]:
    actions = [table.columns[one.name] for one in table.schema.of("action")]
    first = [(one, taken[table.acts][0]) for one, taken in actions]
    if all((table.columns[one.name][1][table.acts] == value).all() for one, value in first):
        said = " and ".join(f"{one.name!r} is {_level(one, value)}" for one, value in first)
        raise InputError(
            f"{said} in every row: where nothing else was ever done, nothing can be learned about "
            "it; give a table in which actions vary"
        )
    places = table.some(table.usable)
    grown, inputs = table.owner[places] % 2 == 0, list(_inputs(table, places))
    for one, values in actions:
        taken, told = _in_levels(one, values[places]), []
        for leaf, words in _leaves(inputs, taken, grown):
            levels, counts = np.unique(taken[leaf & ~grown], return_counts=True)
            if counts.sum() >= LEAF / 2 and counts.max() > (1.0 - RARE) * counts.sum():
                told.append((counts.sum(), counts.max(), levels[counts.argmax()], words))
        share = sum(leaf[0] for leaf in told) / max(np.sum(~grown), 1)
        if share < TOLD:
            continue
        size, most, level, words = max(told, key=lambda leaf: leaf[0])
        where = f"; where {words} it is" if words else ", it is"
        text = f"hardly varies in {share:.0%} of all steps{where} {_level(one, level)} in "
        text += f"{most / size:.1%}: {UNKNOWN}"
        text += (
            "; leave advice about it there aside"
            if words
            else "; give it role = 'contextual' to replay it as it was"
        )
        yield Finding(WARNING, "positivity", one.name, text, round(share * table.acts.sum()))


def _in_levels(column: Column, values: FloatArray) -> FloatArray:
    """Doses as the nearest of five levels over their range; the values of others."""
    if not column.is_dose:
        return values
    low, wide = values.min(), max(float(np.ptp(values)), np.finfo(float).tiny)
    return np.asarray(low + np.round(4.0 * (values - low) / wide) / 4.0 * wide)


def _level(column: Column, value: float) -> str:
    if column.is_dose:
        return f"about {column.amount(value)} {column.unit}".rstrip()
    return repr(column.value_name((column.values or ()).index(value)))


def _inputs(table: _Table, places: IntArray) -> Iterator[tuple[FloatArray, str, str]]:
    """What questions are about: numbers, the column, and the label that 0 stands for, if any."""
    for name, (column, values) in table.columns.items():
        if column.role != "action" and not column.categories:
            yield values[places], name, ""
        elif column.role != "action":
            for code, label in enumerate(column.labels or ()):
                yield (values[places] != code) * 1.0, name, label


def _leaves(
    inputs: Sequence[tuple[FloatArray, str, str]], taken: FloatArray, grown: BoolArray
) -> Iterator[tuple[BoolArray, str]]:
    """The leaves of a tree of questions that best tell the action, grown on half of the episodes:
    which rows are in them, and in words."""
    levels = (taken[:, None] == np.unique(taken)).astype(np.float64)

    def split(node: BoolArray, words: tuple[str, ...]) -> Iterator[tuple[BoolArray, str]]:
        here = node & grown
        counts = levels[here].sum(axis=0)
        # What must be gained, in actions told right.
        best, question = 0.01 * counts.sum(), None
        for values, name, label in inputs if len(words) < QUESTIONS and here.any() else ():
            tenths = np.quantile(values[here], np.arange(0.1, 1.0, 0.1), method="lower")
            for border in np.unique(tenths):
                left = levels[here & (values <= border)].sum(axis=0)
                parts = left, counts - left
                if min(part.sum() for part in parts) < LEAF:
                    continue
                told = sum((part**2).sum() / part.sum() for part in parts)
                if (gain := told - (counts**2).sum() / counts.sum()) > best:
                    best, question = gain, (values <= border, name, label, border)
        if question is None:
            yield node, " and ".join(words)
            return
        yes, name, label, border = question
        no_more, more = ("is", "is not") if label else ("<=", ">")
        value = repr(label) if label else f"{border:g}"
        yield from split(node & yes, (*words, f"{name} {no_more} {value}"))
        yield from split(node & ~yes, (*words, f"{name} {more} {value}"))

    return split(np.ones(len(taken), dtype=np.bool_), ())
