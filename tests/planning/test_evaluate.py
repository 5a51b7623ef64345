"""Playing honestly, and comparing what came out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import counterplan as cp
from counterplan.core.validation import FloatArray, Seed
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.evaluate import Evaluation, evaluate
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import (
    Rule,
    futures,
)
from counterplan.planning.processes import GBM
from counterplan.planning.resource import Resource
from counterplan.planning.search.planners import BTS, UCT

from .small_models import FAIR, STICKY


class SellFirst:
    """As much as possible as early as possible; asked for all episodes at once."""

    name = "sell first"

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            self.asked.append(exogenous.shape)
            return np.minimum(resource, 2.0)

        return rule


def test_outcomes_by_hand() -> None:
    """2 units at the price of day 0, the third at that of day 1."""
    policy = SellFirst()
    found = evaluate(STICKY, policy, episodes=50, seed=4)
    assert policy.asked == [(50, 1)] * 4
    second = futures(STICKY, 50, np.random.default_rng(4).spawn(2)[0])[:, 1, 0].astype(int)
    assert found.outcomes == pytest.approx(2 * 4.0 + STICKY.prices[second], abs=1e-12)
    assert found.actions[:, :, 0].tolist() == [[2.0, 1.0, 0.0, 0.0]] * 50
    assert found.mean == pytest.approx(found.outcomes.mean())
    assert found.se == pytest.approx(found.outcomes.std(ddof=1) / np.sqrt(50))
    assert found.name == "sell first"


def test_same_seed_same_futures_for_everyone() -> None:
    one = evaluate(STICKY, SellFirst(), 20, seed=3)
    two = evaluate(STICKY, UCT(50), 20, seed=3)
    three = evaluate(STICKY, BTS(500), 20, seed=3)
    assert one.futures == two.futures == three.futures
    assert evaluate(STICKY, SellFirst(), 20, seed=4).futures != one.futures
    again = evaluate(STICKY, UCT(50), 20, seed=3)
    assert np.array_equal(again.outcomes, two.outcomes)


def test_paired_comparison() -> None:
    one, two = evaluate(STICKY, BTS(300), 60, seed=5), evaluate(STICKY, SellFirst(), 60, seed=5)
    found = one.compare(two)
    reference = stats.ttest_rel(one.outcomes, two.outcomes)
    assert found.difference == pytest.approx(one.mean - two.mean, abs=1e-12)
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert found.se == pytest.approx(found.difference / reference.statistic, rel=1e-9)
    assert found.episodes == 60
    swapped = two.compare(one)
    assert swapped.difference == pytest.approx(-found.difference)
    assert one.compare(one)[:3] == (0.0, 0.0, 1.0)


def made(outcomes: FloatArray, name: str = "made") -> Evaluation:
    actions = np.zeros((len(outcomes), 1, 1))
    return Evaluation(
        name=name, sense="max", outcomes=outcomes, actions=actions, seconds=0.0, futures="f"
    )


class Constant:
    """A policy that always does the same, in every episode or (`whole`) for all of them."""

    name = "constant"

    def __init__(self, *action: float, whole: Any = None) -> None:
        self.action, self.whole = np.array(action), whole

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        if self.whole is not None:
            return lambda *_: self.whole
        return lambda t, exogenous, resource: np.tile(self.action, (len(exogenous), 1))


@pytest.mark.parametrize(
    ("model", "action", "words"),
    [
        # Checked by the model's own step, in every episode.
        (
            ExogenousMDP(GBM(20.0, 0.05, 0.4, 1 / 12), [[1.0]], Resource(30), [(0, 10)] * 12),
            [1000.0],
            r"action \[1000.0\] at t=0 with resource \[30.0\]: between 0 and 10 may be spent",
        ),
        (Bunkering(), [1000.0], "buying 1000 at port t=0"),
        (HybridVehicle("A"), [1000.0, 0.0], "must add up to"),
        (AmericanOption("C"), [1000.0], "exercising 1000 of the option at date t=0, when 1"),
        (OptionBasket("A"), [1000.0, 0.0, 0.0], "exercising 1000 of option 1 at date t=0"),
        # A plain model: by the actions it offers.
        (FAIR, [1000.0], r"constant chose \[1000.0\] at t=0 .* Selling offers \[0.0\] to \[2.0\]"),
        (FAIR, [-1.0], r"constant chose \[-1.0\] at t=0"),
        (FAIR, [2.0], r"constant chose \[2.0\] at t=1 with resource \[1.0\], where Selling"),
    ],
)
def test_what_cannot_be_done_earns_nothing(model: Any, action: list[float], words: str) -> None:
    with pytest.raises(InfeasibleError, match=words) as caught:
        evaluate(model, Constant(*action), 5)
    assert "\n" not in str(caught.value)


def test_planners_that_cheat_are_caught_too() -> None:
    class Cheating:
        name = "cheating"

        def begin(self, problem: ExogenousModel, clip: Any = None, seed: Seed = 0) -> Any:
            return lambda state: SimpleNamespace(action=np.array([9.0]))

    with pytest.raises(InfeasibleError, match=r"cheating chose \[9.0\] at t=0"):
        evaluate(FAIR, Cheating(), 2)


def test_amounts_between_the_offered_ones_may_be_played() -> None:
    found = evaluate(FAIR, Constant(0.5), 4)
    assert found.actions.tolist() == [[[0.5]] * 4] * 4


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"constant at t=0 must give .* shape \(3, 1\)"):
        evaluate(FAIR, Constant(whole=np.zeros(3)), 3)
    with pytest.raises(InputError, match="constant at t=0 must give finite"):
        evaluate(FAIR, Constant(np.nan), 3)
    with pytest.raises(InputError, match="episodes must be at least 1"):
        evaluate(FAIR, UCT(10), 0)
    with pytest.raises(InputError, match="int is neither a planner"):
        evaluate(FAIR, 3, 10)  # type: ignore[arg-type]
    one = made(np.zeros(4))
    with pytest.raises(InputError, match="different futures"):
        one.compare(evaluate(FAIR, SellFirst(), 4))
    with pytest.raises(InputError, match="no standard error"):
        made(np.zeros(1)).compare(made(np.zeros(1)))


def test_an_evaluation_says_what_risk_it_was_asked_for() -> None:
    problem = cp.domains.Bunkering("A")
    found = cp.evaluate(problem, cp.policies.OpenLoop(), 50, seed=0, risk=0.2)
    assert "the mean over the worst 20 %" in repr(found)
    assert "worst" not in repr(cp.evaluate(problem, cp.policies.OpenLoop(), 50, seed=0))
