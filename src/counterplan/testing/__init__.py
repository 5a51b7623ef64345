"""Conformance checks for causal models, solvers, planners and planning problems: the project's own
and yours.

Each raises an AssertionError that says what is wrong, and returns None if nothing is. Here are
those of causal models of tabular MDPs and of solvers, and small random problems for solvers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation, Status
from counterplan.core.shown import module_tells
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.counterfactual.executed.setting import AllocationExplanation, prepare_allocation
from counterplan.counterfactual.explain import Options, explain, frontier
from counterplan.counterfactual.oracle import best_allocation, brute_force, policy_value
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import InputError
from counterplan.planning.model import ExogenousModel, Sense, State
from counterplan.planning.processes import GBM
from counterplan.planning.resource import Resource
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.point import PointSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.testing.continuous import (
    TOLERANCE,
    check_point_scm,
    close,
    follow_sequence,
    random_sequence_problems,
)
from counterplan.testing.planning import check_model, check_planner, played

__all__ = [
    "check_model",
    "check_planner",
    "check_scm",
    "check_solver",
    "random_allocation_problems",
    "random_episode",
    "random_problems",
    "random_sequence_problems",
    "random_transitions",
]


def check_scm(
    scm: DiscreteSCM | PointSCM,
    *,
    episodes: Iterable[Episode] | None = None,
    actions: ArrayLike | None = None,
    trials: int = 50,
    seed: Seed = 0,
) -> None:
    """Check a causal model at random places: of a tabular MDP (see `_check_discrete_scm`) or of
    continuous states (see `check_point_scm`).

    episodes  observed episodes of a continuous model, whose transitions it must reproduce
    actions   the vectors that their action indices stand for
    """
    if not isinstance(scm, PointSCM):
        _check_discrete_scm(scm, trials, seed)
        return
    listed = listed_episodes(episodes) if episodes is not None else []
    if not listed:
        raise InputError("a continuous model is checked on transitions: pass episodes=[...]")
    check_point_scm(scm, listed, actions, trials, seed)


def _check_discrete_scm(scm: DiscreteSCM, trials: int = 50, seed: Seed = 0) -> None:
    """Check a causal model of a tabular MDP at random places.

    * a counterfactual row is a distribution;
    * after the observed pair itself, what happened happens again;
    * averaged over what may have been observed, it gives back the MDP's own row (the law of total
      probability): the model fits its MDP.
    """
    assert isinstance(scm, DiscreteSCM), (
        f"{type(scm).__name__} needs an `mdp` and a `counterfactual_row` method; of continuous "
        "states it is made by cp.scm.from_network(predictor), cp.AdditiveNoiseSCM(function), or as "
        "a subclass of cp.scm.PointSCM with `infer` and `step`"
    )
    rng, mdp = generator(seed), scm.mdp
    for _ in range(trials):
        s_obs, s = (int(i) for i in rng.integers(mdp.n_states, size=2))
        a_obs, a = (int(i) for i in rng.integers(mdp.n_actions, size=2))
        p = mdp.row(s_obs, a_obs)
        average = np.zeros(mdp.n_states)
        for o in np.flatnonzero(p):
            where = f"observed ({s_obs}, {a_obs}) -> {o}, asked for ({s}, {a})"
            row = np.asarray(scm.counterfactual_row(s_obs, a_obs, int(o), s, a))
            _check_distribution(row, mdp.n_states, where)
            average += p[o] * row
            same = np.asarray(scm.counterfactual_row(s_obs, a_obs, int(o), s_obs, a_obs))
            assert abs(same[o] - 1.0) <= TOLERANCE, (
                f"the observed pair ({s_obs}, {a_obs}) led to {o}, but its counterfactual row "
                f"gives that probability {same[o]}"
            )
        worst = float(np.abs(average - mdp.row(s, a)).max())
        assert worst <= TOLERANCE, (
            f"averaged over what ({s_obs}, {a_obs}) may lead to, the counterfactual rows of "
            f"({s}, {a}) miss the MDP's own row by {worst:.3g}"
        )


def _check_distribution(row: FloatArray, n_states: int, where: str) -> None:
    assert row.shape == (n_states,), f"{where}: row has shape {row.shape}, expected ({n_states},)"
    assert (np.isfinite(row) & (row >= 0.0)).all(), f"{where}: not probabilities: {row}"
    assert abs(row.sum() - 1.0) <= TOLERANCE, f"{where}: row sums to {row.sum()}"


def check_solver(
    solver: Solver, problems: Iterable[Problem] | None = None, *, seed: Seed = 0
) -> None:
    """Check a solver, by default on small random problems of the kinds that it accepts:

    * a budget of 0 gives back the observed outcome, and value never falls as k grows;
    * what is called optimal equals brute force;
    * following the answer with the model's own step gives what it states;
    * budget and constraints are respected;
    * a single answer is worth what the frontier says.
    """
    if problems is None:
        offered = [
            *random_problems(8, seed),
            *random_sequence_problems(12, seed),
            *random_allocation_problems(9, seed),
        ]
        problems = [problem for problem in offered if solver.refuses(problem) is None]
        assert problems, f"refused: {solver.refuses(offered[0])}"
    for problem in problems:
        assert solver.refuses(problem) is None, f"refused: {solver.refuses(problem)}"
        _check_answers(solver, problem)


def _check_answers(solver: Solver, problem: Problem) -> None:
    """Check the answers for every budget up to the problem's, and the one for that alone."""
    question: Options = {
        "constraints": problem.constraints,
        "limits": problem.limits,
        "solver": solver,
        "actions": problem.actions,
        "reward": problem.reward,
    }
    found = frontier(problem.scm, problem.episode, problem.k, **question)
    assert close(found[0].value, found[0].factual_value), (
        f"k=0 gives {found[0].value}, but the observed outcome is {found[0].factual_value}"
    )
    sign = 1.0 if found[0].sense == "max" else -1.0
    for k, explanation in enumerate(found):
        check_answer(problem, k, explanation)
        if k > 0 and explanation.status == Status.OPTIMAL:
            assert sign * explanation.value >= sign * found[k - 1].value - TOLERANCE, (
                f"value {'falls' if sign > 0 else 'rises'} from {found[k - 1].value} to "
                f"{explanation.value} at k={k}"
            )
    alone = explain(problem.scm, problem.episode, problem.k, **question)
    check_answer(problem, problem.k, alone)
    if alone.status == found[-1].status == Status.OPTIMAL:
        assert close(alone.value, found[-1].value), (
            f"k={problem.k}: {alone.value} alone, but {found[-1].value} on the frontier"
        )


