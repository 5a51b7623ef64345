"""Every planner against brute force, on problems small enough to enumerate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.planning.model import State
from counterplan.planning.search.planners import BTS, DENTS, MENTS, UCT, TreePlanner, plan
from tests.planning.expectimax import expectimax

from .selling import Selling, random_selling
from .small_models import BUYING, CERTAIN, FAIR, STICKY, Bounded, continuous

MODELS = pytest.mark.parametrize(
    "model", [FAIR, STICKY, BUYING, CERTAIN], ids=["fair", "sticky", "buying", "certain"]
)


@MODELS
@pytest.mark.parametrize("planner", [BTS(20_000, bellman=True), DENTS(20_000, bellman=True)])
def test_highest_value_backups_are_exact_with_probabilities(
    model: Selling, planner: TreePlanner
) -> None:
    """Once every state has been met, each backup is a step of dynamic programming."""
    exact, found = expectimax(model), plan(model, planner=planner)
    assert found.value == pytest.approx(exact.value, abs=1e-9)
    assert exact.values[found.index] == pytest.approx(exact.value, abs=1e-9)


@MODELS
@pytest.mark.parametrize("planner", [BTS(50_000), DENTS(50_000)])
def test_highest_value_backups_converge(model: Selling, planner: TreePlanner) -> None:
    """Successors are met in proportion to their probabilities but for O(log n / n), which is about
    0.001 of the range of returns (below 30) at the 10,000 or more visits of each good action."""
    exact, found = expectimax(model), plan(model, planner=planner)
    assert found.value == pytest.approx(exact.value, abs=0.03)
    assert exact.values[found.index] == pytest.approx(exact.value, abs=1e-9)


@MODELS
def test_uct_converges(model: Selling) -> None:
    """The mean still counts every exploration: for each of at most 3 actions at each of at most 3
    steps about c^2 R^2 log N / gap^2 of N simulations lose a gap; with c = 0.7, R below 30 and
    gaps of 0.5 and more that is less than 2 % of the value at 300,000."""
    exact = expectimax(model)
    early, late = (plan(model, planner=UCT(n)) for n in (3_000, 300_000))
    means = [found.values[found.index] for found in (early, late)]
    assert means[1] == pytest.approx(exact.value, rel=0.02)
    assert abs(means[1] - exact.value) < abs(means[0] - exact.value)
    # Following the most visited actions, nothing is lost by exploring.
    assert late.value == pytest.approx(exact.value, abs=1e-3)
    assert exact.values[late.index] == pytest.approx(exact.value, abs=1e-9)


@MODELS
def test_ments_converges_to_its_soft_value(model: Selling) -> None:
    """What is left is the exploration of rare states, which never quite ends."""
    planner = MENTS(50_000, temperature=1.0, epsilon=0.3, scale=1.0, bellman=True)
    soft = expectimax(model, temperature=1.0)
    # By visits instead, as for highest values: O(log n / n) of the range.
    by_visits = replace(planner, simulations=100_000, bellman=False)
    assert plan(model, planner=by_visits).value == pytest.approx(soft.value, abs=0.03)
    found = plan(model, planner=planner)
    assert found.value == pytest.approx(soft.value, abs=1e-4)
    assert found.values == pytest.approx(soft.values, abs=1e-4)
    # Soft values exceed V* (costs fall short of it): entropy counts as reward.
    sign = -1.0 if model.sense == "min" else 1.0
    assert sign * (found.value - expectimax(model).value) > 0.1


def test_soft_value_by_hand() -> None:
    """One step, three actions worth 0, 2 and 4."""
    model = Selling(np.array([2.0]), np.ones((1, 1)), horizon=1, stock=2, least=0)
    soft = 0.5 * np.log(1.0 + np.exp(4.0) + np.exp(8.0))
    assert expectimax(model, temperature=0.5).value == pytest.approx(soft, abs=1e-12)
    found = plan(model, planner=MENTS(100, temperature=0.5, scale=1.0))
    assert found.value == pytest.approx(soft, abs=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from(["max", "min"]))
def test_random_problems(seed: int, sense: str) -> None:
    """The choice may be any action within 1 % of the best: near ties take long to tell apart."""
    model = random_selling(seed, "max" if sense == "max" else "min")
    exact = expectimax(model)
    for planner in (BTS(20_000, bellman=True), DENTS(20_000)):
        found = plan(model, planner=planner, seed=seed)
        assert exact.values[found.index] == pytest.approx(exact.value, rel=0.01)
    soft = expectimax(model, temperature=1.0).value
    planner = MENTS(20_000, temperature=1.0, epsilon=0.3, scale=1.0, bellman=True)
    assert plan(model, planner=planner, seed=seed).value == pytest.approx(soft, rel=0.02)


def test_from_any_state() -> None:
    state = State(2, np.array([1.0]), np.array([2.0]))
    exact, found = expectimax(STICKY, state), plan(STICKY, state, BTS(5_000, bellman=True))
    assert found.value == pytest.approx(exact.value, abs=1e-9)
    assert found.values == pytest.approx(exact.values, abs=1e-9)


@MODELS
@pytest.mark.parametrize("leaf", ["rollout", "bounds", "clipped"])
def test_bounds_give_values_at_once(model: Selling, leaf: str) -> None:
    """As many simulations as actions: each is tried once, its successors are valued by bounds.
    Bounds 0.5 below and 0.25 above leave values that far apart."""
    exact = expectimax(model)
    planner = UCT(len(exact.values), leaf=leaf, bellman=True)
    found = plan(Bounded(model), planner=planner, clip=True)
    assert found.values == pytest.approx(exact.values, abs=1e-9)
    assert found.value == pytest.approx(exact.value, abs=1e-9)
    assert found.bounds is not None
    assert found.bounds.low == pytest.approx(exact.value, abs=1e-9)
    loose = plan(Bounded(model, below=0.5, above=0.25), planner=planner, clip=True)
    assert np.all(loose.values >= exact.values - 0.5 - 1e-9)
    assert np.all(loose.values <= exact.values + 0.25 + 1e-9)


def test_progressive_widening_converges() -> None:
    """Two steps, 3 successors drawn as if support were continuous: 1,000 k independent draws after
    100,000^(1/2) k passes estimate a mean whose standard deviation is 3: 4 errors are 0.3 for
    k = 4."""
    model = Selling(STICKY.prices, STICKY.matrix, horizon=2, stock=2)
    exact = expectimax(model)
    for planner in (BTS(100_000, widening=(4.0, 0.5)), UCT(100_000, widening=(4.0, 0.5))):
        found = plan(continuous(model), planner=planner)
        assert found.value == pytest.approx(exact.value, abs=0.3)
        assert exact.values[found.index] == pytest.approx(exact.value, abs=1e-9)
