"""A strip shows how often steps are changed, above the states of the courses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.viz import StateBand, labels_of
from counterplan.viz.changes import change_strip_data

from ..results import drugs, layout, policy, problem, sequence

LEVELS = np.array([0.0, 1.0, 2.0, 4.0])


def test_a_policy_with_the_names_of_its_schema() -> None:
    data = change_strip_data(policy(), labels=layout())
    np.testing.assert_allclose(data.changed, policy().change_probabilities().sum(axis=1))
    observed, likeliest, average = data.bands
    np.testing.assert_array_equal(observed.levels, LEVELS[policy().episode.states])
    np.testing.assert_array_equal(likeliest.levels, LEVELS[policy().most_likely.states])
    sampled = LEVELS[policy().sample(1_000, seed=0).states]
    np.testing.assert_allclose(average.levels, sampled.mean(axis=0))
    assert data.heading == "ill (points): darker is worse"
    assert data.times == ("0", "4", "8", "12", "16")
    assert data.title == "time (h)"
    assert list(observed.texts) == [f"{level:g}" for level in observed.levels]


def test_a_sequence_changes_for_sure() -> None:
    data = change_strip_data(sequence(), labels=drugs(), feature="burden")
    assert set(np.flatnonzero(data.changed)) == {change.t for change in sequence().changes}
    np.testing.assert_array_equal(data.bands[0].levels, problem().episode.states[:, 0])
    np.testing.assert_array_equal(data.bands[1].levels, sequence().states[:, 0])
    assert data.heading == "burden: darker is higher"


def test_shades_rise_with_levels_and_stay_within_the_scale() -> None:
    band = StateBand("x", np.array([0.0, 5.0, 20.0]), ["", "", ""])
    data = change_strip_data([0.0, 0.5, 1.0], [band], scale=(0.0, 10.0))
    assert [data.shade(level) for level in band.levels] == [0.0, 0.5, 1.0]


def test_a_course_that_is_over_has_no_more_cells() -> None:
    labels = replace(labels_of(layout()), endings={3: "died"})
    labels = replace(labels, states=np.array([[0.0], [1.0], [2.0], [np.nan]]))
    data = change_strip_data(policy(), labels=labels)
    for band, states in zip(
        data.bands, (policy().episode.states, policy().most_likely.states), strict=False
    ):
        over = np.flatnonzero(states == 3)
        words = [band.texts[t] for t in over]
        assert words == ["died", *[""] * (len(words) - 1)] if words else True
    assert any("died" in band.texts for band in data.bands)


def test_rows_of_a_run() -> None:
    found = policy()
    frame = pl.DataFrame(
        {
            "episode_id": ["a"] * 5,
            "k": [2] * 5,
            "t": range(5),
            "time": [4.0 * t for t in range(5)],
            "change_probability": found.change_probabilities().sum(axis=1),
            "state": found.episode.states,
            "counterfactual_state": found.most_likely.states,
        }
    )
    data, direct = (
        change_strip_data(frame, labels=layout()),
        change_strip_data(found, labels=layout()),
    )
    np.testing.assert_array_equal(data.changed, direct.changed)
    assert data.times == direct.times
    for band, other in zip(data.bands, direct.bands, strict=False):
        np.testing.assert_array_equal(band.levels, other.levels)
    vectors = frame.select("episode_id", "k", "t", "time", "change_probability").with_columns(
        pl.Series("state:a", np.zeros(5)), pl.Series("state:b", np.arange(5.0)),
        pl.Series("counterfactual_state:a", np.zeros(5)),
        pl.Series("counterfactual_state:b", np.ones(5)),
    )  # fmt: skip
    named = drugs()
    data = change_strip_data(vectors, labels=named, feature="preparation")
    np.testing.assert_array_equal(data.bands[0].levels, np.arange(5.0))
    np.testing.assert_array_equal(data.bands[1].levels, np.ones(5))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="'short' has 1 levels and 1 texts for 2 steps"):
        change_strip_data([0.5, 0.5], [StateBand("short", np.zeros(1), ["a"])])
    with pytest.raises(InputError, match="no bands of states"):
        change_strip_data([0.5, 0.5])
