"""The record of a search stays short, and keeps what matters."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual.continuous.astar import History
from counterplan.domains.interacting import interacting_episode


@given(st.integers(1, 2_000), st.integers(8, 64), st.integers(0, 2**32))
def test_a_long_search_is_thinned(moments: int, longest: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    expanded = np.cumsum(rng.integers(1, 9, moments))
    jumps = rng.choice(moments, size=min(moments, 3), replace=False)
    values = np.cumsum(np.isin(np.arange(moments), jumps)).astype(float)
    bounds = 10.0 + np.sort(rng.random(moments))[::-1]
    history = History(longest)
    for moment in zip(expanded, values, bounds, strict=True):
        history.add(*moment)
    kept = history.array()
    every = np.column_stack([expanded, values, bounds])
    assert len(kept) <= longest + 2
    np.testing.assert_array_equal(kept[0], every[0])
    np.testing.assert_array_equal(kept[-1], every[-1])
    assert (np.diff(kept[:, 0]) > 0).all()
    assert {tuple(row) for row in kept} <= {tuple(row) for row in every}
    for moment in jumps[jumps > 0]:
        assert every[moment].tolist() in kept.tolist(), "improvements are kept"
    # What is left out lies between what is kept: no gap is much longer than the others.
    places = np.searchsorted(expanded, kept[:, 0])
    assert np.diff(places).max(initial=1) <= 2 * max(1, moments // (longest // 2 - 2))


def test_what_is_known_later_about_the_same_nodes_counts() -> None:
    history = History()
    history.add(0, 1.0, 9.0)
    history.add(3, 2.0, 8.0)
    history.add(3, 2.0, 2.0)
    assert history.array().tolist() == [[0.0, 1.0, 9.0], [3.0, 2.0, 2.0]]
    assert History().array().shape == (0, 3)


def test_a_search_is_recorded_from_its_start_to_its_proof() -> None:
    problem = interacting_episode(seed=0, horizon=10)
    found = cp.explain(
        problem.scm, problem.episode, k=2, actions=problem.actions, reward=problem.reward,
        solver=cp.AStar(batch=1, incumbent=False),
    )  # fmt: skip
    nodes, values, bounds = found.history.T
    assert nodes[0] == 0
    assert values[0] == found.factual_value
    assert nodes[-1] == found.stats["nodes_expanded"]
    assert values[-1] == bounds[-1]
    assert (np.diff(bounds) <= 0.0).all()
    # The value is that of the sequence replayed, in another order of sums.
    assert (bounds >= found.value - 1e-12).all()
