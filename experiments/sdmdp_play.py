"""How policies and planners are played on a problem's futures, cell by cell.

A planner plays twice: with the paper's number of simulations (a quick study: with a share of it),
and with as many as take the time that UCT without clipping needs for these. Times are measured in
the first state, of both searches, and kept with the results, so that a figure that was stopped ends
with the numbers it began with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.options import OptionProblem
from counterplan.planning import policies
from counterplan.planning.evaluate import Evaluation, evaluate
from counterplan.planning.hindsight import allocate
from counterplan.planning.model import FiniteSupport
from experiments.control_variate import controlled_outcomes
from experiments.sdmdp_domains import Case, baseline
from experiments.sdmdp_players import Recording, Unforced
from experiments.sdmdp_study import CONTENDERS, Contender, Study, planner
from experiments.sdmdp_table import EQUAL_TIME, HINDSIGHT, OPEN_LOOP, OPTIMAL

BASELINE = "baseline"
POLICIES = (HINDSIGHT, OPTIMAL, OPEN_LOOP, BASELINE)
# Searches of the first state, of which the fastest counts: whatever else the machine does only
# slows them down.
TIMED = 5

Results = Mapping[Any, Mapping[str, Any]]


class Speed(NamedTuple):
    """A planner's search to be timed."""

    case: Case
    contender: Contender
    simulations: int

    def key(self) -> list[Any]:
        """Its name in the parts."""
        return ["speed", *self.case, self.contender.name, self.simulations]


class Cell(NamedTuple):
    """A policy (no simulations) or a planner to be played on a problem's futures."""

    case: Case
    method: str
    contender: Contender | None = None
    simulations: int | None = None

    def key(self) -> list[Any]:
        """Its name in the parts."""
        return ["played", *self.case, self.method, self.simulations]


class Steady(NamedTuple):
    """The results of a problem's players without luck."""

    case: Case

    def key(self) -> list[Any]:
        """Its name in the parts."""
        return ["steady", *self.case]


def time_search(study: Study, speed: Speed) -> dict[str, Any]:
    """Seconds of one decision in the first state."""
    problem = study.played_by(speed.case, speed.contender)
    search = planner(speed.contender.algorithm, speed.simulations)
    decide = search.begin(problem, speed.contender.clip, study.seed(speed.case))
    decisions: list[Any] = [decide(problem.start) for _ in range(TIMED + 1)]
    # The first one also makes room for the tree.
    return {"seconds": min(decision.stats["seconds"] for decision in decisions[1:])}


def cells_of(study: Study, case: Case, timed: Results) -> list[tuple[Cell, str]]:
    """What is played on a problem, and for which budget; a search may serve both."""
    cells = [(Cell(case, method), "") for method in POLICIES]
    usual = study.simulations(case)
    first = timed[Speed(case, CONTENDERS[0], usual)]["seconds"]
    for contender in CONTENDERS:
        seconds = timed[Speed(case, contender, usual)]["seconds"]
        budgets = {study.budget: usual, EQUAL_TIME: _rounded(usual * first / seconds)}
        for budget, simulations in budgets.items():
            cells.append((Cell(case, contender.name, contender, simulations), budget))
    return cells


def _rounded(simulations: float) -> int:
    """Two digits: more were not measured."""
    return max(2, int(float(f"{simulations:.1e}")))


def play(study: Study, cell: Cell) -> dict[str, Any]:
    """What one player did on all futures, and what came of it."""
    problem, seed = study.problem(cell.case), study.seed(cell.case)
    episodes = study.episodes(cell.case)
    if cell.contender is not None:
        assert cell.simulations is not None
        search = Unforced(planner(cell.contender.algorithm, cell.simulations))
        clips = cell.contender.clip
        played = study.played_by(cell.case, cell.contender)
        return _kept(evaluate(played, search, episodes, clip=clips, seed=seed))
    if cell.method == HINDSIGHT:
        futures = _futures(study, cell.case)
        outcomes = allocate(problem, futures.paths).values
        return {"outcomes": outcomes.tolist(), "futures": futures.fingerprint}
    if cell.method == OPTIMAL:
        reference = study.reference(cell.case)
        found = evaluate(problem, policies.KnownRule(OPTIMAL, reference.rule), episodes, seed=seed)
        about = {name: getattr(reference, name) for name in ("low", "high", "expectation", "se")}
        return {**_kept(found), **about}
    policy = policies.OpenLoop() if cell.method == OPEN_LOOP else baseline(cell.case)
    return _kept(evaluate(problem, policy, episodes, seed=seed))


def _kept(found: Evaluation) -> dict[str, Any]:
    return {
        "outcomes": found.outcomes.tolist(),
        "actions": found.actions.tolist(),
        "futures": found.futures,
    }


class Futures(NamedTuple):
    """What everyone plays on: paths (n, T, X), and how evaluations call them."""

    paths: FloatArray
    fingerprint: str


def _futures(study: Study, case: Case) -> Futures:
    recording = Recording(policies.OpenLoop())
    problem, episodes = study.problem(case), study.episodes(case)
    found = evaluate(problem, recording, episodes, seed=study.seed(case))
    return Futures(recording.paths, found.futures)


def take_luck_out(
    study: Study, cells: Sequence[tuple[Cell, str]], results: Results
) -> dict[str, Any]:
    """Results without luck, by the names of the cells; hindsight has none."""
    players = [
        cell for cell in dict.fromkeys(cell for cell, _ in cells) if cell.method != HINDSIGHT
    ]
    case = players[0].case
    problem, paths, seed = study.problem(case), _futures(study, case).paths, study.seed(case)
    actions = np.array([results[cell]["actions"] for cell in players])
    if isinstance(problem, FiniteSupport | OptionProblem):
        # Penalties follow from the path alone, so that one fit serves all players.
        together = np.tile(paths, (len(players), 1, 1))
        values = controlled_outcomes(problem, together, np.concatenate(actions), seed)
        steady = values.reshape(len(players), -1)
    else:
        # Penalties are estimated with draws, which must be the same for all players.
        steady = np.array([controlled_outcomes(problem, paths, done, seed) for done in actions])
    names = [json.dumps(cell.key()) for cell in players]
    return dict(zip(names, steady.tolist(), strict=True))
