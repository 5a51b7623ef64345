"""Transitions made ready for training: checked, split by episode, in the model's units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.scaling import Scaling
from counterplan.scm.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Samples:
    """n transitions in the model's units.

    inputs   (n, D + d) states and action vectors side by side
    targets  (n, D - fixed) the features that move, one step later
    """

    inputs: FloatArray
    targets: FloatArray

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, chosen: IntArray) -> Samples:
        """Some of them."""
        return Samples(self.inputs[chosen], self.targets[chosen])


def samples(transitions: Transitions, scaling: Scaling, fixed: int) -> Samples:
    """Transitions in the model's units."""
    before = scaling.encode_states(transitions.before)
    actions = scaling.encode_actions(transitions.actions)
    after = scaling.encode_states(transitions.after)
    return Samples(np.concatenate([before, actions], axis=1), after[:, fixed:])


def split(
    transitions: Transitions, share: float, rng: np.random.Generator
) -> tuple[Transitions, Transitions | None]:
    """Training and validation part; no episode is in both."""
    if share == 0.0:
        return transitions, None
    n = transitions.n_episodes
    if n < 2:
        raise InputError(
            "one episode cannot be split into training and validation: give more, or train with "
            "Training(validation=0)"
        )
    shuffled = rng.permutation(np.unique(transitions.episode))
    held_out = min(max(round(share * n), 1), n - 1)
    return transitions.of_episodes(shuffled[held_out:]), transitions.of_episodes(
        shuffled[:held_out]
    )


def min_max_scaling(transitions: Transitions) -> Scaling:
    """Every column to [-0.5, 0.5]; a column that never changes cannot be scaled."""
    states = np.concatenate([transitions.before, transitions.after])
    for table, what in ((states, "feature"), (transitions.actions, "action component")):
        constant = np.flatnonzero(np.ptp(table, axis=0) == 0.0)
        if constant.size:
            column = int(constant[0])
            name = transitions.feature(column) if what == "feature" else f"{what} {column}"
            raise InputError(
                f"{name} has the value {table[0, column]} in every transition: nothing can be "
                "learned about it; drop the column, or give its range with Training(scaling=...)"
            )
    return Scaling(*_middle(states), *_middle(transitions.actions))


def check_learnable(transitions: Transitions, fixed: int) -> None:
    """Raise where maximum likelihood has no answer: too few transitions, or a feature without
    noise."""
    D, d = transitions.before.shape[1], transitions.actions.shape[1]
    needed = 2 * (D + d + 1)
    if len(transitions) < needed:
        raise InputError(
            f"{len(transitions)} transitions to train on are too few for {D} features and {d} "
            f"action components: at least {needed} are needed, thousands are better"
        )
    moves = (transitions.before != transitions.after).any(axis=0)
    still = np.flatnonzero(~moves[fixed:])
    if still.size:
        raise InputError(
            f"{transitions.feature(int(still[0]) + fixed)} never changes within an episode: put it "
            "first and count it in `fixed`, or drop it"
        )


def _middle(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    low, high = table.min(axis=0), table.max(axis=0)
    return (low + high) / 2, high - low
