"""Rows that are kept: the same as those that are made, and never more than there is room for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplan.counterfactual.discrete.laws import ExactLaw
from counterplan.explorer.items import Memo
from counterplan.explorer.whatif import Block, RememberedLaw
from counterplan.scm.tabular import Rows

from ..runs.subjects import discrete_episodes, small_mdp


def law(memo: Memo | None = None) -> tuple[ExactLaw, RememberedLaw]:
    mdp = small_mdp(S=6)
    episode = next(e.episode for e in discrete_episodes(mdp, 20) if len(e.episode) >= 4)
    exact = ExactLaw(mdp, episode)
    return exact, RememberedLaw(exact, episode.id, memo or Memo())


def same(one: Rows, other: Rows) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@given(st.lists(st.sets(st.integers(0, 17), min_size=1), min_size=1, max_size=6))
def test_rows_are_the_same_whatever_was_asked_before(asked: list[set[int]]) -> None:
    exact, remembered = law()
    for ids in asked:
        wanted = np.array(sorted(ids), dtype=np.int32)
        for t in (0, 2):
            assert same(remembered.rows_at(t, wanted), exact.rows_at(t, wanted))


def test_expectations_are_the_same_to_the_last_bit() -> None:
    exact, remembered = law()
    rng = np.random.default_rng(0)
    for _ in range(3):
        values = rng.normal(size=(6, 2))
        values[0, 0] = -np.inf
        wanted = np.array([0, 3, 17], dtype=np.int32)
        for _ in range(2):
            found = remembered.expect(1, wanted, values)
            assert np.array_equal(found[wanted], exact.expect(1, wanted, values)[wanted])


def test_a_later_start_counts_from_there() -> None:
    exact, remembered = law()
    later = RememberedLaw(exact, remembered.episode, remembered.memo, first=2)
    wanted = np.array([1, 5], dtype=np.int32)
    assert same(later.rows_at(0, wanted), exact.rows_at(2, wanted))
    assert same(remembered.rows_at(2, wanted), exact.rows_at(2, wanted))


def test_there_is_never_more_than_room() -> None:
    memo = Memo(room=3_000)
    _, remembered = law(memo)
    for t in (0, 1, 2, 0, 1):
        for start in range(17):
            remembered.rows_at(t, np.array([start, 17], dtype=np.int32))
            assert memo.used <= 3_000
    memo.keep("large", Block(np.arange(1_000, dtype=np.int32), _rows(1_000)))
    assert memo.find("large") == []


def _rows(count: int) -> Rows:
    ones = np.ones(count)
    return Rows(np.arange(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int32), ones)


def test_values_of_another_episode_are_not_mixed_up() -> None:
    mdp, memo = small_mdp(S=6), Memo()
    long = [e.episode for e in discrete_episodes(mdp, 30) if len(e.episode) >= 4]
    wanted = np.arange(6, dtype=np.int32)
    for episode in (*long, *long):
        exact = ExactLaw(mdp, episode)
        assert same(
            RememberedLaw(exact, episode.id, memo).rows_at(1, wanted), exact.rows_at(1, wanted)
        )
