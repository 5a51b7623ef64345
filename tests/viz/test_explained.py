"""Figures take the same numbers from an explanation and from the rows of a run."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.viz import labels_of
from counterplan.viz.explained import trajectory_of

from .results import (
    drugs,
    layout,
    mortal,
    policy,
    policy_rows,
    problem,
    sequence,
    sequence_rows,
)

LEVELS = np.array([0.0, 1.0, 2.0, 4.0])


def test_a_sequence() -> None:
    found = trajectory_of(sequence(), drugs(), feature="burden", what="figure")
    assert set(np.flatnonzero(found.changed)) == {change.t for change in sequence().changes}
    np.testing.assert_array_equal(found.observed, problem().episode.states[:, 0])
    np.testing.assert_array_equal(found.counterfactual, sequence().states[:, 0])
    vectors = problem().actions
    assert [move[:4] for move in found.moves] == [
        (t, drug, vectors[old, place], vectors[new, place])
        for t, old, new in sequence().changes
        for place, drug in enumerate(("preparing", "main", "relief"))
        if vectors[old, place] != vectors[new, place]
    ]
    for one in found.moves:
        assert one.direction == np.sign(one.after - one.before)


def test_a_policy() -> None:
    found = trajectory_of(policy(), layout())
    np.testing.assert_allclose(found.changed, policy().change_probabilities().sum(axis=1))
    np.testing.assert_array_equal(found.observed, LEVELS[policy().episode.states])
    np.testing.assert_array_equal(found.counterfactual, LEVELS[policy().most_likely.states])
    np.testing.assert_array_equal(found.sampled, LEVELS[policy().sample(1_000, seed=0).states])
    assert all(move.what == "dose (mg)" for move in found.moves)


@pytest.mark.parametrize("kind", ["policy", "sequence"])
def test_rows_of_a_run_give_the_same(kind: str) -> None:
    frame, found, labels = {
        "policy": (policy_rows(), policy(), labels_of(layout())),
        "sequence": (sequence_rows(), sequence(), drugs()),
    }[kind]
    direct = trajectory_of(found, labels, feature=0, what="figure")
    for table in (frame.reverse(), frame.lazy(), frame.to_dicts()):
        rows = trajectory_of(table, labels, feature=0, what="figure")
        np.testing.assert_array_equal(rows.changed, direct.changed)
        np.testing.assert_array_equal(rows.observed, direct.observed)
        np.testing.assert_array_equal(rows.counterfactual, direct.counterfactual)
        assert rows.moves == direct.moves
        np.testing.assert_array_equal(rows.times, frame["time"])
    both = pl.concat([frame, frame.with_columns(k=pl.lit(1, pl.Int64))])
    with pytest.raises(InputError, match="2 pairs of episode and k; choose one"):
        trajectory_of(both, labels, what="figure")
    with pytest.raises(InputError, match="figure: the table has no column 'state"):
        trajectory_of(frame.select(pl.exclude("^state.*$")), labels, what="figure")


def test_an_episode_that_is_over_says_how() -> None:
    both = (policy().episode.states, policy().most_likely.states)
    found = trajectory_of(policy(), mortal(), what="figure")
    assert any(3 in states for states in both)
    for values, ending, states in zip(
        (found.observed, found.counterfactual), found.endings, both, strict=True
    ):
        over = np.argmax(np.append(states, 3) == 3)
        assert ending == ("died" if 3 in states else "")
        assert np.isnan(values[over:]).all()
        assert np.isfinite(values[:over]).all()


def test_bad_questions() -> None:
    with pytest.raises(InputError, match="no feature 'x': there are burden, preparation"):
        trajectory_of(sequence(), drugs(), feature="x", what="figure")
    with pytest.raises(InputError, match="figure: cannot draw a float"):
        trajectory_of(1.0, drugs(), what="figure")
