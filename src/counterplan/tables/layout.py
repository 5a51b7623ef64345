"""Tables that a schema describes as a problem to solve: states, actions, what is good.

    layout = SchemaLayout(schema)
    explain(scm, episode, k=3, actions=layout.action_set(episode), reward=layout.reward())

A model learned from such a table remembers the schema, so that `layout_of_model(model)` gives the
same layout back. Its entries in `model.about`:

    schema   the schema as plain values
    means    of columns of numbers, by name: what `missing = "mean"` stands for in further tables
    reward   {"weights": [...], "constant": c} where the reward column is linear in the states
    learned  what else was learned of rewards, see `tables.rewards`
    ends     of discrete states: how many steps are looked ahead, and by column and state the end
    remarks  lines about that
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.reward import EpisodeReward, LinearReward
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.tables.parts import Recorded
from counterplan.tables.rewards import Learned
from counterplan.tables.schema import VALUE, Grid, Schema, schema_from_dict

if TYPE_CHECKING:
    from counterplan.scm.neural import NeuralSCM
    from counterplan.scm.tabular import TabularMDP

SCHEMA, MEANS, REWARD = "schema", "means", "reward"
LEARNED, ENDS, REMARKS = "learned", "ends", "remarks"
# What the last row of a discrete episode holds where nothing was done any more.
NO_ACTION = "(no action)"


class SchemaLayout:
    """What a schema makes of a table.

    features  fixed columns, then those that move
    actions   components of action vectors: columns to choose, then those replayed from the episode
    choices   the grid of action columns: what the numbers of actions stand for
    states    the grid of states of a discrete problem, None if states are continuous
    exact     what a state is worth, where a column says it exactly
    learned   what else is known of rewards from the columns
    """

    # What one more of a dose is, where tables hold levels and not amounts.
    dose_unit: ClassVar[str] = ""

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

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
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

    @overload
    def reward(self, episode: None = None) -> LinearReward: ...
    @overload
    def reward(self, episode: Episode) -> LinearReward | EpisodeReward: ...
    def reward(self, episode: Episode | None = None) -> LinearReward | EpisodeReward:
        """What states are worth, by the columns that say what is better and as learned; what
        actions earn, and the end of an episode, are known for each `episode` only."""
        schema, learned, exact = self.schema, self.learned, self.exact
        weights = np.array([column.merit for column in schema.features])
        if exact is not None:
            weights, constant = weights + exact.gradient(len(weights)), exact.constant
        state = LinearReward(weights, 0.0 if exact is None else constant)
        if schema.rewards and exact is None and learned.step is None:
            raise InputError("what its columns of rewards are worth was not learned: fit it anew")
        ends = bool(schema.finals) or schema.final == VALUE
        if learned.step is None and not ends:
            if exact is None:
                check_reward(schema)
            return state
        if episode is None:
            raise InputError("what actions earn depends on the episode: use reward(episode)")
        if learned.step is not None:
            more = learned.step.along(schema, episode)
            state = LinearReward(weights + more.weights, state.constant + more.constant)
        final = learned.final_rewards(schema, episode)
        return EpisodeReward(state, final, learned.action_rewards(schema, self.action_set(episode)))

    def has_same_rewards(self, schema: Schema) -> bool:
        """Whether a schema has the columns of rewards and costs of this one."""
        own, given = (
            [(one.name, one.merit, one.when) for one in each.of("reward", "cost")]
            for each in (self.schema, schema)
        )
        return own == given and self.schema.final == schema.final

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

    @property
    def outcome_in_words(self) -> str:
        """What is added up: "- cost - 100 readmitted (at the end)", empty without such columns."""
        schema, parts = self.schema, list[str]()
        for column in (*schema.features, *schema.of("reward", "cost")):
            if column.merit and (schema.rewards or schema.finals):
                size = "" if column.weight == 1.0 else f"{column.weight:g} "
                end = " (at the end)" if column in schema.finals else ""
                parts.append(f"{'-' if column.merit < 0 else '+'} {size}{column.name}{end}")
        return " ".join(parts).removeprefix("+ ")

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


def check_reward(schema: Schema) -> None:
    """Raise unless a schema says what is good."""
    if not any(column.merit for column in schema.columns if column.role != "ignore"):
        raise InputError(
            "the schema does not say what is good: give a state column better = 'lower' or "
            "'higher', or a column with what was earned role = 'reward' (or 'cost'; with when = "
            "'last' if it is known at the end only)"
        )


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
        learned = Learned.from_dict(model.about[LEARNED]) if LEARNED in model.about else None
        if learned is not None:
            learned.check(schema)
    except (TypeError, KeyError) as problem:
        raise InputError(f"the reward in the model is damaged: {problem}; fit it anew") from None
    return SchemaLayout(schema, reward, learned)


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
