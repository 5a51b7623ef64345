"""No bound is ever below what can really be earned, on any node that a search asks about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import FirstOrderBound, LipschitzReward, Tightest, oracle
from counterplan.counterfactual.continuous import first_order
from counterplan.counterfactual.continuous.first_order import FirstOrder, covering_cone
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.testing.continuous import MODELS

from .sequence_support import Stated, TrueValues, explain, random_question

BOUNDS: dict[str, Any] = {
    "first-order": FirstOrderBound(),
    "mc-lipschitz": cp.AnchorHeuristic("mc-lipschitz", samples=10),
    "mc-uniform": cp.AnchorHeuristic("mc-uniform", samples=10),
    "facility-location": cp.AnchorHeuristic("facility-location", samples=12),
    "tightest": Tightest((FirstOrderBound(), cp.AnchorHeuristic(samples=10))),
}


@pytest.fixture(params=[1, 100], ids=["gains", "cones"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From how many steps on gains are bounded too."""
    monkeypatch.setattr(first_order, "MANY_STEPS", request.param)
    return int(request.param)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("size", [(6, 3, 3), (8, 3, 2), (5, 4, 4), (7, 3, 3)])
def test_admissible_and_exact(kind: str, bound: str, size: tuple[int, int, int]) -> None:
    """On every node there is; and a search that it guides finds the best of all sequences."""
    horizon, n_actions, k = size
    problem = random_question(kind, 50 + horizon, horizon=horizon, n_actions=n_actions, k=k)
    setting = prepare_sequence(problem)
    truth = TrueValues(setting)
    truth.check(BOUNDS[bound].prepare(setting))
    found = explain(problem, solver=cp.AStar(BOUNDS[bound], batch=2, incumbent=False))
    assert found.value == pytest.approx(truth.best, rel=1e-9, abs=1e-9)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", MODELS)
def test_a_smaller_budget_reuses_a_bound_that_still_holds(kind: str) -> None:
    problem = random_question(kind, 21, horizon=6, n_actions=3, k=4)
    check_smaller_budgets(problem, range(4))


def check_smaller_budgets(problem: Problem, budgets: Iterable[int]) -> None:
    large = [one.prepare(prepare_sequence(problem)) for one in BOUNDS.values()]
    for k in budgets:
        small = prepare_sequence(replace(problem, k=k))
        truth = TrueValues(small)
        for bound in large:
            truth.check(bound.restricted(small))


