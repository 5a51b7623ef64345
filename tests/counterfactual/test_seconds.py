"""A limit in seconds is kept in long episodes. Time passes here where work is done, a second for
each piece of it, so that nothing depends on the machine."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual.continuous import anchors, astar, last_change, setting
from counterplan.counterfactual.continuous.member import Member

from .sequence_support import random_question

Time = Callable[[Any, str], None]


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], Time]:
    """The seconds that have passed, and what makes a call of a function take one."""
    now = [0.0]
    for module in (anchors, astar, last_change, setting):
        monkeypatch.setattr(module, "clock", lambda: now[0])

    def takes(place: Any, name: str) -> None:
        real = getattr(place, name)

        def slow(*given: Any) -> Any:
            now[0] += 1.0
            return real(*given)

        monkeypatch.setattr(place, name, slow)

    return now, takes


def prepared(**size: int) -> setting.SequenceSetting:
    return setting.prepare_sequence(random_question("linear", 7, **size))


def test_greedy_asks_of_few_whether_they_are_inside(
    time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of 1,200 changes stays inside the data."""
    (now, takes), asked = time, prepared(horizon=401, n_actions=4, k=2)
    outside = lambda self, sequences: np.zeros(len(sequences), bool)  # noqa: E731
    monkeypatch.setattr(setting.SequenceSetting, "is_inside", outside)
    takes(setting.SequenceSetting, "is_inside")
    tracemalloc.start()
    assert (setting.greedy_sequence(asked, deadline=3.0) == asked.observed).all()
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    assert now[0] <= 4.0


def test_a_search_that_cannot_ask_promises_what_it_left_out(
    time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences that may be inside the data are not forgotten at the deadline."""
    (now, _), question = time, random_question("linear", 2, horizon=5, n_actions=3, k=3)
    whole, asked = setting.prepare_sequence(question), set[bytes]()

    def outside(self: Any, sequences: Any) -> Any:
        now[0] += 1.0
        asked.update(one.tobytes() for one in sequences)
        return np.zeros(len(sequences), bool)

    every = np.array([*product(range(3), repeat=4)])
    every = every[(every != whole.observed).sum(axis=1) <= 3]
    values = whole.outcomes(every)
    monkeypatch.setattr(setting.SequenceSetting, "is_inside", outside)
    monkeypatch.setattr(astar.Watch, "deadline", property(lambda self: 0.0))
    found = cp.AStar(astar.NoBound(), incumbent=False).solve(question)
    left = [value for one, value in zip(every, values, strict=True) if one.tobytes() not in asked]
    assert found.status == "limit"
    assert 0 < len(asked) < len(every) / 2
    assert found.bound >= max(left) - 1e-9 > found.value


def test_bounds_of_last_changes_see_the_deadline(
    time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step; what was not bounded by then stays open."""
    (now, takes), question = time, random_question("smooth", 3, horizon=30, n_actions=4, k=2)
    weights = np.arange(float(question.episode.states.shape[1]))
    question = replace(question, reward=cp.LinearReward(weights))
    monkeypatch.setattr(astar, "FEW_SEQUENCES", 0)
    takes(last_change.LastChange, "upper")
    monkeypatch.setattr(astar.Watch, "deadline", property(lambda self: 5.0))
    monkeypatch.setattr(astar.Watch, "must_stop", lambda self, *given: now[0] > 5.0)
    found = cp.AStar().solve(question)
    assert found.method.startswith("second-order bound of the last change")
    assert found.status == "limit"
    assert now[0] <= 6.0


@pytest.mark.parametrize("strategy", anchors.STRATEGIES)
def test_anchors_are_those_that_there_is_time_for(time: Any, strategy: str) -> None:
    (now, takes), asked = time, prepared(horizon=6, n_actions=3, k=2)
    takes(Member, "trajectories")
    takes(anchors, "lowest_cones")
    heuristic = cp.AnchorHeuristic(strategy, samples=1000, size=10**6)
    bound = heuristic.prepare(asked, deadline=2.0)
    assert now[0] <= 3.0
    states, used = asked.states[:1], np.zeros(1, np.int64)
    assert bound.upper(0, used, states)[0] == math.inf
    assert now[0] <= 3.0
    some = cp.AnchorHeuristic("mc-uniform", samples=50).prepare(asked, deadline=100.0)
    assert some.upper(0, used, states)[0] < math.inf


def test_states_are_told_apart_by_the_actions_before_them() -> None:
    asked = prepared(horizon=7, n_actions=3, k=3)
    drawn = anchors.random_alternatives(asked, np.ones(6), 200, np.random.default_rng(0))
    paths = asked.members[0].trajectories(drawn)
    expected = [*asked.members[0].states]
    for t in range(1, 7):
        every = {tuple(row[:t]): path[t] for row, path in zip(drawn, paths, strict=True)}
        every.pop(tuple(asked.observed[:t]), None)
        expected += [every[actions] for actions in sorted(every)]
    assert anchors.distinct_states(asked, drawn) == pytest.approx(np.array(expected), rel=1e-12)
