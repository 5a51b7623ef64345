"""Everything that is shipped passes the public checks, and so do three examples of users' own.

A public model, solver or planner that is not listed here fails the test that compares names.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan import counterfactual
from counterplan.core.problem import Solver
from counterplan.counterfactual import (
    BudgetAllocation,
    BudgetDP,
    FirstOrderBound,
    NoBound,
    Tightest,
    oracle,
)
from counterplan.domains import sepsis
from counterplan.planning import State
from counterplan.planning.search.planners import PLANNERS
from counterplan.scm import PointSCM
from counterplan.scm.learned import LearnedSCM
from counterplan.scm.point import ElementwiseSCM
from counterplan.testing import check_model, check_planner, check_scm, check_solver
from counterplan.testing.continuous import MODELS, random_sequence_problem
from experiments import therapy
from experiments.simulated_sessions import write_sessions
from experiments.synthetic import synthetic_process
from tests.domains.planning_support import discretised

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def example(name: str) -> dict[str, Any]:
    """The names that an example leaves behind."""
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(EXAMPLES / f"{name}.py"))


# --- Causal models ----------------------------------------------------------------------------


def test_gumbel_max() -> None:
    check_scm(cp.GumbelMaxSCM(synthetic_process(alpha=0.4, seed=0).mdp))
    check_scm(cp.GumbelMaxSCM(cp.domains.icu_sepsis.load().mdp), trials=3)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_continuous_models(kind: str) -> None:
    scm = MODELS[kind](np.random.default_rng(7))
    problem = random_sequence_problem(scm, np.random.default_rng(7), horizon=6, n_actions=3, k=1)
    check_scm(scm, episodes=[problem.episode], actions=problem.actions)


def test_interacting_drugs() -> None:
    case = cp.domains.interacting.interacting_episode(seed=0)
    check_scm(case.scm, episodes=[case.episode], actions=case.actions)


def test_the_mechanism_of_the_simulated_patients(tmp_path: Path) -> None:
    """Its process stays within bounds, beyond which it refuses states."""
    sepsis.write_cohort(tmp_path / "cohort.csv", patients=5, seed=0)
    for episode in sepsis.read_cohort(tmp_path / "cohort.csv").episodes:
        actions = sepsis.action_set(episode)
        check_scm(sepsis.SimulatedSepsis(), episodes=[episode], actions=actions)


def test_the_simulated_therapy(tmp_path: Path) -> None:
    write_sessions(tmp_path / "sessions.csv", patients=20, seed=0)
    mdp = therapy.estimate(therapy.read_sessions(tmp_path / "sessions.csv"))
    check_scm(cp.GumbelMaxSCM(mdp), trials=5)


def kinds_of(model: type) -> set[type]:
    """It, and all that is shipped of its kind."""
    shipped = {one for one in model.__subclasses__() if one.__module__.startswith("counterplan.")}
    return {model}.union(*map(kinds_of, shipped))


def test_every_shipped_causal_model_is_among_them() -> None:
    checked = {type(MODELS[kind](np.random.default_rng(0))) for kind in MODELS}
    homes = {name: home for home in (cp, cp.scm) for name in dir(home) if name.endswith("SCM")}
    public = {getattr(home, name) for name, home in homes.items()}
    assert public - checked == {cp.GumbelMaxSCM, PointSCM}
    assert kinds_of(PointSCM) - checked == {
        PointSCM,
        ElementwiseSCM,
        LearnedSCM,
        sepsis.SimulatedSepsis,
    }


def test_models_of_the_examples() -> None:
    discrete, continuous = example("own_discrete_model"), example("own_continuous_model")
    check_scm(discrete["quantile"], trials=5, seed=1)
    check_scm(
        continuous["scm"], episodes=[continuous["episode"]], actions=continuous["doses"], seed=1
    )


# --- Solvers ----------------------------------------------------------------------------------

SOLVERS: list[Any] = [
    BudgetDP(),
    BudgetAllocation(),
    cp.AStar(),
    cp.AStar(NoBound()),
    cp.AStar(Tightest((FirstOrderBound(), NoBound()))),
    oracle.Exhaustive(),
    cp.baselines.Greedy(),
    cp.baselines.NoisyGreedy(),
    cp.baselines.Random(),
    cp.baselines.TopK(),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda one: str(one)[:40])
def test_solvers(solver: Any) -> None:
    check_solver(solver, seed=11)


def test_anchors() -> None:
    """They need states to bound from, so they are given problems they accept."""
    from counterplan.testing import random_sequence_problems

    solver = cp.AStar(cp.AnchorHeuristic(samples=20))
    problems = [one for one in random_sequence_problems(20, seed=3) if accepts(solver, one)]
    assert len(problems) > 5
    check_solver(solver, problems)


def accepts(solver: cp.AStar, problem: Any) -> bool:
    try:
        solver.solve(problem)
    except cp.errors.NotApplicableError:
        return False
    return True


def test_every_public_solver_is_among_them() -> None:
    homes = {
        **{name: getattr(cp, name) for name in cp.__all__},
        **{name: getattr(counterfactual, name) for name in dir(counterfactual)},
        **vars(cp.baselines),
        **vars(oracle),
    }
    solvers = {
        one
        for name, one in homes.items()
        if inspect.isclass(one) and not name.startswith("_") and one is not Solver
        if all(hasattr(one, method) for method in ("refuses", "solve", "frontier"))
    }
    assert solvers == {type(solver) for solver in SOLVERS}


# --- Planners and problems --------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_planners(name: str) -> None:
    check_planner(PLANNERS[name](simulations=200))


BATTERY = cp.domains.Storage(
    process=cp.processes.BinomialLattice(40, 0, 0.8, dt=1 / 24),
    horizon=4,
    storages=cp.domains.Store("battery", capacity=10, start=5),
    flows=[
        cp.domains.Flow("charge", into="battery", most=2.5, efficiency=0.95, pays="price"),
        cp.domains.Flow("discharge", out_of="battery", most=2.5, efficiency=0.95, earns="price"),
    ],
)


@pytest.mark.parametrize("name", cp.policies.__all__)
def test_policies(name: str) -> None:
    """Greedy where it is sensible: a ship that buys what the next leg needs, while prices rise on
    average, does worse than random."""
    ship = cp.domains.Bunkering(legs=(12.0, 25.0, 30.0))
    others: dict[str, Any] = {"Greedy": cp.domains.HybridVehicle("A"), "Cuts": BATTERY}
    check_planner(getattr(cp.policies, name)(), others.get(name, ship))


def test_every_public_planner_is_among_them() -> None:
    public = {getattr(cp, name) for name in cp.__all__}
    assert {one for one in public if hasattr(one, "begin")} == set(PLANNERS.values())


RECORDED = cp.processes.ResampledTraces.from_modes([[0, 1, 2, 1, 1, 0, 2, 0]])
PROBLEMS: dict[str, Any] = {
    "bunkering": cp.domains.Bunkering(),
    "bunkering, one price": cp.domains.Bunkering(prices="global"),
    "bunkering, parts of units": cp.domains.Bunkering(legs=(0.3, 0.5, 0.25), capacity=0.6),
    "bunkering, discretised": discretised(cp.domains.Bunkering(), 4),
    "vehicle": cp.domains.HybridVehicle("A"),
    "vehicle, small tanks": cp.domains.HybridVehicle("F", capacity=3),
    "vehicle, hidden modes": cp.domains.HybridVehicle("A", hidden=True),
    "vehicle, seven modes": cp.domains.HybridVehicle("C", 7, "half"),
    "vehicle, seven hidden modes": cp.domains.HybridVehicle("C", 7, hidden=True),
    "vehicle, recorded modes": cp.domains.HybridVehicle(process=RECORDED),
    "option": cp.domains.AmericanOption("C"),
    "option, call": cp.domains.AmericanOption("A"),
    "option, lattice": cp.domains.AmericanOption("C", "binomial"),
    "option, exercised at once": cp.domains.AmericanOption("D", "binomial"),
    "basket": cp.domains.OptionBasket("A"),
    "basket, capped": cp.domains.OptionBasket("F", correlation=0.4),
    "storage": BATTERY,
    "own": cp.ExogenousMDP(
        cp.processes.GBM(10.0, 0.1, 0.4, 0.1), [[1.0]], cp.Resource(9.0), [(0.0, 4.0)] * 5
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str) -> None:
    check_model(PROBLEMS[name])


def test_every_public_problem_is_among_them() -> None:
    classes = [getattr(cp.domains, name) for name in cp.domains.__all__]
    named = {one for one in classes if inspect.isclass(one) and hasattr(one, "actions")}
    named |= {cp.ExogenousMDP}
    assert all(any(isinstance(one, kind) for one in PROBLEMS.values()) for kind in named)


def test_the_problem_of_the_examples() -> None:
    own = example("own_planning_problem")["battery"]
    check_model(own, seed=1)
    check_solver(BudgetAllocation(), [executed(own)])


def executed(problem: Any) -> Any:
    """Always the least that is possible, along the most likely prices."""
    from counterplan.core.problem import Problem

    state, path, actions = problem.start, [], []
    for t in range(problem.horizon):
        action = problem.actions(state)[0]
        _, after = problem.step(t, state.exogenous[None], state.resource[None], action[None])
        path.append(state.exogenous)
        actions.append(action)
        values, chances = problem.successors(t, state.exogenous)
        state = State(t + 1, values[int(np.argmax(chances))], after[0])
    return Problem(problem, cp.Episode(np.array(path), np.array(actions)), 2)
