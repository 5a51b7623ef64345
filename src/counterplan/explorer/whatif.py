"""What if these actions had been taken? A plan made by hand, followed through the model.

With point abduction the answer is one trajectory: the noise of the episode is inferred, and the
plan is replayed with it. In a discrete model the plan is followed whatever state comes about, and
its value is the expected outcome; the course shown is the likeliest one.

A plan is put to the model as a solver that has nothing to search, so that all that is said about it
(changes in words, support in the data, trajectories) comes from where every answer comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem, ProgressCallback, Solver
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.astar import AStar
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    prepare_sequence,
    unproved,
)
from counterplan.counterfactual.discrete.budget_dp import BudgetDP, PolicyExplanation, prepare
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
    evaluate,
    keep_observed,
)
from counterplan.counterfactual.discrete.laws import CounterfactualLaw, RowIds
from counterplan.errors import InputError, NotApplicableError
from counterplan.explorer.items import Folder, Memo, Rankings, Recent
from counterplan.runs.answer import Answer
from counterplan.runs.question import (
    ContinuousExplainer,
    DiscreteExplainer,
    Explainer,
    Question,
    question_from_dict,
    stored_explainer,
)
from counterplan.runs.run import Terms
from counterplan.scm.point import PointSCM
from counterplan.scm.tabular import Rows
from counterplan.tables.parts import ID, Recorded, episodes_from_bytes
from counterplan.viz.labels import Labels, labels_of

# ----------------------------------------------------------------------------------------------
# A run of explanations, opened: its model, its question, and its episodes one by one.

# Episodes that are kept ready.
EPISODES = 64


class Desk:
    """All that is needed to answer a question about an episode of the run."""

    def __init__(self, out: Path) -> None:
        self.folder = Folder(out, ID)
        self.rankings = Rankings(self.folder)
        self.description: Mapping[str, Any] = self.folder.run.description
        self.memo = Memo()
        self._recorded: Recent[Recorded] = Recent(EPISODES)

    @property
    def question(self) -> Question:
        """What was asked about every episode."""
        return question_from_dict(self.description["question"])

    @property
    def outcomes(self) -> list[str]:
        """Names of what the table tells of an episode besides."""
        return list(self.description["outcomes"])

    @cached_property
    def explainer(self) -> Explainer:
        """The model and what the episodes are about."""
        return stored_explainer(self.description, self.folder.run.file)

    @cached_property
    def labels(self) -> Labels:
        """What states and actions are called."""
        explainer = self.explainer
        if isinstance(explainer, DiscreteExplainer):
            return labels_of(explainer.mdp if explainer.layout is None else explainer.layout)
        assert isinstance(explainer, ContinuousExplainer)
        return labels_of(explainer.layout)

    @cached_property
    def terms(self) -> Terms:
        """What an episode is called, and the unit of its times."""
        return self.folder.run.terms

    def recorded(self, name: str) -> Recorded:
        """An episode by its id."""
        return self._recorded.get(name, lambda: self._read(name))

    def _read(self, name: str) -> Recorded:
        (found,) = episodes_from_bytes(self.folder.input_of(name))
        return found


# ----------------------------------------------------------------------------------------------
# Counterfactual rows of discrete models, kept for the next question about the same episode.
#
# Nearly all the work of evaluating a plan goes into the rows of the actions it takes and into
# expectations under them. It shares the rows with the plan before at every step that was not
# edited, and the expectations behind the last edit. Both are kept while there is room, those used
# last.


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, by their ids in rising order."""

    ids: RowIds
    rows: Rows

    @property
    def nbytes(self) -> int:
        rows = self.rows
        arrays = (self.ids, rows.indptr, rows.indices, rows.probabilities)
        return sum(array.nbytes for array in arrays)

    def taken(self, ids: RowIds) -> Rows | None:
        """The rows of these ids, None if one of them is not here."""
        if np.array_equal(ids, self.ids):
            return self.rows
        places = np.searchsorted(self.ids, ids)
        if (places == len(self.ids)).any() or (self.ids[places] != ids).any():
            return None
        starts, ends = self.rows.indptr[places], self.rows.indptr[places + 1]
        indptr = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts)
        return Rows(indptr, self.rows.indices[entries], self.rows.probabilities[entries])


