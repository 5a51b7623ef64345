"""The numbers of a comparison, on outcomes made up so that the right answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.planning.evaluate import Evaluation
from counterplan.planning.model import Sense
from experiments.sdmdp_table import (
    EQUAL_TIME,
    HINDSIGHT,
    OPEN_LOOP,
    OPTIMAL,
    PAPER,
    Played,
    Standard,
    gap_closed,
    restored,
    rows,
)

N = 400
RNG = np.random.default_rng(0)
LUCK = 10.0 * RNG.standard_normal(N)
# Losses to the optimum by construction: open loop 8, UCT 4, clipped 2 and 1; hindsight gains 3.
LOSSES = {HINDSIGHT: -3.0, OPTIMAL: 0.0, OPEN_LOOP: 8.0, "UCT": 4.0, "UCT clipped": 2.0}
NOISE = {name: 0.5 * RNG.standard_normal(N) for name in LOSSES} | {OPTIMAL: np.zeros(N)}


def evaluation(name: str, sense: Sense, loss: float) -> Evaluation:
    worse = 1.0 if sense == "min" else -1.0
    return restored(name, sense, 100.0 + LUCK + worse * (loss + NOISE[name]), "same")


def played(name: str, budget: str, sense: Sense, loss: float, simulations: int | None) -> Played:
    """Outcomes with luck; results without it are 1000 higher, so that they cannot be mixed up."""
    steady = None
    if name != HINDSIGHT:
        level = evaluation(name, sense, loss).outcomes - LUCK + 1000.0
        steady = restored(name, sense, level, "same")
    return Played(name, budget, evaluation(name, sense, loss), steady, simulations)


def table(sense: Sense) -> dict[tuple[str, str | None], dict[str, float]]:
    every = [played(name, "", sense, LOSSES[name], None) for name in list(LOSSES)[:3]]
    every += [
        played("UCT", PAPER, sense, 4.0, 1000),
        played("UCT clipped", PAPER, sense, 2.0, 1000),
        played("UCT", EQUAL_TIME, sense, 4.0, 1000),
        played("UCT clipped", EQUAL_TIME, sense, 3.0, 800),
    ]
    return {
        (row["method"], row["budget"]): row for row in rows(every, Standard(99.0, 101.0, 100.0))
    }


@pytest.mark.parametrize("sense", ["min", "max"])
def test_losses_and_gains_count_the_same_way_for_costs_and_rewards(sense: Sense) -> None:
    found = table(sense)
    # 0.5 / sqrt(400) is the error of a mean loss; 5 of them.
    for (name, budget), loss in {
        (HINDSIGHT, None): -3.0,
        (OPEN_LOOP, None): 8.0,
        ("UCT", PAPER): 4.0,
        ("UCT clipped", PAPER): 2.0,
        ("UCT clipped", EQUAL_TIME): 3.0,
    }.items():
        row = found[name, budget]
        assert row["loss"] == pytest.approx(loss, abs=5 * 0.025)
        assert row["loss_se"] == pytest.approx(0.025, rel=0.2)
        assert row["loss_p"] < 1e-6
        worse = 1.0 if sense == "min" else -1.0
        assert row["controlled_mean"] == pytest.approx(100.0 + worse * loss, abs=0.2)
        assert row["controlled_se"] < 0.1 < 0.4 < row["se"]
    assert found["UCT clipped", PAPER]["clip_gain"] == pytest.approx(2.0, abs=0.2)
    assert found["UCT clipped", EQUAL_TIME]["clip_gain"] == pytest.approx(1.0, abs=0.2)
    assert found["UCT", PAPER]["clip_gain"] is None
    assert found[OPEN_LOOP, None]["gap_closed_percent"] == pytest.approx(0.0)
    assert found["UCT", PAPER]["gap_closed_percent"] == pytest.approx(50.0, abs=2.0)
    assert found[OPTIMAL, None]["gap_closed_percent"] == pytest.approx(100.0)
    assert found[HINDSIGHT, None]["gap_closed_percent"] > 100.0
    assert found[OPTIMAL, None]["loss"] == 0.0
    assert found[OPTIMAL, None]["loss_p"] == 1.0


def test_the_share_of_the_gap_has_the_error_of_a_bootstrap() -> None:
    optimal, blind, own = (
        evaluation(name, "min", LOSSES[name]) for name in (OPTIMAL, OPEN_LOOP, "UCT clipped")
    )
    found = gap_closed(own, optimal, blind)
    assert found is not None
    assert found.mean == pytest.approx(1.0 - 2.0 / 8.0, abs=0.02)
    draws = np.random.default_rng(1).integers(N, size=(2000, N))
    loss = (own.outcomes - optimal.outcomes)[draws].mean(axis=1)
    gap = (blind.outcomes - optimal.outcomes)[draws].mean(axis=1)
    # A standard deviation of 2,000 draws is right to 1 / sqrt(4000) = 1.6 %; 6 of them.
    assert found.se == pytest.approx(float(np.std(1.0 - loss / gap)), rel=0.1)


def test_without_a_gap_there_is_no_share() -> None:
    optimal, own = (evaluation(name, "min", LOSSES[name]) for name in (OPTIMAL, "UCT"))
    assert gap_closed(own, optimal, optimal) is None
