"""The question of a run asked again about one episode, under rules of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.cohort.question import Question
from counterplan.cohort.subject import Subject
from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Solver
from counterplan.errors import InputError
from counterplan.explorer.watched import Watch, WatchedAStar, WatchedBudgetDP, unwatched
from counterplan.explorer.whatif import actions_of, decisions_of


@dataclass(frozen=True)
class Rules(Question):
    """A question with rules.

    forbidden  actions that nothing may be changed to; one that was taken may stay
    fixed      steps whose action stays as it was
    actions    how many actions the constraints count: with the one that stands for none
    discrete   of which kind the model is
    watch      told how far the search is
    """

    forbidden: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    actions: int = 0
    discrete: bool = False
    watch: Watch = unwatched

    def constraints(self, given: Constraints) -> Constraints:
        usual = super().constraints(given)
        allowed = None
        if self.forbidden:
            allowed = np.ones(self.actions, dtype=np.bool_)
            allowed[list(self.forbidden)] = False
        fixed = (*usual.fixed_steps, *self.fixed)
        return Constraints(allowed=allowed, fixed_steps=fixed, max_move=usual.max_move)

    def solver_for(self, episode: str) -> Solver:
        return (
            WatchedBudgetDP(watch=self.watch) if self.discrete else WatchedAStar(watch=self.watch)
        )


@dataclass(frozen=True)
class Wish:
    """What someone asks for.

    k          at most so many changes
    seconds    when to stop
    """

    k: int
    forbidden: tuple[int, ...]
    fixed: tuple[int, ...]
    seconds: float


def check_wish(subject: Subject, episode: Episode, wish: Wish) -> None:
    """Raise if a wish is about no step, action or budget of an episode."""
    actions, decisions = actions_of(subject, episode), decisions_of(subject, episode)
    if wish.k > len(episode):
        raise InputError(f"{episode.name} has {len(episode)} steps: k cannot be {wish.k}")
    for action in wish.forbidden:
        if not 0 <= action < actions:
            raise InputError(f"action {action} is unknown; there are 0..{actions - 1}")
    for t in wish.fixed:
        if not 0 <= t < decisions:
            raise InputError(
                f"{episode.name}: step {t} has no decision; there are 0..{decisions - 1}"
            )


def rules_of(base: Question, subject: Subject, episode: Episode, wish: Wish, watch: Watch) -> Rules:
    """The question; what a wish does not say is as the run had it, and the solver is exact."""
    check_wish(subject, episode, wish)
    problem = subject.problem(episode)
    counted = problem["scm"].mdp.n_actions if subject.is_discrete else actions_of(subject, episode)
    return Rules(
        budgets=(wish.k,),
        seconds=wish.seconds,
        gap=base.gap,
        max_move=base.max_move,
        robust=base.robust,
        forbidden=wish.forbidden,
        fixed=wish.fixed,
        actions=counted,
        discrete=subject.is_discrete,
        watch=watch,
    )