@dataclass(frozen=True, eq=False)
class RememberedLaw:
    """A law whose rows and expectations about one episode are kept.

    episode  its name
    first    the step of the episode that is called 0 here: to ask about the rest of it alone
    """

    law: CounterfactualLaw
    episode: str | None
    memo: Memo
    first: int = 0

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.law.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        from counterplan.scm.gumbel import row_expectations

        place = (self.episode, self.first + t, rows.tobytes(), values.shape, values.tobytes())
        for known in self.memo.find(place):
            return np.asarray(known)
        found = self.rows_at(t, rows)
        result = np.zeros((int(self.row_of.max()) + 1, values.shape[1]))
        result[rows] = row_expectations(found.indptr, found.indices, found.probabilities, values)
        self.memo.keep(place, result)
        return result

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        place = (self.episode, self.first + t)
        for block in self.memo.find(place):
            if (known := block.taken(rows)) is not None:
                return cast(Rows, known)
        found = self.law.rows_at(self.first + t, rows)
        self.memo.keep(place, Block(rows, found))
        return found


# ----------------------------------------------------------------------------------------------

Edits = Mapping[int, int]
# The method of an answer.
BY_HAND = "by hand"


@dataclass(frozen=True)
class ByHand:
    """A plan as a solver: the observed actions, but for those of `edits` (step -> action)."""

    edits: Edits
    memo: Memo

    def refuses(self, problem: Problem) -> str | None:
        return None

    def solve(self, problem: Problem) -> Explanation:
        if isinstance(problem.scm, PointSCM):
            return self._replayed(problem)
        return self._expected(problem)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        raise NotApplicableError("a plan made by hand has one budget: ask for that alone")

    def _replayed(self, problem: Problem) -> SequenceExplanation:
        setting = prepare_sequence(problem)
        actions = setting.observed.copy()
        for t, action in self.edits.items():
            actions[t] = action
        return unproved(setting, problem.k, actions, BY_HAND)

    def _expected(self, problem: Problem) -> PolicyExplanation:
        setting, law = prepare(problem)
        # Nothing is chosen, so no budget is counted: one column of the tables is enough.
        free = replace(setting.constraints, costs=np.zeros_like(setting.constraints.costs))
        setting = replace(setting, constraints=free, k=0)
        table = keep_observed(setting.episode, setting.mdp.n_states, 0)
        for t, action in self.edits.items():
            table.actions[t] = action
        remembered = RememberedLaw(law, problem.episode.id, self.memo)
        first = min(self.edits, default=len(setting.episode) - 1)
        return PolicyExplanation(
            episode=setting.episode,
            k=problem.k,
            value=_value(setting, remembered, table, first),
            factual_value=setting.mdp.outcome(setting.episode),
            bound=math.inf,
            status=Status.HEURISTIC,
            method=BY_HAND,
            process=PolicyProcess(setting, remembered, table),
        )


def _value(setting: Setting, law: RememberedLaw, table: PolicyTable, first: int) -> float:
    """What a plan is expected to earn that changes nothing before the step `first`: until there it
    leads where it led, so only what follows is a matter of chance."""
    episode, T = setting.episode, len(setting.episode)
    rest = Episode(episode.states[first:], episode.actions[first:], episode.id)
    ahead = evaluate(
        replace(setting, episode=rest),
        replace(law, first=first),
        PolicyTable(table.actions[first:]),
    )
    total = float(ahead[0])
    for t in range(first - 1, -1, -1):
        rewards = setting.mdp.rewards_at(t, T)
        total = float(rewards[episode.states[t], episode.actions[t]]) + total
    return total


@dataclass(frozen=True)
class WhatIf(Question):
    """The question what a plan made by hand would have led to."""

    edits: Edits = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo, compare=False)

    def solver_for(self, episode: str) -> Solver:
        return ByHand(self.edits, self.memo)


def what_if(explainer: Explainer, episode: Episode, edits: Edits, memo: Memo) -> WhatIf:
    """The question, or an error if the edits are none of this episode."""
    decisions = decisions_of(explainer, episode)
    actions = actions_of(explainer, episode)
    fixed = {t % decisions for t in explainer.constraints(episode).fixed_steps}
    for t, action in edits.items():
        if not 0 <= t < decisions:
            raise InputError(
                f"{episode.name}: step {t} has no decision to edit; there are 0..{decisions - 1}"
            )
        if t in fixed:
            raise InputError(f"{episode.name}: nothing was done at step {t}, so nothing can change")
        if not 0 <= action < actions:
            raise InputError(f"action {action} is unknown; there are 0..{actions - 1}")
    return WhatIf(budgets=(len(edits),), edits=dict(edits), memo=memo)


