"""Players around others: a policy that keeps what it saw, and a planner that is asked only where
there is a choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import Policy, Rule
from counterplan.planning.search.planners import Clip, Decide, HasAction, Planner


@dataclass
class Recording:
    """A policy that keeps what it was shown, so that hindsight can be had on the same futures."""

    policy: Policy
    seen: list[FloatArray] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy.name

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The policy's rule."""
        rule = self.policy.prepare(model, seed)

        def recorded(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            self.seen.append(exogenous)
            return rule(t, exogenous, resource)

        return recorded

    @property
    def paths(self) -> FloatArray:
        """(n, T, X)."""
        return np.stack(self.seen, axis=1)


class Only(NamedTuple):
    """The only action there is."""

    action: FloatArray


@dataclass(frozen=True)
class Unforced:
    """A planner that is asked only where there is a choice."""

    planner: Planner

    @property
    def name(self) -> str:
        """The planner's."""
        return self.planner.name

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide:
        """The planner's decisions, and those that need no planner."""
        decide = self.planner.begin(problem, clip, seed)

        def decided(state: State) -> HasAction:
            actions = problem.actions(state)
            return Only(actions[0]) if len(actions) == 1 else decide(state)

        return decided
