"""A question to a solver, and what a solver must be able to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Limits, ProgressCallback
from counterplan.core.result import Explanation
from counterplan.errors import InputError

if TYPE_CHECKING:
    from counterplan.core.reward import EpisodeReward, Reward


@dataclass(frozen=True, eq=False)
class Problem:
    """Improve `episode` under `scm` with a budget of at most `k` changes.

    actions, reward  the set of action vectors and the reward of a continuous state; a discrete
                     model has both in its MDP
    progress         called as the solver goes on; False stops it
    tolerance        (d,) of doses: how far apart they are still the same, where data is asked for
                     them; None: half way to the next listed one
    risk             of a model with members: the share of them, the worst, whose mean counts; None
                     for the model alone
    """

    scm: Any
    episode: Episode
    k: int
    constraints: Constraints = field(default_factory=Constraints)
    limits: Limits = field(default_factory=Limits)
    actions: Any = None
    reward: Reward | EpisodeReward | None = None
    progress: ProgressCallback | None = None
    risk: float | None = None
    tolerance: Any = None

    @property
    def has_doses(self) -> bool:
        """Whether its actions are `Doses`, not a list."""
        return hasattr(self.actions, "room")

    def __post_init__(self) -> None:
        for given, kind, name, call in (
            (self.episode, Episode, "an Episode", "Episode(states=..., actions=...)"),
            (self.constraints, Constraints, "Constraints", "Constraints(fixed_steps=...)"),
            (self.limits, Limits, "Limits", "Limits(seconds=...)"),
        ):
            if not isinstance(given, kind):
                raise InputError(f"expected {name}, got {type(given).__name__}: {call}")


@runtime_checkable
class Solver(Protocol):
    """Answers problems; `refuses` says why a problem is not one of its kind, None if it is."""

    def refuses(self, problem: Problem) -> str | None:
        """One line on the violated assumption and what to use instead, or None."""
        ...

    def solve(self, problem: Problem) -> Explanation:
        """The explanation for the budget problem.k."""
        ...

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """One explanation for each budget 0..problem.k."""
        ...
