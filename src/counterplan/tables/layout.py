"""Tables that a schema describes as a problem to solve: states, actions, what is good.

    layout = SchemaLayout(schema)
    explain(scm, episode, k=3, actions=layout.action_set(episode), reward=layout.reward())

A model learned from such a table remembers the schema, so that `layout_of_model(model)` gives the
same layout back, with what columns of rewards were learned to be worth. Its entries in
`model.about`:

    schema   the schema as plain values
    means    of columns of numbers, by name: what `missing = "mean"` stands for in further tables
    reward   {"weights": [...], "constant": c} where the reward column is linear in the states
    learned  what else was learned of rewards, see `tables.rewards`
    ends     of discrete states: how many steps are looked ahead, and by column and state the end
    remarks  lines about that
    lowest   of columns of numbers, by name: the least value of the table that it was learned from
    implausible  of columns with cells that were not learned from, by name: the largest of those
             below all others and the least of those above, null without any
    action_counts  combinations of the action columns that occur: their values, and how often
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.reward import EpisodeReward, LinearReward
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError, counted
from counterplan.scm.point import Scaling
from counterplan.scm.transitions import plausible_range
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.rewards import Learned
from counterplan.tables.schema import GRID, VALUE, Column, Grid, Schema, schema_from_dict

if TYPE_CHECKING:
    from counterplan.scm.learned import LearnedSCM
    from counterplan.scm.tabular import TabularMDP

SCHEMA, MEANS, REWARD, LOWEST = "schema", "means", "reward", "lowest"
LEARNED, ENDS, REMARKS = "learned", "ends", "remarks"
ACTIONS, IMPLAUSIBLE = "action_counts", "implausible"
# What the last row of a discrete episode holds where nothing was done any more.
NO_ACTION = "(no action)"


class Offer(NamedTuple):
    """Actions that may be advised.

    actions  (A,) whether each may be
    known    (A,) whether each occurs often enough in the data, None if that is not known
    fact     "14 of 27 combinations of drug and dose occur at least 5 times"
    note     what to say beside answers, empty if every action occurs often enough
    """

    actions: BoolArray
    known: BoolArray | None
    fact: str
    note: str


class SchemaLayout:
    """What a schema makes of a table.

    features  fixed columns, then those that move
    actions   components of action vectors: columns to choose, then those replayed from the episode
    choices   the grid of action columns: what the numbers of actions stand for
    states    the grid of states of a discrete problem, None if states are continuous
    exact     what a state is worth, where a column says it exactly
    learned   what else is known of rewards from the columns
    counts    (A,) how often each cell of the grid of actions occurs, None if that is not known
    """

    # What one more of a dose is, where tables hold levels and not amounts.
    dose_unit: ClassVar[str] = ""
    counts: IntArray | None = None

    def __init__(
        self, schema: Schema, reward: LinearReward | None = None, learned: Learned | None = None
    ) -> None:
        """`reward` and `learned`: what columns of rewards and costs are worth."""
        self.schema = schema
        self.features = tuple(column.name for column in schema.features)
        self.actions = tuple(column.name for column in schema.components)
        self.fixed = len(schema.of("fixed"))
        self.choices = Grid(schema.of("action"))
        self.states = Grid(schema.features) if schema.is_discrete else None
        self.exact, self.learned = reward, Learned() if learned is None else learned

    def state_ranges(self, table: Rows) -> FloatArray:
        """(2, D) between which values of each feature states are measured: those seen."""
        return table.ranges

    def scaling(self, table: Rows) -> Scaling:
        """States from the range seen (that is plausible), actions from the range of their levels,
        to [-0.5, 0.5]."""
        low, high = self.state_ranges(table)
        taken = [*zip(self.schema.components, table.actions[table.acts].T, strict=True)]
        given = [(one.name, *plausible_range(values)) for one, values in taken if one.is_dose]
        for name, start, end in [*zip(self.features, low, high, strict=True), *given]:
            if start == end:
                raise InputError(
                    f"column {name!r} is {start:g} in every row, so nothing can be learned about "
                    "it; give it role = 'ignore' in the schema"
                )
        ends = [
            (min(column.values), max(column.values)) if column.values else plausible_range(values)
            for column, values in taken
        ]
        lowest, highest = np.array(ends).T
        # An input that is replayed may well be the same everywhere.
        spread = np.where(highest > lowest, highest - lowest, 1.0)
        categories = (
            np.array([column.categories for column in columns])
            for columns in (self.schema.features, self.schema.components)
        )
        return Scaling((low + high) / 2, high - low, (lowest + highest) / 2, spread, *categories)

    def set_apart(self, table: Rows) -> dict[str, list[float | None]]:
        """What a model remembers of implausible cells, by column of numbers that has some."""
        found: dict[str, list[float | None]] = {}
        for column, values, low, high in zip(
            self.schema.features, table.states.T, *table.ranges, strict=True
        ):
            below, above = values[values < low], values[values > high]
            if column.size is None and len(below) + len(above):
                found[column.name] = [
                    float(below.max()) if len(below) else None,
                    float(above.min()) if len(above) else None,
                ]
        return found

    def implausible(self, about: Mapping[str, Any]) -> FloatArray:
        """(D, 2) up to where and from where on the values of each feature are implausible, to a
        model that is so described; nan if none are."""
        stored: Any = about.get(IMPLAUSIBLE, {})
        try:
            ends = [stored.get(column.name, (None, None)) for column in self.schema.features]
            return np.array(ends, dtype=np.float64).reshape(len(self.schema.features), 2)
        except (AttributeError, TypeError, ValueError):
            raise InputError("what is implausible to the model is damaged: fit it anew") from None

    def max_move(self, limit: float | None) -> list[float] | None:
        """How far each component of an action may move: names have no distance."""
        if limit is None:
            return None
        return [inf if column.categories else limit for column in self.schema.components]

    @property
    def doses(self) -> tuple[Column, ...]:
        """The action columns where they are doses: not listed, but any number between bounds."""
        return tuple(column for column in self.choices.columns if column.is_dose)

    def check_actions(self, episode: Episode) -> None:
        """Raise unless an episode has the action vectors of this table."""
        if episode.actions.ndim != 2 or episode.actions.shape[1] != len(self.actions):
            raise InputError(
                f"{episode.name}: actions have shape {episode.actions.shape}, expected "
                f"(T-1, {len(self.actions)}): {', '.join(self.actions)}"
            )

    def action_set(self, episode: Episode) -> FloatArray:
        """(T-1, N, d) every combination of levels, what is not chosen as it was in the episode."""
        self.check_actions(episode)
        steps, chosen = len(episode) - 1, len(self.choices.columns)
        vectors = np.empty((steps, len(self.choices), len(self.actions)))
        vectors[:, :, :chosen] = self.choices.vectors
        vectors[:, :, chosen:] = episode.actions[:steps, np.newaxis, chosen:]
        return vectors

    @overload
    def reward(self, episode: None = None) -> LinearReward: ...
    @overload
    def reward(self, episode: Episode) -> LinearReward | EpisodeReward: ...
    def reward(self, episode: Episode | None = None) -> LinearReward | EpisodeReward:
        """What states are worth, by the columns that say what is better and as learned; what
        actions earn (doses: `Learned.worth`), and the end of an episode, are known for each
        `episode` only."""
        schema, learned, exact = self.schema, self.learned, self.exact
        weights = np.array([column.merit for column in schema.features])
        state = LinearReward(weights)
        if exact is not None:
            state = LinearReward(weights + exact.gradient(len(weights)), exact.constant)
        ends = bool(schema.finals) or schema.final == VALUE
        steps = bool(schema.rewards) and exact is None
        if (steps and learned.step is None) or (ends and not learned.horizon):
            raise InputError(
                "a schema does not say what its columns of rewards, or the end, are worth, the "
                "model that was learned with it does: use cp.tables.layout_of_model(model)"
            )
        if learned.step is None and not ends:
            if exact is None:
                check_reward(schema)
            return state
        if episode is None:
            raise InputError("what actions earn depends on the episode: use reward(episode)")
        if learned.step is not None:
            more = learned.step.along(schema, episode)
            state = LinearReward(
                state.weights + more.weights, state.constant + more.constant, more.covariance
            )
        final = learned.final_rewards(schema, episode)
        if self.doses:
            return EpisodeReward(state, final)
        return EpisodeReward(state, final, learned.action_rewards(schema, self.action_set(episode)))

    def has_same_rewards(self, schema: Schema) -> bool:
        """Whether a schema has the columns of rewards and costs of this one."""
        own, given = (
            ([(one.name, one.merit, one.when) for one in each.of("reward", "cost")], each.final)
            for each in (self.schema, schema)
        )
        return own == given

    def observed(self, one: Recorded) -> float | None:
        """What an episode earned as the table says it, None without columns that do."""
        schema, outcomes = self.schema, dict(one.outcomes)
        if not (schema.rewards or schema.finals):
            return None
        states = (
            one.episode.states if self.states is None else self.states.vectors[one.episode.states]
        )
        total = float((states @ [column.merit for column in schema.features]).sum())
        total += 0.0 if one.rewards is None else float(np.nansum(one.rewards))
        ends = [(column.merit, outcomes[column.name]) for column in schema.finals]
        is_known = all(text for _, text in ends)
        return total + sum(merit * float(text) for merit, text in ends) if is_known else None

    def room(self, one: Recorded) -> float | None:
        """By how much an episode could have ended better at most, where nothing counts but ends
        that come or do not; None elsewhere."""
        schema, ends = self.schema, self.learned.finals
        if self.has_merit or schema.rewards or not ends or not all(end.is_share for end in ends):
            return None
        observed, best = self.observed(one), sum(max(end.merit, 0.0) for end in schema.finals)
        return None if observed is None else best - observed

    def odd_reward(self, one: Recorded) -> tuple[int, str, float, float, float] | None:
        """A reward far outside of those that were learned from, beyond their range by more than the
        whole of it: its step, the columns, its value, and that range."""
        if one.rewards is None or self.learned.earned is None:
            return None
        low, high = self.learned.earned
        beyond = np.nan_to_num(np.maximum(low - one.rewards, one.rewards - high), nan=-inf)
        if beyond.max() <= high - low:
            return None
        names = [column.name for column in self.schema.rewards]
        merit = self.schema.rewards[0].merit if len(names) == 1 else 1.0
        t = int(beyond.argmax())
        value = float(one.rewards[t]) / merit
        ends = low / merit, high / merit
        return t, " + ".join(names), value, min(ends), max(ends)

    @property
    def has_merit(self) -> bool:
        """Whether columns say what is better."""
        return any(column.merit for column in self.schema.features)

    def ranges(self, about: Mapping[str, Any]) -> FloatArray:
        """(D, 2) where the values of each feature can lie: by the schema, or from 0 up where a
        model that is so described has seen nothing below it."""
        told, found = about.get(LOWEST), []
        for column in self.schema.features:
            low, high = column.low, column.high
            seen = told.get(column.name) if isinstance(told, dict) else None
            if column.values:
                low, high = min(column.values), max(column.values)
            elif low is None and isinstance(seen, float) and seen >= 0.0:
                low = 0.0
            found.append((-inf if low is None else low, inf if high is None else high))
        return np.array(found)

    def constraints(self, episode: Episode) -> Constraints:
        """What can never change: nothing is done in a last row without an action."""
        last_only = self.states is not None and episode.actions[-1] == self.no_action
        return Constraints(fixed_steps=(-1,) if last_only else ())

    def occurring(self) -> list[list[float]]:
        """What a model remembers of them: the values of each action that occurs, and how often."""
        assert self.counts is not None
        cells = np.flatnonzero(self.counts)
        return [[*self.choices.vectors[cell].tolist(), int(self.counts[cell])] for cell in cells]

    @cached_property
    def offer(self) -> Offer:
        """Which actions may be advised, by the schema and by what occurs in the data."""
        grid, counts, listed = self.choices, self.counts, self.schema.combinations
        if self.doses:
            every = ", ".join(map(_dose_in_words, self.doses))
            return Offer(np.ones(0, np.bool_), None, f"doses: {every}", f"Advises {every}.")
        *others, last = (column.name for column in grid.columns)
        every = f"combinations of {', '.join(others)} and {last}" if others else f"values of {last}"
        every, least = f"{len(grid):,} {every}", counted(self.schema.min_count, "time")
        offered, known = np.ones(len(grid), dtype=np.bool_), None
        fact = f"nothing is known of which of the {every} occur"
        note = f"N{fact[1:]}, so any may be advised: fit the model anew."
        if counts is not None:
            known = counts >= self.schema.min_count
            share, when = f"{known.sum():,} of {every}", f"occur at least {least}"
            fact, note = f"{share} {when}", f"Advises only the {share} that {when}."
            if not known.any():
                known = counts > 0
                fact = f"none of {every} occurs {least}; {known.sum():,} occur at all"
                note = f"Advises only what occurs at all: {fact} (min_count in [table] of the "
                note += "schema)."
        if isinstance(listed, tuple):
            named = [tuple(map(Column.place, grid.columns, given)) for given in listed]
            offered = np.array([grid.places(cell) in named for cell in range(len(grid))])
            note = f"Advises only the {offered.sum():,} that the schema lists; {fact}."
        elif listed == GRID:
            note = f"Advises any combination, as the schema says; {fact}."
        elif known is not None:
            offered, note = known, "" if known.all() else note
        return Offer(offered, known, fact, note)

    @property
    def no_action(self) -> int:
        """The number that stands for no action in the last row of a discrete episode."""
        return len(self.choices)

    def action_name(self, action: int) -> str:
        """An action in words: "vasopressor 2 µg/kg/min, fluids high"."""
        return NO_ACTION if action == self.no_action else self.choices.name(action)

    def change_in_words(self, observed: int, alternative: int) -> str:
        """What is changed about an action: "vasopressor 0 -> 2 µg/kg/min"."""
        if self.no_action in (observed, alternative):
            return f"{self.action_name(observed)} -> {self.action_name(alternative)}"
        return self.choices.change(observed, alternative)

    @cached_property
    def merits(self) -> FloatArray:
        """(S,) what each state of a discrete problem is worth by its columns."""
        assert self.states is not None
        worth = self.states.vectors @ [column.merit for column in self.schema.features]
        return np.asarray(worth, dtype=np.float64)


def _dose_in_words(column: Column) -> str:
    """ "propofol 0 to 200 mg/h (up to 40 from row to row, 2000 in all)"."""
    (low, high), unit = column.bounds, f" {column.unit_beside}".rstrip()
    limits = [f"up to {column.step:g} from row to row"] if column.step is not None else []
    limits += [f"{column.total:g} in all"] if column.total is not None else []
    return f"{column.name} {low:g} to {high:g}{unit}" + (
        f" ({', '.join(limits)})" if limits else ""
    )


def check_reward(schema: Schema) -> None:
    """Raise unless a schema says what is good."""
    if not any(column.merit for column in schema.columns if column.role != "ignore"):
        raise InputError(
            "the schema does not say what is good: give a state column better = 'lower' or "
            "'higher', or a column with what was earned role = 'reward' (or 'cost'; with when = "
            "'last' if it is known at the end only)"
        )


def counts_of_model(model: LearnedSCM | TabularMDP, grid: Grid) -> IntArray | None:
    """(A,) how often each action of a grid occurs in the data of a model, None if it is of an
    earlier version, which did not count."""
    stored: Any = model.about.get(ACTIONS)
    if stored is None:
        return None
    try:
        found = {tuple(map(float, values)): int(count) for *values, count in stored}
    except (TypeError, ValueError, OverflowError):
        raise InputError("the counts of actions in the model are damaged: fit it anew") from None
    return np.array([found.get(tuple(vector), 0) for vector in grid.vectors.tolist()])


# --- What a model remembers -------------------------------------------------------------------


def layout_of_model(model: LearnedSCM | TabularMDP) -> SchemaLayout | None:
    """The layout of the table that a model was learned from, None if that had no schema."""
    stored = model.about.get(SCHEMA)
    if stored is None:
        return None
    schema = schema_from_dict(stored, "the schema in the model")
    given = model.about.get(REWARD)
    try:
        reward = None if given is None else LinearReward(given["weights"], given["constant"])
        if reward is not None:
            reward.gradient(len(schema.features))
        learned = Learned.from_dict(model.about[LEARNED]) if LEARNED in model.about else None
        if learned is not None:
            learned.check(schema)
    except (TypeError, KeyError, ValueError) as problem:
        raise InputError(f"the reward in the model is damaged: {problem}; fit it anew") from None
    layout = SchemaLayout(schema, reward, learned)
    layout.counts = counts_of_model(model, layout.choices)
    return layout


def means_of_model(model: LearnedSCM | TabularMDP) -> dict[str, float]:
    """By column: what the table that a model was learned from held on average."""
    stored: Any = model.about.get(MEANS, {})
    is_right = isinstance(stored, Mapping) and all(
        isinstance(name, str) and isinstance(mean, float) for name, mean in stored.items()
    )
    if not is_right:
        raise InputError("the means of columns in the model are damaged: fit it anew")
    return dict(stored)
