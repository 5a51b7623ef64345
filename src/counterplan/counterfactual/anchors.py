"""The 2023 paper's heuristic: which anchor states its bound is computed at.

MC-Lipschitz       states of random alternatives, which change steps with probabilities proportional
                   to the constants L_t of the value (Section 4)
MC-uniform         the same, all steps equally likely (Appendix F)
facility location  states of the data, each the farthest from those already chosen (Eq. 18 by the
                   farthest-point algorithm, within a factor 2 of the best)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    feature_table,
    generator,
    whole_number,
)
from counterplan.counterfactual.best_first import UpperBound
from counterplan.counterfactual.sequence_setting import SequenceSetting
from counterplan.errors import InputError

STRATEGIES = ("mc-lipschitz", "mc-uniform", "facility-location")
# Rounds of sampling without any new state before a wanted number of anchors is given up.
PATIENCE = 10


@dataclass(frozen=True, eq=False)
class AnchorHeuristic:
    """The paper's bound: Algorithm 1 and Eq. 11 on a set of anchors.

    strategy    'mc-lipschitz', 'mc-uniform' or 'facility-location'
    samples     how many alternatives are drawn (M); with facility location also the number of
                anchors, if `size` does not say otherwise
    seed        of the draws
    size        the number of anchors: alternatives are drawn until there are so many
    population  (n, D) states of the data that facility location chooses from; without any it
                chooses from those of random alternatives
    """

    strategy: str = "mc-lipschitz"
    samples: int = 2000
    seed: Seed = 0
    size: int | None = None
    population: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise InputError(
                f"unknown anchor strategy {self.strategy!r}: use one of {', '.join(STRATEGIES)}"
            )
        whole_number(self.samples, "samples", minimum=1)
        if self.size is not None:
            whole_number(self.size, "size", minimum=1)
        if self.population is not None and self.strategy != "facility-location":
            raise InputError(f"population is for facility-location, not for {self.strategy}")
        if self.population is not None:
            _check_table(self.population)

    def refuses(self, setting: SequenceSetting) -> str | None:
        """What the model would have to provide, or None."""
        if setting.step_constants is not None:
            return None
        return (
            f"anchors need Lipschitz constants, which {type(setting.scm).__name__} does not state: "
            "pass lipschitz=..., or search without a bound, solver=AStar(NoBound())"
        )

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The bound of one problem, unbounded at steps that Algorithm 1 does not reach in time."""
        from counterplan.counterfactual.anchor_bound import AnchorBound

        return AnchorBound(setting, self.anchors(setting), self.strategy, deadline)

    def anchors(self, setting: SequenceSetting) -> FloatArray:
        """(A, D) the anchors of one problem, in the model's own units."""
        rng = generator(self.seed)
        if self.strategy == "facility-location":
            return self._spread_out(setting, rng)
        return self._simulated(setting, self._weights(setting), rng)

    def _weights(self, setting: SequenceSetting) -> FloatArray:
        from counterplan.counterfactual.anchor_bound import value_constants

        if self.strategy == "mc-lipschitz":
            return value_constants(setting)[:-1]
        return np.ones(setting.horizon - 1)

    def _simulated(
        self, setting: SequenceSetting, weights: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """The observed states and all distinct ones of random alternatives."""
        drawn = random_alternatives(setting, weights, self.samples, rng)
        if self.size is None:
            return distinct_states(setting, drawn)
        found, idle = distinct_states(setting, drawn), 0
        while len(found) < self.size and idle < PATIENCE:
            more = random_alternatives(setting, weights, self.samples, rng)
            drawn = np.unique(np.concatenate([drawn, more]), axis=0)
            before, found = len(found), distinct_states(setting, drawn)
            idle = idle + 1 if len(found) == before else 0
        # Any of them, but the observed states, which come first, for certain.
        kept = rng.permutation(np.arange(setting.horizon, len(found)))
        order = np.concatenate([np.arange(setting.horizon), kept])
        return np.asarray(found[order[: self.size]])

    def _spread_out(self, setting: SequenceSetting, rng: np.random.Generator) -> FloatArray:
        from counterplan.counterfactual.anchor_kernel import farthest_points

        if self.population is None:
            uniform = np.ones(setting.horizon - 1)
            states = distinct_states(
                setting, random_alternatives(setting, uniform, self.samples, rng)
            )
        else:
            states = _comparable(setting, feature_table(self.population, "population"))
        count = min(self.samples if self.size is None else self.size, len(states))
        moving = np.ascontiguousarray(states[:, setting.scm.fixed :])
        chosen = farthest_points(moving, int(rng.integers(len(states))), count)
        return np.asarray(states[chosen])


def _check_table(population: ArrayLike) -> None:
    try:
        dimensions = np.ndim(population)
    except ValueError:  # rows of different lengths
        dimensions = 0
    if dimensions != 2:
        raise InputError("population must be a table of states, (n, D): one row for each state")


def random_alternatives(
    setting: SequenceSetting, weights: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """(count, T-1) sequences: 1..k steps, drawn without replacement by their weights, are set to
    any of the actions allowed there, as far as the budget lasts."""
    result = np.repeat(setting.observed[None], count, axis=0)
    options = setting.allowed.sum(axis=1)
    free = np.flatnonzero((options > 1) & (weights > 0.0))
    most = min(setting.k, len(free))
    if most == 0:
        return result
    changes = rng.integers(1, most + 1, size=count)
    # The first of exponential races with these rates are a draw without replacement.
    arrival = rng.exponential(size=(count, len(free))) / weights[free]
    place = arrival.argsort(axis=1).argsort(axis=1)
    choice = (rng.random((count, len(free))) * options[free]).astype(np.int64)
    listed = np.argsort(~setting.allowed, axis=1, kind="stable")
    wanted = listed[free[None, :], choice]
    result[:, free] = np.where(place < changes[:, None], wanted, result[:, free])
    return _within_budget(setting, result)


def _within_budget(setting: SequenceSetting, sequences: IntArray) -> IntArray:
    """The same sequences without the changes for which nothing is left."""
    left = np.full(len(sequences), setting.k)
    for t, observed in enumerate(setting.observed):
        price = setting.costs_at(t)[sequences[:, t]]
        sequences[:, t] = np.where(price <= left, sequences[:, t], observed)
        left -= np.where(price <= left, price, 0)
    return sequences


def distinct_states(setting: SequenceSetting, sequences: IntArray) -> FloatArray:
    """The observed states, then each other state that the sequences (n, T-1) pass, once."""
    paths = setting.trajectories(sequences)
    found = [setting.states]
    for t in range(1, setting.horizon):
        # A state is known by the actions that lead to it.
        prefixes, first = np.unique(sequences[:, :t], axis=0, return_index=True)
        other: BoolArray = (prefixes != setting.observed[:t]).any(axis=1)
        found.append(paths[first[other], t])
    return np.concatenate(found)


def _comparable(setting: SequenceSetting, population: FloatArray) -> FloatArray:
    """States of the data in the model's units, with the fixed features of this episode: no state
    that it can reach has others."""
    if population.shape[1] != setting.states.shape[1]:
        raise InputError(
            f"population has {population.shape[1]} features, states have {setting.states.shape[1]}"
        )
    scaling = setting.scaling
    states = population if scaling is None else scaling.encode_states(population)
    states[:, : setting.scm.fixed] = setting.states[0, : setting.scm.fixed]
    return np.unique(states, axis=0)
