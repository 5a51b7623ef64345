"""Tipping points of improvements, against a process in which they are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import PointSCM


@dataclass(eq=False)
class Walk(PointSCM):
    """x' = x + a + u with noise of standard deviation 2."""

    noise_cholesky: Any = field(default_factory=lambda: np.array([[2.0]]))

    def infer(self, states: Any, actions: Any, after: Any) -> Any:
        return after - states - actions

    def step(self, states: Any, actions: Any, noise: Any) -> Any:
        return states + actions + noise

    def slopes(self, region: Any, actions: Any, noise: Any) -> Any:
        from counterplan.scm.point import IntervalSlopes

        n = len(actions)
        return IntervalSlopes(np.ones((n, 1, 1)), np.zeros((n, 1, 1)))


@dataclass(eq=False)
class Two(Walk):
    members: Any = field(default_factory=lambda: (Walk(), Walk(np.array([[4.0]]))))


EPISODE = cp.Episode(np.array([[0.0], [1.0], [1.5], [0.5]]), [0, 0, 0])
ASKED: dict[str, Any] = {"actions": [[0.0], [3.0]], "reward": cp.LinearReward([1.0])}


def test_by_hand() -> None:
    scm = Walk()
    found = cp.explain(scm, EPISODE, k=1, **ASKED)
    # The first step is changed; its luck, u = 1, counts in three states.
    assert [change.t for change in found.changes] == [0]
    result = cp.sensitivity(scm, EPISODE, found, draws=20_000, seed=1)
    # 9 + 3 (rho - 1) on average, and 9 - 3 gamma 2.
    assert result.at_rho[0] == pytest.approx(9.0 + 3.0 * (result.rho - 1.0), abs=0.15)
    assert result.at_gamma[0] == pytest.approx(9.0 - 6.0 * result.gamma, abs=1e-9)
    assert result.tipping_rho is None
    assert result.tipping_gamma == pytest.approx(1.5)
    assert result.interval == pytest.approx((3.0, 9.0), abs=1e-6)
    assert result.interval_at(1.0) == pytest.approx((3.0, 15.0))
    assert "a hidden cause 1.5 times as strong as the noise would undo it" in str(result)


class Held(Walk):
    """The same, but never above 2."""

    def step(self, states: Any, actions: Any, noise: Any) -> Any:
        return np.minimum(states + actions + noise, 2.0)


def test_a_hidden_cause_counts_where_a_range_holds_the_state() -> None:
    """There a small shift does nothing, in either direction."""
    scm = Held()
    result = cp.sensitivity(scm, EPISODE, cp.replay(scm, EPISODE, {0: 1}, **ASKED), draws=20)
    first = np.minimum(4.0 - 2.0 * result.gamma, 2.0)
    second = np.minimum(first + 0.5, 2.0)
    assert result.at_gamma[0] == pytest.approx(first + second + second - 1.0 - 3.0, abs=1e-9)
    assert result.tipping_gamma is not None
    # What is at the end of its range cannot get better: the range is not symmetric.
    assert result.interval_at(2.0) == pytest.approx((-3.0, 2.0), abs=1e-9)


def test_luck_that_carries_everything_tips() -> None:
    scm, episode = Walk(), cp.Episode(np.array([[0.0], [8.0], [8.0]]), [0, 0])
    found = cp.explain(scm, episode, k=1, actions=[[0.0], [1.0]], reward=ASKED["reward"])
    result = cp.sensitivity(scm, episode, found, draws=20_000)
    # 2 + 2 * 8 (rho - 1) is nothing at rho = 7/8.
    assert result.tipping_rho == pytest.approx(7 / 8, abs=0.01)


def test_members_each_have_their_own() -> None:
    scm = Two()
    found = cp.explain(scm, EPISODE, k=1, **ASKED)
    result = cp.sensitivity(scm, EPISODE, found)
    assert result.at_gamma.shape[0] == 2
    assert result.at_gamma[1] == pytest.approx(9.0 - 12.0 * result.gamma, abs=1e-9)
    assert result.tipping_gamma == pytest.approx(1.0)


def test_nothing_changed_has_nothing_to_lose() -> None:
    scm = Walk()
    found = cp.explain(scm, EPISODE, k=0, **ASKED)
    result = cp.sensitivity(scm, EPISODE, found)
    assert result.tipping_gamma == 0.0
    assert not result.at_rho.any()


def test_mistakes() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    discrete: Any = cp.explain(mdp, cp.Episode([0, 1], [0, 0]), k=1)
    with pytest.raises(InputError, match="value_interval gives the range over all causal models"):
        cp.sensitivity(mdp, cp.Episode([0, 1], [0, 0]), discrete)
    silent = cp.AdditiveNoiseSCM(lambda s, a: s + a, lipschitz=1.0)
    found = cp.explain(silent, EPISODE, k=1, **ASKED)
    with pytest.raises(InputError, match="states no law of its noise"):
        cp.sensitivity(silent, EPISODE, found)
    other = cp.Episode(np.array([[0.0], [1.0], [1.0], [0.5]]), [0, 0, 0])
    with pytest.raises(InputError, match="belongs to another episode"):
        cp.sensitivity(Walk(), other, cp.explain(Walk(), EPISODE, k=1, **ASKED))
