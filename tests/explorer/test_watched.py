"""A solver that is watched finds what one that is not watched finds."""

from __future__ import annotations

import math

import pytest

import counterplan as cp
from counterplan.explorer.whatif import WatchedAStar, WatchedBudgetDP
from counterplan.runs.question import open_explainer

from ..runs.subjects import (
    CONTINUOUS,
    continuous_episodes,
    discrete_episodes,
    small_mdp,
    small_scm,
)
from .long_episodes import long_episodes


class Told:
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.all: list[tuple[int, float, float]] = []

    def __call__(self, nodes: int, value: float, bound: float) -> None:
        self.all.append((nodes, value, bound))


def test_the_answer_is_the_same() -> None:
    scm = small_scm()
    explainer = open_explainer(scm, CONTINUOUS)
    for recorded in continuous_episodes(scm, 8):
        episode = recorded.episode
        asked = {**explainer.problem(episode), "episode": episode, "k": 3}
        plain = cp.explain(**asked)
        told = Told()
        watched = cp.explain(**asked, solver=WatchedAStar(watch=told))
        assert (watched.value, watched.bound, watched.status) == (
            plain.value,
            plain.bound,
            plain.status,
        )
        assert watched.changes == plain.changes
        assert watched.stats["nodes_expanded"] == plain.stats["nodes_expanded"]
        assert [nodes for nodes, _, _ in told.all] == sorted(nodes for nodes, _, _ in told.all)
        for _, value, bound in told.all:
            assert value <= watched.value + 1e-9
            assert bound >= watched.value - 1e-9


def test_a_discrete_answer_is_the_same() -> None:
    mdp = small_mdp()
    for recorded in discrete_episodes(mdp, 8):
        episode, told = recorded.episode, Told()
        plain = cp.explain(mdp, episode, k=2)
        watched = cp.explain(mdp, episode, k=2, solver=WatchedBudgetDP(watch=told))
        assert (watched.value, watched.bound, watched.status) == (
            plain.value,
            plain.bound,
            plain.status,
        )
        assert watched.stats["nodes_expanded"] == plain.stats["nodes_expanded"]
        # Before every step but the last, from behind; each time the answer is no worse.
        assert len(told.all) == len(episode) - 1
        values = [value for _, value, _ in told.all]
        assert values == pytest.approx(sorted(values), rel=1e-12)
        for _, value, bound in told.all:
            assert value <= watched.value + 1e-9
            assert bound >= watched.value - 1e-9


class EnoughError(Exception):
    """Whoever watches has seen enough."""


def enough(nodes: int, value: float, bound: float) -> None:
    assert math.isfinite(value)
    raise EnoughError


def test_whoever_watches_can_end_it() -> None:
    scm, mdp = small_scm(), small_mdp()
    explainer = open_explainer(scm, CONTINUOUS)
    episode = long_episodes(scm)[0].episode
    with pytest.raises(EnoughError):
        cp.explain(
            **explainer.problem(episode), episode=episode, k=8, solver=WatchedAStar(watch=enough)
        )
    lived = max((one.episode for one in discrete_episodes(mdp, 4)), key=len)
    with pytest.raises(EnoughError):
        cp.explain(mdp, lived, k=1, solver=WatchedBudgetDP(watch=enough))


def test_unwatched_by_default() -> None:
    scm = small_scm()
    explainer = open_explainer(scm, CONTINUOUS)
    episode = continuous_episodes(scm, 3)[2].episode
    found = cp.explain(**explainer.problem(episode), episode=episode, k=1, solver=WatchedAStar())
    assert found.status == "optimal"
