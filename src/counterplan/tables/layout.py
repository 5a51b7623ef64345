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
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.scm.transitions import plausible_range
from counterplan.tables.parts import Recorded
from counterplan.tables.schema import Grid, Schema, schema_from_dict

if TYPE_CHECKING:
    from counterplan.scm.neural import NeuralSCM
    from counterplan.scm.tabular import TabularMDP

SCHEMA, MEANS, REWARD = "schema", "means", "reward"
# What the last row of a discrete episode holds where nothing was done any more.
NO_ACTION = "(no action)"


class SchemaLayout:
    """What a schema makes of a table.

    features  fixed columns, then those that move
    actions   components of action vectors: columns to choose, then those replayed from the episode
    choices   the grid of action columns: what the numbers of actions stand for
    states    the grid of states of a discrete problem, None if states are continuous
    learned   what a state is worth, where that was learned from a column
    """

    # What one more of a dose is, where tables hold levels and not amounts.
    dose_unit: ClassVar[str] = ""

    def __init__(self, schema: Schema, reward: LinearReward | None = None) -> None:
        """`reward`: what a state is worth, where no column of the schema says what is better."""
        self.schema = schema
        self.features = tuple(column.name for column in schema.features)
        self.actions = tuple(column.name for column in schema.components)
        self.fixed = len(schema.of("fixed"))
        self.choices = Grid(schema.of("action"))
        self.states = Grid(schema.features) if schema.is_discrete else None
        self.learned = reward

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        """States from the range seen (that is plausible), actions from the range of their levels,
        to [-0.5, 0.5]."""
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
        categories = (
            np.array([column.categories for column in columns])
            for columns in (self.schema.features, self.schema.components)
        )
        return Scaling((low + high) / 2, high - low, (lowest + highest) / 2, spread, *categories)

    def max_move(self, limit: float | None) -> list[float] | None:
        """How far each component of an action may move: names have no distance."""
        if limit is None:
            return None
        return [inf if column.categories else limit for column in self.schema.components]

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
    columns = (
        np.concatenate([one[:, place] for one in filled]) for place in range(filled[0].shape[1])
    )
    low, high = np.array([plausible_range(column) for column in columns]).reshape(-1, 2).T
    return low, high


# --- Rewards by a column of the table ---------------------------------------------------------

# How much of a reward may be left unexplained, relative to how much it varies.
LINEAR = 1e-6


def learned_reward(layout: SchemaLayout, every: Sequence[Recorded]) -> LinearReward:
    """The linear function of states that the reward column is; an error if it is none."""
    states = np.concatenate([one.episode.states for one in every])
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
