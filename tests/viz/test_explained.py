"""Figures take the same numbers from an explanation and from the rows of a run."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.viz import labels_of
from counterplan.viz.explained import explained_episode

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
    found = explained_episode(sequence(), drugs(), "burden", "figure", 0)
    assert set(np.flatnonzero(found.changed)) == {change.t for change in sequence().changes}
    observed, counterfactual = found.courses
    np.testing.assert_array_equal(observed.values, problem().episode.states[:, 0])
    np.testing.assert_array_equal(counterfactual.values, sequence().states[:, 0])
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
    found = explained_episode(policy(), labels_of(layout()), None, "figure", 0)
    np.testing.assert_allclose(found.changed, policy().change_probabilities().sum(axis=1))
    observed, likeliest = found.courses
    np.testing.assert_array_equal(observed.values, LEVELS[policy().episode.states])
    np.testing.assert_array_equal(likeliest.values, LEVELS[policy().most_likely.states])
    np.testing.assert_array_equal(found.sampled, LEVELS[policy().sample(1_000, seed=0).states])
    assert all(move.what == "dose (mg)" for move in found.moves)


@pytest.mark.parametrize("kind", ["policy", "sequence"])
def test_rows_of_a_run_give_the_same(kind: str) -> None:
    frame, found, labels = {
        "policy": (policy_rows(), policy(), labels_of(layout())),
        "sequence": (sequence_rows(), sequence(), drugs()),
    }[kind]
    direct = explained_episode(found, labels, 0, "figure", 0)
    for table in (frame.reverse(), frame.lazy(), frame.to_dicts()):
        rows = explained_episode(table, labels, 0, "figure", 0)
        np.testing.assert_array_equal(rows.changed, direct.changed)
        for one, same in zip(rows.courses, direct.courses, strict=True):
            np.testing.assert_array_equal(one.values, same.values)
        assert rows.moves == direct.moves
        np.testing.assert_array_equal(rows.times, frame["time"])
    both = pl.concat([frame, frame.with_columns(k=pl.lit(1, pl.Int64))])
    with pytest.raises(InputError, match="2 pairs of episode and k; choose one"):
        explained_episode(both, labels, None, "figure", 0)
    with pytest.raises(InputError, match="figure: the table has no column 'state"):
        explained_episode(frame.select(pl.exclude("^state.*$")), labels, None, "figure", 0)


def test_an_episode_that_is_over_says_how() -> None:
    both = (policy().episode.states, policy().most_likely.states)
    found = explained_episode(policy(), mortal(), None, "figure", 0).courses
    assert any(3 in states for states in both)
    for course, states in zip(found, both, strict=True):
        over = np.argmax(np.append(states, 3) == 3)
        assert course.ending == ("died" if 3 in states else "")
        assert np.isnan(course.values[over:]).all()
        assert np.isfinite(course.values[:over]).all()


def test_bad_questions() -> None:
    with pytest.raises(InputError, match="no feature 'x': there are burden, preparation"):
        explained_episode(sequence(), drugs(), "x", "figure", 0)
    with pytest.raises(InputError, match="figure: cannot draw a float"):
        explained_episode(1.0, drugs(), None, "figure", 0)
