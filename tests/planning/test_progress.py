"""`progress=` on everything of planning that takes long: it hears how far, and can stop it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.limits import Progress
from counterplan.domains.bunkering import Bunkering
from counterplan.errors import StoppedError
from counterplan.planning.policies import played
from counterplan.planning.regret import benchmark
from counterplan.planning.search.planners import PlanStatus

from .selling import random_selling

SHIP, SALE = Bunkering("A"), random_selling(0)


class Recorder:
    """Remembers the progress it heard of; stops after some calls."""

    def __init__(self, calls: float = float("inf")) -> None:
        self.calls, self.seen = calls, list[Progress]()

    def __call__(self, progress: Progress) -> bool:
        self.seen.append(progress)
        return len(self.seen) < self.calls


def test_a_search_in_parts_is_the_same_search() -> None:
    recorder = Recorder()
    whole = cp.plan(SHIP, planner=cp.UCT(1000), seed=3)
    found = cp.plan(SHIP, planner=cp.UCT(1000), seed=3, progress=recorder)
    assert [one.done for one in recorder.seen] == [256, 512, 768, 1000]
    assert {one.total for one in recorder.seen} == {1000}
    assert found.value == whole.value
    np.testing.assert_array_equal(found.visits, whole.visits)
    assert found.status is PlanStatus.SEARCHED


def test_a_stopped_search_says_so() -> None:
    found = cp.plan(SHIP, planner=cp.UCT(1000), seed=3, progress=Recorder(2))
    assert found.status is PlanStatus.STOPPED
    assert found.stats["simulations"] == found.visits.sum() == 512
    assert "stopped" in found.status.advice
    shorter = cp.plan(SHIP, planner=cp.UCT(512), seed=3)
    np.testing.assert_array_equal(found.visits, shorter.visits)


def test_bounds_from_the_futures_so_far() -> None:
    recorder = Recorder(2)
    whole = cp.value_bounds(SHIP, 2000, seed=1)
    watched = cp.value_bounds(SHIP, 2000, seed=1, progress=Recorder())
    assert watched.lower == pytest.approx(whole.lower, rel=1e-12)
    assert watched.upper_se == pytest.approx(whole.upper_se, rel=1e-9)
    found = cp.value_bounds(SHIP, 2000, seed=1, progress=recorder)
    assert found.samples == recorder.seen[-1].done == 1024
    assert found.lower_se > whole.lower_se


def test_an_evaluation_on_the_futures_that_were_over() -> None:
    T = SALE.horizon
    whole = cp.evaluate(SALE, cp.UCT(5), 5, seed=2)
    found = cp.evaluate(SALE, cp.UCT(5), 5, seed=2, progress=Recorder(2 * T + 1))
    assert found.stopped
    assert not whole.stopped
    assert found.outcomes.tolist() == whole.outcomes[:2].tolist()
    assert found.actions.tolist() == whole.actions[:2].tolist()
    recorder = Recorder()
    assert not cp.evaluate(SALE, cp.UCT(5), 5, seed=2, progress=recorder).stopped
    assert [one.done for one in recorder.seen] == list(range(1, 5 * T + 1))
    with pytest.raises(StoppedError, match="no future is over"):
        cp.evaluate(SALE, cp.UCT(5), 5, seed=2, progress=Recorder(1))


STOPPED: dict[str, Callable[[Any], object]] = {
    "exact_value": lambda progress: cp.exact_value(SALE, progress=progress),
    "fit": lambda progress: cp.policies.LeastSquares(50).fit(SHIP, 0, progress),
    "tight bounds": lambda progress: cp.value_bounds(SHIP, 20, method="tight", progress=progress),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_has_no_answer_before_its_end(name: str) -> None:
    recorder = Recorder(2)
    with pytest.raises(StoppedError, match="stopped"):
        STOPPED[name](recorder)
    assert len(recorder.seen) == 2
    assert recorder.seen[0].done == 1
    watched = Recorder()
    STOPPED[name](watched)
    assert watched.seen[-1].done == watched.seen[-1].total


def test_regret_tells_of_what_it_compares_with() -> None:
    recorder = Recorder()
    fresh = replace(SALE)  # what was listed before is not listed again
    benchmark(fresh, fresh.start, progress=recorder)
    assert {one.what for one in recorder.seen} == {"listing states", "backward pass"}
    path, rule = SHIP.sample_path(0), cp.policies.OpenLoop().prepare(SHIP)
    done = played(SHIP, rule, path, SHIP.start)
    with pytest.raises(StoppedError):
        cp.regret(SHIP, path, done.actions, cp.policies.LeastSquares(50), progress=Recorder(1))