def decisions_of(explainer: Explainer, episode: Episode) -> int:
    """How many steps have a decision: with states that are vectors the last leads nowhere."""
    return len(episode) if explainer.is_discrete else len(episode) - 1


def actions_of(explainer: Explainer, episode: Episode) -> int:
    """How many actions there are to choose from; the one that stands for none is not among them."""
    if isinstance(explainer, DiscreteExplainer):
        return explainer.n_actions
    return int(np.asarray(explainer.problem(episode)["actions"]).shape[-2])


def inadmissible(explainer: Explainer, found: Answer) -> list[str]:
    """What to be told about changes that a discrete model does not admit where they are made."""
    explanation = found.explanation
    if not isinstance(explainer, DiscreteExplainer) or explainer.mdp.admissible is None:
        return []
    assert isinstance(explanation, PolicyExplanation)
    states = explanation.most_likely.states
    return [
        f"{change.text}: the model has no such action in the likeliest state there; what it says "
        "about it means little"
        for change in found.changes
        if not explainer.mdp.admissible[states[change.t], change.alternative]
    ]


@dataclass(frozen=True)
class Watched:
    """The exact solver of a problem, with a callback that is told how far it is."""

    solver: Solver
    progress: ProgressCallback | None

    def refuses(self, problem: Problem) -> str | None:
        return self.solver.refuses(problem)

    def solve(self, problem: Problem) -> Explanation:
        return self.solver.solve(replace(problem, progress=self.progress))

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        return self.solver.frontier(replace(problem, progress=self.progress))


# ----------------------------------------------------------------------------------------------
# The question of a run asked again about one episode, under rules of one's own.


@dataclass(frozen=True)
class Rules(Question):
    """A question with rules.

    forbidden  actions that nothing may be changed to; one that was taken may stay
    fixed      steps whose action stays as it was
    actions    how many actions the constraints count: with the one that stands for none
    discrete   of which kind the model is
    progress   told how far the search is
    """

    forbidden: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    actions: int = 0
    discrete: bool = False
    progress: ProgressCallback | None = None

    def constraints(self, given: Constraints) -> Constraints:
        usual = super().constraints(given)
        allowed = None
        if self.forbidden:
            allowed = np.ones(self.actions, dtype=np.bool_)
            allowed[list(self.forbidden)] = False
        fixed = (*usual.fixed_steps, *self.fixed)
        return Constraints(allowed=allowed, fixed_steps=fixed, max_move=usual.max_move)

    def solver_for(self, episode: str) -> Solver:
        return Watched(cast(Solver, BudgetDP() if self.discrete else AStar()), self.progress)


@dataclass(frozen=True)
class SolveRequest:
    """What someone asks for.

    k          at most so many changes
    seconds    when to stop
    """

    k: int
    forbidden: tuple[int, ...]
    fixed: tuple[int, ...]
    seconds: float


def check_wish(explainer: Explainer, episode: Episode, wish: SolveRequest) -> None:
    """Raise if a wish is about no step, action or budget of an episode."""
    actions, decisions = actions_of(explainer, episode), decisions_of(explainer, episode)
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


def rules_of(
    base: Question,
    explainer: Explainer,
    episode: Episode,
    wish: SolveRequest,
    progress: ProgressCallback,
) -> Rules:
    """The question; what a wish does not say is as the run had it, and the solver is exact."""
    check_wish(explainer, episode, wish)
    problem = explainer.problem(episode)
    counted = (
        problem["scm"].mdp.n_actions if explainer.is_discrete else actions_of(explainer, episode)
    )
    return Rules(
        budgets=(wish.k,),
        seconds=wish.seconds,
        gap=base.gap,
        max_move=base.max_move,
        robust=base.robust,
        forbidden=wish.forbidden,
        fixed=wish.fixed,
        actions=counted,
        discrete=explainer.is_discrete,
        progress=progress,
    )
