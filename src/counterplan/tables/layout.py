"""Tables that a schema describes as a problem to solve: states, actions, what is good.

    layout = SchemaLayout(schema)
    explain(scm, episode, k=3, actions=layout.action_set(episode), reward=layout.reward())

A model learned from such a table remembers the schema, so that `layout_of_model(model)` gives the
same layout back. Its entries in `model.about`:

    schema   the schema as plain values
    means    of columns of numbers, by name: what `missing = "mean"` stands for in further tables
    reward   {"weights": [...], "constant": c} where the reward was learned from a column
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.tables.grid import Grid
from counterplan.tables.schema import Schema, schema_from_dict
from counterplan.tables.schema_table import GatherNotes
from counterplan.tables.stays import StayLayout, Stays

if TYPE_CHECKING:
    from counterplan.domains.sepsis import DoseEdges
    from counterplan.scm.neural import NeuralSCM
    from counterplan.scm.tabular import TabularMDP

SCHEMA, MEANS, REWARD = "schema", "means", "reward"
# What the last row of a discrete episode holds where nothing was done any more.
NO_ACTION = "(no action)"


class SchemaLayout(StayLayout):
    """What a schema makes of a table.

    features  fixed columns, then those that move
    actions   components of action vectors: columns to choose, then those replayed from the episode
    choices   the grid of action columns: what the numbers of actions stand for
    states    the grid of states of a discrete problem, None if states are continuous
    learned   what a state is worth, where that was learned from a column
    """

    def __init__(self, schema: Schema, reward: LinearReward | None = None) -> None:
        """`reward`: what a state is worth, where no column of the schema says what is better."""
        self.schema = schema
        self.features = tuple(column.name for column in schema.features)
        self.actions = tuple(column.name for column in schema.components)
        self.fixed = len(schema.of("fixed"))
        self.choices = Grid(schema.of("action"))
        self.states = Grid(schema.features) if schema.is_discrete else None
        self.learned = reward

    def matches(self, columns: set[str]) -> bool:
        """Whether a table has all columns that the schema names (but for those it ignores)."""
        roles = ("state", "fixed", "contextual", "action", "reward", "outcome")
        needed = {column.name for column in self.schema.of(*roles)}
        return needed | {self.schema.episode, self.schema.time} <= columns

    def read(self, path: str | Path, edges: DoseEdges | None = None) -> Stays:
        """All episodes of a table at once; `io.schema_table` reads them part by part."""
        from counterplan.tables.schema_table import open_table

        with open_table(path, self.schema) as table:
            recorded = [one for part in table.parts() for one in part]
            return Stays(
                tuple(one.episode for one in recorded),
                tuple(one.times for one in recorded),
                table.summary(),
            )

    def scaling(self, episodes: Sequence[Episode]) -> Scaling:
        """States from the range seen, actions from the range of their levels, to [-0.5, 0.5]."""
        low, high = _range([episode.states for episode in episodes])
        for name, start, end in zip(self.features, low, high, strict=True):
            if start == end:
                raise InputError(
                    f"column {name!r} is {start:g} in every row, so nothing can be learned about "
                    "it; give it role = 'ignore' in the schema"
                )
        lowest, highest = _range([episode.actions for episode in episodes])
        for place, column in enumerate(self.schema.components):
            if column.values is not None:
                lowest[place], highest[place] = min(column.values), max(column.values)
        # An input that is replayed may well be the same everywhere.
        spread = np.where(highest > lowest, highest - lowest, 1.0)
        return Scaling((low + high) / 2, high - low, (lowest + highest) / 2, spread)

    def action_set(self, episode: Episode) -> FloatArray:
        """(T-1, N, d) every combination of levels, what is not chosen as it was in the episode."""
        if episode.actions.ndim != 2 or episode.actions.shape[1] != len(self.actions):
            raise InputError(
                f"{episode.name}: actions have shape {episode.actions.shape}, expected "
                f"(T-1, {len(self.actions)}): {', '.join(self.actions)}"
            )
        steps, chosen = len(episode) - 1, len(self.choices.columns)
        vectors = np.empty((steps, len(self.choices), len(self.actions)))
        vectors[:, :, :chosen] = self.choices.vectors
        vectors[:, :, chosen:] = episode.actions[:steps, np.newaxis, chosen:]
        return vectors

    def reward(self) -> LinearReward:
        """What a state is worth: by the columns that say what is better, or as learned."""
        weights = np.array([column.merit for column in self.schema.features])
        if weights.any():
            return LinearReward(weights)
        if self.learned is None:
            raise InputError(
                "the schema does not say what is good: give a state column better = 'lower' or "
                "'higher', or a column with what was earned role = 'reward'"
            )
        return self.learned

    @property
    def has_merit(self) -> bool:
        """Whether columns say what is better."""
        return any(column.merit for column in self.schema.features)

    def constraints(self, episode: Episode) -> Constraints:
        """What can never change: nothing is done in a last row without an action."""
        last_only = self.states is not None and episode.actions[-1] == self.no_action
        return Constraints(fixed_steps=(-1,) if last_only else ())

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


def layout_of_model(model: NeuralSCM | TabularMDP) -> SchemaLayout | None:
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
    except (TypeError, KeyError) as problem:
        raise InputError(f"the reward in the model is damaged: {problem}; fit it anew") from None
    return SchemaLayout(schema, reward)


def means_of_model(model: NeuralSCM | TabularMDP) -> dict[str, float]:
    """By column: what the table that a model was learned from held on average."""
    stored: Any = model.about.get(MEANS, {})
    is_right = isinstance(stored, Mapping) and all(
        isinstance(name, str) and isinstance(mean, float) for name, mean in stored.items()
    )
    if not is_right:
        raise InputError("the means of columns in the model are damaged: fit it anew")
    return dict(stored)


def _range(tables: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    filled = [table for table in tables if len(table)]
    low = np.min([table.min(axis=0) for table in filled], axis=0)
    high = np.max([table.max(axis=0) for table in filled], axis=0)
    return low, high


# ----------------------------------------------------------------------------------------------
# What states and actions are worth by the reward column of a table.

# How much of a reward may be left unexplained, relative to how much it varies.
LINEAR = 1e-6


def learned_reward(layout: SchemaLayout, every: Sequence[GatherNotes]) -> LinearReward:
    """The linear function of states that the reward column is; an error if it is none."""
    states = np.concatenate([one.recorded.episode.states for one in every])
    column = layout.schema.reward
    assert column is not None
    given = np.concatenate([one.rewards for one in every if one.rewards is not None])
    known = np.isfinite(given)
    if not known.any():
        raise InputError(f"column {column.name!r}: is empty, so nothing is known of what is good")
    states, earned = states[known], given[known]
    middle, spread = states.mean(axis=0), states.std(axis=0)
    spread[spread == 0.0] = 1.0
    centred = earned - earned.mean()
    varies = float(np.linalg.norm(centred))
    if varies == 0.0:
        raise InputError(
            f"column {column.name!r}: is {earned[0]:g} in every row, so nothing is better than "
            "anything else; say better = 'lower' or 'higher' for a state column"
        )
    scaled = (states - middle) / spread
    slopes = np.linalg.lstsq(scaled, centred, rcond=None)[0]
    left = float(np.linalg.norm(centred - scaled @ slopes)) / varies
    if left > LINEAR:
        raise InputError(
            f"column {column.name!r}: is not a linear function of the state columns of its row "
            f"(R² = {1.0 - left**2:.4f}), which continuous states need; say better = 'lower' or "
            "'higher' for the state columns that matter"
        )
    weights = slopes / spread
    return LinearReward(weights, float(earned.mean() - weights @ middle))


class RewardTable:
    """R(s, a) of a discrete table, episode by episode."""

    def __init__(self, layout: SchemaLayout, n_states: int, n_actions: int, mean: bool) -> None:
        """`mean`: average where a pair earned different amounts, else that is an error."""
        self._layout, self._mean = layout, mean
        self._sums = np.zeros((n_states, n_actions))
        self._first = np.full((n_states, n_actions), np.nan)
        self._places: dict[tuple[int, int], str] = {}

    def add(self, one: GatherNotes) -> None:
        """Take down what the steps of an episode earned."""
        if one.rewards is None or self._layout.has_merit:
            return
        episode = one.recorded.episode
        # A row without an action earns nothing.
        earned = np.where(np.isnan(one.rewards), 0.0, one.rewards)
        np.add.at(self._sums, (episode.states, episode.actions), earned)
        if self._mean:
            return
        for t, (s, a) in enumerate(zip(episode.states, episode.actions, strict=True)):
            pair, place = (int(s), int(a)), f"episode {episode.id!r}, step {t}"
            if pair not in self._places:
                self._places[pair], self._first[pair] = place, earned[t]
            elif self._first[pair] != earned[t]:
                raise InputError(self._differ(pair, place, earned[t]))

    def _differ(self, pair: tuple[int, int], place: str, earned: float) -> str:
        assert self._layout.states is not None
        state, action = self._layout.states.name(pair[0]), self._layout.action_name(pair[1])
        return (
            f"{place}: state {state!r}, action {action!r} earned {earned:g}, but "
            f"{self._first[pair]:g} in {self._places[pair]}; a reward must depend on state and "
            "action only, or be averaged (--mean-rewards)"
        )

    def table(self, visits: IntArray, bar_unobserved: bool) -> FloatArray:
        """(S, A) the rewards; pairs that were never seen are barred, or earn their state's mean."""
        A = visits.shape[1]
        seen, idle = visits > 0, len(self._layout.choices)
        if self._layout.has_merit:
            rewards = np.repeat(self._layout.merits[:, None], A, axis=1)
            return np.where(self._allowed(seen, bar_unobserved), rewards, -np.inf)
        known = self._sums[:, :A] / np.maximum(visits, 1)
        known = known if self._mean else np.where(seen, self._first[:, :A], 0.0)
        if bar_unobserved:
            return np.where(self._allowed(seen, True), known, -np.inf)
        acted = seen[:, :idle]
        never = np.flatnonzero(~acted.any(axis=1) & ~seen.any(axis=1))
        if never.size:
            assert self._layout.states is not None
            raise InputError(
                f"state {self._layout.states.name(int(never[0]))!r} never occurs, so nothing is "
                "known about its rewards; bar what was never seen (leave out --value-unobserved)"
            )
        means = known[:, :idle].sum(axis=1) / np.maximum(acted.sum(axis=1), 1)
        filled = np.where(seen, known, means[:, None])
        filled[:, idle:] = 0.0
        return filled

    def _allowed(self, seen: BoolArray, bar_unobserved: bool) -> BoolArray:
        """Pairs that are not barred: ending without an action never is."""
        if not bar_unobserved:
            return np.ones_like(seen)
        allowed = seen.copy()
        allowed[:, len(self._layout.choices) :] = True
        return allowed