def check_answer(problem: Problem, k: int, explanation: Explanation) -> None:
    """Check one answer: it keeps to the rules of its problem, following it by the model's own step
    earns what it states, and brute force finds nothing better than what is called optimal."""
    what, follow = "policy", _follow_policy
    if isinstance(problem.scm, PointSCM):
        what, follow = "sequence", follow_sequence
    elif isinstance(problem.scm, ExogenousModel):
        what, follow = "plan", _follow_allocation
    earned, brute = follow(problem, k, explanation)
    value = explanation.value
    assert close(earned, value), f"k={k}: the {what} earns {earned}, not the stated {value}"
    if explanation.status == Status.OPTIMAL:
        best = brute()
        assert close(best, value), (
            f"k={k}: called optimal with {value}, but brute force finds {best}"
        )


def _follow_policy(
    problem: Problem, k: int, explanation: Explanation
) -> tuple[float, Callable[[], float]]:
    """What the policy earns through every history; and what brute force finds."""
    assert isinstance(explanation, PolicyExplanation), "a discrete solver must return a policy"
    _check_realizations(explanation, problem)
    question = problem.scm, problem.episode, k, problem.constraints
    return policy_value(problem.scm, explanation), lambda: brute_force(*question)


def _check_realizations(explanation: PolicyExplanation, problem: Problem) -> None:
    episode, setting = problem.episode, explanation.process.setting
    drawn = explanation.sample(50, seed=0)
    changed = drawn.actions != episode.actions
    rules = setting.constraints
    spent = (rules.costs[drawn.actions] * changed).sum(axis=1)
    assert (spent <= explanation.k).all(), f"a realization spends {spent.max()} > {explanation.k}"
    steps = np.broadcast_to(np.arange(len(episode)), drawn.actions.shape)
    allowed = rules.alternatives[steps, drawn.actions] | ~changed
    assert allowed.all(), "a realization takes an action that is not allowed at its step"
    if setting.mdp.admissible is not None:
        admissible = setting.mdp.admissible[drawn.states, drawn.actions] | ~changed
        assert admissible.all(), "a realization changes to an action that is not admissible"
    if explanation.value > -np.inf:
        taken = rules.forbidden[drawn.states, drawn.actions]
        assert not taken.any(), "a realization takes a forbidden pair"


def _follow_allocation(
    problem: Problem, k: int, explanation: Explanation
) -> tuple[float, Callable[[], float]]:
    """What the decisions of an executed plan come to; and what brute force finds."""
    assert isinstance(explanation, AllocationExplanation), "an executed plan needs amounts"
    setting = prepare_allocation(problem)
    led = setting.replayed(explanation.actions)
    assert np.allclose(led.levels, explanation.levels), f"k={k}: the levels are not those replayed"
    assert np.array_equal(explanation.observed, setting.done.actions), (
        f"k={k}: what it calls observed was not executed"
    )
    moved = explanation.actions - setting.done.actions
    changed = np.flatnonzero(moved.any(axis=1))
    assert changed.tolist() == [change.t for change in explanation.changes], (
        "the changes are not where the decisions differ from the executed ones"
    )
    assert len(changed) <= k, f"{len(changed)} decisions change, but k={k}"
    assert setting.movable[changed].all(), "a fixed step changes"
    assert (np.abs(moved) <= setting.max_move + 1e-9).all(), "an amount moves further than max_move"
    question = problem.scm, setting.path, setting.done.actions, k, problem.constraints
    return led.value, lambda: best_allocation(*question).value