def costly_question(kind: str, seed: int) -> Problem:
    """Costs whose sums are too many to be told apart one by one."""
    problem = random_question(kind, 90 + seed, horizon=6, n_actions=4, k=1)
    costs = np.random.default_rng(seed).integers(1, 1000, size=4)
    rules = cp.Constraints(change_costs=costs)
    return replace(problem, k=int(2.2 * costs.sum()), constraints=rules)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_merged_amounts_of_the_budget_keep_bounds_and_regions_valid(kind: str, seed: int) -> None:
    problem = costly_question(kind, seed)
    setting = prepare_sequence(problem)
    assert (setting.levels.last > setting.levels.first).any()
    check_smaller_budgets(problem, (problem.k, problem.k // 2, problem.k // 7))
    assert list(TrueValues(setting).check_regions(FirstOrder(setting).reaches[0].regions))


@pytest.mark.parametrize("kind", MODELS)
def test_merged_amounts_of_the_budget_keep_the_optimum(kind: str) -> None:
    for seed in range(2):
        problem = costly_question(kind, seed)
        best = explain(problem, solver=oracle.Exhaustive()).value
        for heuristic in BOUNDS.values():
            found = explain(problem, solver=cp.AStar(heuristic))
            assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9)
            assert (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.usefixtures("many")
def test_restricting_gives_what_a_bound_of_its_own_gives() -> None:
    problem = random_question("neural", 5, horizon=6, n_actions=3, k=4)
    large = FirstOrder(prepare_sequence(problem))
    for k in range(4):
        small = prepare_sequence(replace(problem, k=k))
        own = FirstOrder(small).upper(0, np.zeros(1, dtype=np.int64), small.states[:1])
        reused = large.restricted(small).upper(0, np.zeros(1, dtype=np.int64), small.states[:1])
        # Regions of larger budgets decide together how much is computed.
        assert reused == pytest.approx(own, rel=0.05)


@pytest.mark.usefixtures("many")
def test_the_first_order_bound_is_exact_where_everything_is_linear() -> None:
    """Nothing is lost: the promise of the first node is the optimum itself."""
    for seed in range(40):
        problem = random_question("linear", seed, horizon=6, n_actions=3, k=3)
        if not isinstance(problem.reward, cp.LinearReward):
            continue
        setting = prepare_sequence(problem)
        root = FirstOrder(setting).upper(0, np.zeros(1, dtype=np.int64), setting.states[:1])
        assert root[0] == pytest.approx(TrueValues(setting).best, abs=1e-8)


def test_more_is_known_with_slopes_than_with_constants() -> None:
    """The same dynamics with and without slopes: fewer nodes with them."""
    with_slopes = without = 0.0
    for seed in range(6):
        problem = random_question("neural", seed, horizon=7, n_actions=3, k=3)
        scm = problem.scm
        plain = cp.LocationScaleSCM(
            scm.location,
            lambda s, a, scm=scm: np.logaddexp(0.0, scm.scale(s, a)),
            lipschitz=(scm.location.lipschitz, scm.scale.lipschitz),
            fixed=scm.fixed,
        )
        first = explain(problem)
        second = explain(replace(problem, scm=plain))
        assert first.value == pytest.approx(second.value, abs=1e-9)
        with_slopes += first.stats["nodes_expanded"]
        without += second.stats["nodes_expanded"]
    assert with_slopes < without


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("carry", [0.5, 1.0, 1.7])
def test_nothing_is_given_away_where_constants_are_attained(carry: float) -> None:
    """One feature, s' = carry s + a + u, rewards that rise towards a far target: every Lipschitz
    constant is attained, and the bounds are the value itself."""
    scm = cp.AdditiveNoiseSCM(lambda s, a: carry * s + a, lipschitz=carry)
    rng = np.random.default_rng(0)
    episode = cp.Episode(rng.normal(size=(7, 1)), np.zeros(6, dtype=int))
    reward = LipschitzReward(lambda s: -np.abs(s[:, 0] - 1e4), 1.0)
    problem = Problem(scm, episode, 3, actions=[[0.0], [0.3], [1.0]], reward=reward)
    setting = prepare_sequence(problem)
    for heuristic in (FirstOrderBound(), cp.AnchorHeuristic(samples=500)):
        excess = TrueValues(setting).excess(heuristic.prepare(setting))
        assert -1e-13 <= excess.min() <= excess.max() <= 1e-6
        found = explain(problem, solver=cp.AStar(heuristic, batch=1, incumbent=False))
        assert found.stats["nodes_expanded"] <= 6


def test_regions_are_attained_where_constants_are() -> None:
    """One feature that grows by its constant, and always away from what was observed."""
    scm = cp.AdditiveNoiseSCM(lambda s, a: 1.5 * s + a, lipschitz=1.5)
    episode = cp.Episode(np.zeros((6, 1)), np.zeros(5, dtype=int))
    problem = Problem(scm, episode, 2, actions=[[0.0], [1.0]], reward=cp.LinearReward([1.0]))
    setting = prepare_sequence(problem)
    for _, _, region, away in TrueValues(setting).check_regions(
        FirstOrder(setting).reaches[0].regions
    ):
        farthest = float(away.max())
        assert max(region.radius, region.box[0]) <= farthest * (1.0 + 1e-9) + 1e-9


@pytest.mark.parametrize("kind", MODELS)
def test_regions_hold_every_state(kind: str) -> None:
    """Balls and boxes around the observed states, by budget spent."""
    touched = 0.0
    for seed in range(3):
        problem = random_question(kind, 70 + seed, horizon=6, n_actions=3, k=3)
        setting = prepare_sequence(problem)
        held = TrueValues(setting).check_regions(FirstOrder(setting).reaches[0].regions)
        for t, spent, region, away in held:
            if t == 1 and spent > 0:
                touched = max(touched, float((away[:, 1:] / region.box[1:]).max()))
    assert touched >= 1.0 - 1e-9, "the first change reaches the edge of its box"


@pytest.mark.parametrize("radius", [0.0, 1e-9, 0.3, 5.0])
def test_cones_lie_above_their_pieces_and_touch_them(radius: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(1, 5))
        pieces = rng.normal(size=n), rng.normal(size=(n, 3)), np.abs(rng.normal(size=n))
        constant, slope, steepness = pieces
        peak, centre, rho = covering_cone(*pieces, radius)
        assert peak == constant.max()
        # Where a piece rises most above the cone's own slope, at the edge of the region.
        steepest = slope - centre
        steepest /= np.maximum(np.linalg.norm(steepest, axis=1, keepdims=True), 1e-300)
        drawn = rng.normal(size=(20, 3))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        for share in (0.01, 0.5, 1.0):
            points = share * radius * np.concatenate([steepest, drawn])
            size = np.linalg.norm(points, axis=1)
            heights = constant + points @ slope.T + size[:, None] * steepness
            cone = peak + points @ centre + rho * size
            assert (cone[:, None] >= heights - 1e-12).all()
        if rho > 0.0 and radius > 1e-6:
            # The region's edge is where the cone touches: it is no larger than it must be.
            edge = radius * steepest
            gap = peak + edge @ centre + rho * radius - (constant + (edge * slope).sum(axis=1))
            assert (gap - radius * steepness).min() <= 1e-9


def test_the_check_can_fail() -> None:
    setting = prepare_sequence(random_question("linear", 1, horizon=5, n_actions=3, k=2))
    bound = FirstOrder(setting)
    low = Stated(lambda _, *node: bound.upper(*node) - 1.0)
    with pytest.raises(AssertionError):
        TrueValues(setting).check(low)


def test_over_many_steps_gains_promise_less_than_cones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that forgets slowly and bends a little."""
    rng = np.random.default_rng(0)
    state, flat = 0.2 * rng.normal(size=(8, 2)), np.zeros((2, 8))
    network = {
        "state": state, "bias": 0.3 * rng.normal(size=8), "action": 0.2 * rng.normal(size=(8, 1)),
        "output": 0.95 * np.linalg.pinv(state), "output_bias": np.zeros(2),
    }  # fmt: skip
    scm = cp.NeuralSCM.from_weights(network, {**network, "output": flat}, np.eye(2))
    doses, states, taken = np.arange(4.0)[:, None] / 4, [np.zeros(2)], rng.integers(0, 4, 99)
    for one in taken:
        noise = 0.1 * rng.normal(size=(1, 2))
        states.append(scm.step(states[-1][None], doses[[one]], noise)[0])
    episode, reward = cp.Episode(np.array(states), taken), cp.LinearReward([1.0, 0.5])
    setting = prepare_sequence(Problem(scm, episode, 5, actions=doses, reward=reward))
    observed, promised = float(setting.outcomes(setting.observed[None])[0]), []
    for steps in (1, 1000):
        monkeypatch.setattr(first_order, "MANY_STEPS", steps)
        root = FirstOrder(setting).upper(0, np.zeros(1, dtype=np.int64), setting.states[:1])
        promised.append(root[0] - observed)
    assert 0.0 < promised[0] < 0.5 * promised[1]
