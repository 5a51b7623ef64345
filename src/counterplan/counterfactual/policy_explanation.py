"""An explanation whose changes depend on how the counterfactual unfolds: a policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.result import Certified, Change, Explanation
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.counterfactual.distributions import (
    Moments,
    Path,
    PolicyProcess,
    Realizations,
)
from counterplan.counterfactual.lattice import LOST, TOLERANCE, find_lattice
from counterplan.errors import InputError, NotApplicableError

# Outcomes off any lattice are bracketed on a grid: as fine as about this many numbers and
# operations allow.
ENTRIES = 10_000_000
OPERATIONS = 2_000_000_000
COARSEST, FINEST = 20, 2_000


class OutcomeDistribution(NamedTuple):
    """Outcomes in ascending order with their probabilities; -inf first if it can happen."""

    values: FloatArray
    probabilities: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyExplanation(Explanation):
    """An explanation with its policy and the counterfactual process it runs in.

    `process` carries the model, the constraints, the causal law and the policy's table.
    """

    process: PolicyProcess = field(repr=False)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The changes along the likeliest counterfactual episode (see `most_likely`)."""
        observed, path = self.episode.actions, self.most_likely
        return tuple(
            Change(int(t), int(observed[t]), int(path.actions[t]))
            for t in np.flatnonzero(path.actions != observed)
        )

    @cached_property
    def most_likely(self) -> Path:
        """The likeliest counterfactual episode under the policy, with its probability."""
        return self.process.most_likely()

    def policy(self, t: int, state: int, used: int) -> int:
        """The action at step t in `state` when `used` of the budget is spent (the most probable
        one, where a baseline chooses at random)."""
        return self.process.table.action(*self._place(t, state, used))

    def action_probabilities(self, t: int, state: int, used: int) -> FloatArray:
        """(A,) how likely the policy is to take each action there."""
        place = self._place(t, state, used)
        return self.process.table.probabilities(*place, self.process.setting.mdp.n_actions)

    def sample(self, n: int, seed: Seed = 0) -> Realizations:
        """n counterfactual episodes (the paper's Algorithm 1)."""
        return self.process.sample(whole_number(n, "n", minimum=1), generator(seed))

    def change_probabilities(self) -> FloatArray:
        """(T, A) the probability that the action of step t is changed to a, exact."""
        return self._moments.change_probabilities

    def changes_distribution(self) -> FloatArray:
        """(T + 1,) the probabilities of 0, 1, ..., T changes, exact."""
        T = len(self.episode)
        shape = self.process.setting.mdp.rewards.shape
        increments = [np.ones(shape, dtype=np.int64) for _ in range(T)]
        for t, action in enumerate(self.episode.actions):
            increments[t][:, action] = 0
        smallest, probabilities, _ = self.process.sums(increments)
        result = np.zeros(T + 1)
        result[smallest : smallest + len(probabilities)] = probabilities
        return result

    @property
    def outcome_mean(self) -> float:
        """The expected outcome under the causal model, exact."""
        return -math.inf if self.value == -math.inf else self._moments.mean

    @property
    def outcome_variance(self) -> float:
        """The variance of the outcome, exact; inf where an outcome of -inf is possible."""
        return math.inf if self.value == -math.inf else self._moments.variance

    def outcome_distribution(self) -> OutcomeDistribution:
        """The exact distribution of the outcome, where all rewards lie on a lattice."""
        setting, T = self.process.setting, len(self.episode)
        rewards = [setting.rewards_at(t) for t in range(T)]
        lattice = find_lattice(np.stack([rewards[0], rewards[-1]]))
        if lattice is None:
            raise NotApplicableError(
                "the rewards do not lie on a lattice (whole multiples of a common step), so the "
                "outcome has no small exact distribution: use sample(n), outcome_mean and "
                "outcome_variance, or probability_better(), which is bounded for any rewards"
            )
        increments = [lattice.index(reward) for reward in rewards]
        for step in increments:
            step[step < 0] = LOST
        smallest, probabilities, lost = self.process.sums(increments)
        possible = np.flatnonzero(probabilities)
        values = np.asarray(T * lattice.base + lattice.step * (smallest + possible), np.float64)
        if lost > 0.0:
            values = np.concatenate([[-np.inf], values])
            return OutcomeDistribution(values, np.concatenate([[lost], probabilities[possible]]))
        return OutcomeDistribution(values, probabilities[possible])

    def probability_better(self) -> Certified:
        """The probability that the outcome beats the observed one: exact where the rewards before
        the last step lie on a lattice, otherwise between bounds from rounding them down and up."""
        setting, T = self.process.setting, len(self.episode)
        if self.factual_value == -math.inf:
            exact = 1.0 - self._probability_of_barred()
            return Certified(exact, exact, exact)
        gains = []
        for t in range(T):
            earned = setting.mdp.rewards_at(t, T)[self.episode.states[t], self.episode.actions[t]]
            gains.append(setting.rewards_at(t) - earned)
        *before, last = gains
        largest = max(float(np.abs(gain[np.isfinite(gain)]).max(initial=0.0)) for gain in gains)
        # Gains this small are what rounding leaves of a tie. Whole numbers g plus the last gain x
        # are positive if and only if g + ceil(x) is, so the last step needs no lattice.
        last = last - TOLERANCE * largest
        lattice = find_lattice(np.concatenate([[0.0], *(np.ravel(gain) for gain in before)]))
        if lattice is not None:
            zero = round(-lattice.base / lattice.step)
            increments = [_marked(lattice.index(gain), -zero) for gain in before]
            exact = self.process.positive([*increments, _rounded(np.ceil, last, lattice.step)])
            return Certified(exact, exact, exact)
        step = largest / self._grid()
        low, high = (
            self.process.positive(
                [*(_rounded(way, gain, step) for gain in before), _rounded(np.ceil, last, step)]
            )
            for way in (np.floor, np.ceil)
        )
        low, high = min(low, high), max(low, high)  # equal but for rounding, in any order
        return Certified((low + high) / 2, low, high)

    @cached_property
    def _moments(self) -> Moments:
        return self.process.moments()

    def _grid(self) -> int:
        """As many steps as memory and a few seconds of work allow."""
        setting, T = self.process.setting, len(self.episode)
        nodes = setting.mdp.n_states * (setting.k + 1)
        row = max(1, len(setting.mdp.rows.indices) // len(setting.mdp.rows))
        affordable = min(ENTRIES // (2 * T * nodes), OPERATIONS // (T * T * nodes * row))
        return min(FINEST, max(COARSEST, affordable))

    def _probability_of_barred(self) -> float:
        """How likely a pair of reward -inf is taken."""
        rewards = [self.process.setting.rewards_at(t) for t in range(len(self.episode))]
        _, _, lost = self.process.sums([np.where(np.isfinite(r), 0, LOST) for r in rewards])
        return min(1.0, lost)

    def _place(self, t: int, state: int, used: int) -> tuple[int, int, int]:
        mdp = self.process.setting.mdp
        places: tuple[tuple[str, object, int], ...] = (
            ("t", t, len(self.episode)),
            ("state", state, mdp.n_states),
            ("used", used, self.k + 1),
        )
        for name, given, count in places:
            if not isinstance(given, int | np.integer) or not 0 <= given < count:
                raise InputError(f"policy: {name} is {given}, expected 0..{count - 1}")
        # A budget beyond what an episode can spend is as good as the largest that it can.
        return t, state, min(self.k - used, self.process.setting.k)


def _marked(positions: NDArray[np.int64], offset: int) -> NDArray[np.int64]:
    """Lattice positions counted from the observed reward, -inf marked as LOST."""
    return np.where(positions < 0, LOST, positions + offset)


def _rounded(direction: np.ufunc, gain: FloatArray, step: float) -> NDArray[np.int64]:
    finite = np.isfinite(gain)
    result = np.full(gain.shape, LOST, dtype=np.int64)
    result[finite] = direction(gain[finite] / step).astype(np.int64)
    return result