def random_problems(count: int, seed: Seed = 0) -> list[Problem]:
    """Small random problems with zeros, constraints, costs and final rewards."""
    rng = generator(seed)
    problems = []
    for _ in range(count):
        S, A, T = (int(i) for i in rng.integers([2, 2, 1], [4, 4, 5]))
        mdp = TabularMDP(
            random_transitions(rng, S, A),
            rng.normal(size=(S, A)),
            admissible=rng.random((S, A)) < 0.8,
            final_rewards=rng.normal(size=S),
        )
        episode = random_episode(rng, mdp, T)
        seen = set(zip(episode.states.tolist(), episode.actions.tolist(), strict=True))
        pairs = [(s, a) for s in range(S) for a in range(A) if (s, a) not in seen]
        constraints = Constraints(
            allowed=rng.random((T, A)) < 0.8,
            forbidden=[pair for pair in pairs if rng.random() < 0.2],
            change_costs=rng.integers(1, 3, size=A),
        )
        problems.append(Problem(GumbelMaxSCM(mdp), episode, int(rng.integers(0, 4)), constraints))
    return problems


def random_transitions(rng: np.random.Generator, n_states: int, n_actions: int) -> FloatArray:
    """(S, A, S) random rows, about a third of the entries zero."""
    weights = rng.exponential(size=(n_states, n_actions, n_states))
    weights[rng.random(weights.shape) < 0.35] = 0.0
    weights[..., 0] += 1e-3 * (weights.sum(axis=2) == 0.0)
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def random_episode(rng: np.random.Generator, mdp: TabularMDP, horizon: int) -> Episode:
    """An episode of the MDP under uniformly random actions."""
    states = [int(rng.integers(mdp.n_states))]
    actions = rng.integers(mdp.n_actions, size=horizon)
    for action in actions[:-1]:
        states.append(int(rng.choice(mdp.n_states, p=mdp.row(states[-1], int(action)))))
    return Episode(states=states, actions=actions)


def random_allocation_problems(count: int, seed: Seed = 0) -> list[Problem]:
    """Small executed plans: a stock, a tank or two stocks that share a quota, and every third with
    actions in whole units."""
    rng = generator(seed)
    problems = []
    for i in range(count):
        T = int(rng.integers(1, 5))
        model = (
            _Units(T, "max" if rng.random() < 0.5 else "min") if i % 3 == 2 else random_sale(rng, T)
        )

        # Mixtures of what is on offer where amounts are divisible.
        def choose(offered: FloatArray, whole: bool = i % 3 == 2) -> FloatArray:
            is_offered = whole or rng.random() < 0.5
            mixed = [int(rng.integers(len(offered)))] if is_offered else [0, -1]
            return np.asarray(offered[mixed].mean(axis=0))

        done = played(model, rng, choose=choose)
        rules = Constraints(
            fixed_steps=[int(rng.integers(T))] if rng.random() < 0.3 else [],
            max_move=float(rng.integers(1, 4)) if rng.random() < 0.3 else None,
        )
        path, actions = [state.exogenous for state, _ in done], [action for _, action in done]
        episode = Episode(np.array(path), np.array(actions))
        problems.append(Problem(model, episode, int(rng.integers(0, 4)), rules))
    return problems


def random_sale(
    rng: np.random.Generator, T: int, price: float = 1.0, unit: float = 1.0
) -> ExogenousMDP:
    """A stock to sell, a tank to fill or two stocks that share a quota, in units of any size."""
    prices = GBM(rng.uniform(2.0, 8.0, size=2) * price, 0.0, 0.5, dt=1.0, kind="correlated")
    kind = int(rng.integers(3))
    if kind == 2:
        stocks = (Resource(T * unit), Resource(T * unit))
        return ExogenousMDP(prices, np.eye(2), stocks, [(2.0 * unit, 2.0 * unit)] * T)
    if kind == 1:
        tank = Resource(0.0, 6.0 * unit, +1, -unit * rng.integers(1, 4, size=T))
        return ExogenousMDP(prices, [[1.0, 0.0]], tank, [(0.0, 6.0 * unit)] * T, sense="min")
    bounds = np.column_stack([np.zeros(T), rng.integers(1, 4, size=T)]) * unit
    return ExogenousMDP(prices, [[1.0, 0.0]], Resource(float(rng.integers(2, 6)) * unit), bounds)


@dataclass(frozen=True)
class _Units:
    """Up to two of three units are sold (or bought) a day, at a price drawn anew: x = (price,),
    d = (left,), a = (units,), r = x a."""

    horizon: int
    sense: Sense = "max"

    @property
    def start(self) -> State:
        return State(0, np.array([5.0]), np.array([3.0]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return generator.integers(1, 10, size=exogenous.shape).astype(np.float64)

    def actions(self, state: State) -> FloatArray:
        return np.arange(min(2.0, state.resource[0]) + 1.0)[:, None]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return (exogenous * actions)[:, 0], resource - actions


module_tells(globals())
