"""Dual dynamic programming: published values, scenario trees as oracles, bounds, and refusals."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.limits import Limits, Progress
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.policies import Policy
from counterplan.planning.stages import Stage

from .published import farm, hydro_valley
from .staged import Staged, random_staged, tree_value

Cuts = cp.policies.Cuts


@pytest.mark.parametrize(
    ("model", "risk", "value", "tolerance"),
    [
        (hydro_valley(inflows=False, prices=False), 1.0, 835.0, 1e-3),
        (hydro_valley(inflows=True, prices=False), 1.0, 838.33, 1e-2),
        (hydro_valley(inflows=False, prices=True), 1.0, 851.8, 1e-2),
        (hydro_valley(inflows=True, prices=True), 1.0, 855.0, 1e-6),
        (hydro_valley(inflows=True, prices=True), (0.5, 0.66), 828.157, 1e-3),
        (hydro_valley(inflows=True, prices=True, sense="min"), (0.5, 1e-9), -780.867, 1e-3),
        (farm(), 1.0, 4074.1391, 1e-5),
    ],
)
def test_published_values(model: Staged, risk: Any, value: float, tolerance: float) -> None:
    """SDDP.jl's, to its own tolerances or closer."""
    found = Cuts(risk=risk, gap=1e-9).solve(model)
    assert found.bound == pytest.approx(value, abs=tolerance)
    assert found.value == pytest.approx(value, abs=tolerance)
    assert found.status == "optimal"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("risk", [1.0, 0.3, (0.5, 0.25)])
def test_converges_to_the_scenario_tree(seed: int, risk: Any) -> None:
    """Storages in a chain, prices that multiply quantities, inflows drawn anew: bounds hold at
    every round, and the gap closes."""
    model = random_staged(seed, ("max", "min")[seed % 2], steps=3)
    weights = (0.0, risk) if isinstance(risk, float) else risk
    exact, sign = tree_value(model, weights), 1.0 if model.sense == "max" else -1.0
    found = Cuts(risk=risk, gap=1e-8, iterations=300).solve(model, seed)
    assert (sign * (found.bounds - exact) >= -1e-7).all()
    assert sign * (found.value - exact) <= 1e-7
    assert found.bound == pytest.approx(exact, rel=1e-5)
    assert found.value == pytest.approx(exact, rel=1e-5)


def test_equal_futures_share_their_cuts() -> None:
    """Six nodes at a time, but three prices: what follows depends on these alone."""
    found = Cuts(iterations=2).solve(random_staged(0))
    assert [len(programs) for programs in found.training.programs] == [1, 3, 3, 1]


def test_a_larger_tree_is_sampled_without_its_luck() -> None:
    """8 million futures: the value's error is a fraction of what futures differ by."""
    model = random_staged(5, steps=10)
    found = Cuts(gap=2e-3, samples=50).solve(model, seed=3)
    played = cp.evaluate(model, found, episodes=60, seed=1)
    assert found.relative_gap <= 2e-3
    assert 0.0 < found.se < 0.1 * played.se * np.sqrt(60 / 50)
    assert abs(played.mean - found.bound) < 4.0 * played.se
    assert "10" not in found.method
    assert found.played == (found.value, found.se)


def must_serve(stored: float = 2.0) -> Staged:
    """A demand of up to 3 in the last step, which only what was bought before can serve."""
    buying = Stage.of([[1.0]], 1, most=2.0, most_level=10.0, price_x=[[1.0]])
    serving = Stage.of(
        [[-1.0]], 1, rows=[[1.0]], rows_x=[[-1.0]], low=[0.0], high=[0.0], hold=[-0.5]
    )
    values = [np.array([[1.0]]), np.array([[0.5], [5.0]]), np.array([[1.0], [3.0]])]
    chances = [np.array([[0.5, 0.5]]), np.full((2, 2), 0.5)]
    return Staged([buying, buying, serving], values, chances, np.array([stored - 2.0]), "min")


def test_levels_that_end_badly_are_avoided() -> None:
    model = must_serve()
    found = Cuts(gap=1e-9).solve(model)
    assert found.value == pytest.approx(tree_value(model), abs=1e-8)
    assert found.bound == pytest.approx(tree_value(model), abs=1e-8)
    played = cp.evaluate(model, found, episodes=20)
    assert (played.actions[:, :2].sum(axis=(1, 2)) >= 3.0 - 1e-9).all()
    slow = replace(model.stages[0], most=np.array([1.0]))
    with pytest.raises(InfeasibleError, match="from the start on"):
        Cuts().solve(replace(model, stages=[slow, slow, model.stages[2]]))


def test_it_is_a_policy_with_limits_and_progress() -> None:
    model, seen = random_staged(2), list[Progress]()
    assert isinstance(Cuts(), Policy)
    assert isinstance(Cuts(iterations=3).solve(model), Policy)

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return progress.done < 4

    found = Cuts(gap=0.0).solve(model, progress=stop)
    assert found.iterations == len(seen) == 4
    assert found.status == "limit"
    assert seen[-1].total == 1000
    assert Cuts(gap=0.0, limits=Limits(nodes=5)).solve(model).iterations == 5
    assert Cuts(gap=0.0, limits=Limits(gap=1e9)).solve(model).iterations == 8
    one, other = (Cuts(iterations=5).solve(model, seed=7) for _ in range(2))
    assert (one.bound, one.value) == (other.bound, other.value)
    rule = Cuts(iterations=5).prepare(model, 7)
    start = model.start
    assert rule(0, start.exogenous[None], start.resource[None]).shape == (1, 8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"gap": -1.0}, "gap must be at least 0"),
        ({"risk": 0.0}, "risk: the share must"),
        ({"nodes": 2.5}, "nodes must be a whole number"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cuts(**given)


def test_wrong_models_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotApplicableError, match="does not say that its steps are linear"):
        Cuts().solve(cp.domains.Bunkering())
    free = Stage.of([[1.0]], 1, price=[1.0])
    with pytest.raises(InputError, match="earns without end"):
        Cuts().solve(Staged([free], [np.zeros((1, 1))], [], np.zeros(1)))
    short = Stage.of([[1.0]], 1, rows=[[1.0]], low=[3.0], most=[1.0])
    with pytest.raises(InfeasibleError, match="at t=0 is not possible from the start"):
        Cuts().solve(Staged([short], [np.zeros((1, 1))], [], np.zeros(1)))
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(NotApplicableError, match=r"cuts need highspy.*'\.\[cuts\]'"):
        Cuts().solve(random_staged(0))
