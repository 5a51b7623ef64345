"""What is asked about every episode of a cohort."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from counterplan.core.constraints import Constraints
from counterplan.core.limits import Limits
from counterplan.core.validation import LARGEST_BUDGET, whole_number
from counterplan.errors import InputError

if TYPE_CHECKING:
    from counterplan.core.problem import Solver

EXACT = "exact"
# Every budget has its own row for every episode.
MOST_BUDGETS = 1_000


@dataclass(frozen=True)
class Question:
    """Budgets, method and limits.

    budgets   how many actions may change at most; several are answered from one frontier
    solver    exact, greedy, noisy-greedy, top-k, random or uct
    nodes     limits of each search, as `Limits` has them; None for none
    max_move  by how much a dose may differ from the one given, in the units of action vectors
    robust    whether to add the lowest and highest value over all causal models that fit
    seed      of solvers that draw; every episode has a generator of its own
    """

    budgets: tuple[int, ...] = (3,)
    solver: str = EXACT
    nodes: int | None = None
    seconds: float | None = None
    gap: float = 0.0
    max_move: float | None = None
    robust: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.budgets or tuple(sorted(set(self.budgets))) != self.budgets:
            raise InputError(f"budgets {self.budgets} must be whole numbers, each once, rising")
        largest = LARGEST_BUDGET if len(self.budgets) == 1 else MOST_BUDGETS
        for k in self.budgets:
            whole_number(k, "k, where there are several," if self.budgets[1:] else "k", 0, largest)
        whole_number(self.seed, "seed")
        self.solver_for("")
        self.limits()

    @property
    def is_repeatable(self) -> bool:
        """Whether the answer depends on nothing but the question; seconds are never the same."""
        return self.seconds is None

    def limits(self) -> Limits:
        """When a search stops."""
        seconds = math.inf if self.seconds is None else self.seconds
        return Limits(seconds=seconds, nodes=self.nodes, gap=self.gap)

    def constraints(self, given: Constraints) -> Constraints:
        """What an episode rules out, and the question besides."""
        return Constraints(fixed_steps=given.fixed_steps, max_move=self.max_move)

    def solver_for(self, episode: str) -> Solver | None:
        """The solver of an episode, None for the exact one; what it draws depends on the seed and
        the episode's name, never on other episodes."""
        from counterplan.counterfactual import baselines

        makers: dict[str, Any] = {
            EXACT: lambda: None,
            "greedy": baselines.Greedy,
            "noisy-greedy": lambda: baselines.NoisyGreedy(self._seed_of(episode)),
            "top-k": baselines.TopK,
            "random": lambda: baselines.Random(self._seed_of(episode)),
            "uct": lambda: baselines.TreeSearch(seed=self._seed_of(episode)),
        }
        if self.solver not in makers:
            raise InputError(f"unknown solver {self.solver!r}: there are {', '.join(makers)}")
        solver: Solver | None = makers[self.solver]()
        return solver

    def _seed_of(self, episode: str) -> int:
        checksum = hashlib.sha256(f"{self.seed} {episode}".encode())
        return int.from_bytes(checksum.digest()[:8], "big")

    def as_dict(self) -> dict[str, Any]:
        """Plain values; `question_from_dict` reads them back."""
        return {**asdict(self), "budgets": list(self.budgets)}


def question_from_dict(values: Mapping[str, Any]) -> Question:
    """The question that plain values stand for."""
    return Question(**{**values, "budgets": tuple(values["budgets"])})
