"""The data of a trajectory figure are the numbers of the result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb

from counterplan import viz
from counterplan.core.result import Change
from counterplan.errors import InputError
from counterplan.viz import Move, Trajectory, labels_of, style
from counterplan.viz.labels import moves_of
from counterplan.viz.trajectory import trajectory_of

from .results import (
    FIGURES,
    ODD,
    discrete,
    drugs,
    layout,
    legend,
    line,
    policy,
    problem,
    sequence,
    texts,
)

LONG = "Sequential organ failure assessment of all six organs, summed over the whole of the stay"


def test_a_sequence_shows_a_feature_of_both_courses() -> None:
    data = trajectory_of(sequence(), drugs(), feature="burden", begin=6.0)
    np.testing.assert_array_equal(data.observed, problem().episode.states[:, 0])
    np.testing.assert_array_equal(data.counterfactual, sequence().states[:, 0])
    np.testing.assert_array_equal(data.times, 6.0 + 2.0 * np.arange(12))
    assert (data.feature, data.time_title) == ("burden", "time (d)")
    assert data.low is None


def test_every_dose_that_changes_is_a_move() -> None:
    vectors = problem().actions
    expected = [
        (t, drug, vectors[old, place], vectors[new, place])
        for t, old, new in sequence().changes
        for place, drug in enumerate(("preparing", "main", "relief"))
        if vectors[old, place] != vectors[new, place]
    ]
    moves = trajectory_of(sequence(), drugs(), feature=0).moves
    assert [move[:4] for move in moves] == expected
    assert [move.direction for move in moves] == [np.sign(new - old) for _, _, old, new in expected]


def test_a_policy_shows_its_likeliest_course_and_the_range_of_others() -> None:
    data = trajectory_of(policy(), layout())
    levels = np.array([0.0, 1.0, 2.0, 4.0])
    np.testing.assert_array_equal(data.observed, levels[policy().episode.states])
    np.testing.assert_array_equal(data.counterfactual, levels[policy().most_likely.states])
    sampled = levels[policy().sample(1_000, seed=0).states]
    assert data.low is not None
    assert data.high is not None
    inside = (sampled >= data.low) & (sampled <= data.high)
    assert (inside.mean(axis=0) >= 0.8).all()
    assert data.feature == "ill (points)"
    assert all(move.what == "dose (mg)" for move in data.moves)


def test_moves_say_levels_by_their_labels_with_direction_and_size() -> None:
    (up,) = _moves(layout(), 0, 2)
    assert (up.label, up.size, up.direction) == ("no → full", 5.0, 1)
    (down,) = _moves(layout(), 2, 1)
    assert (down.label, down.size, down.direction) == (f"full → {ODD}", -3.0, -1)


def test_names_without_levels_have_no_direction() -> None:
    mdp = policy().process.setting.mdp
    (move,) = _moves(mdp, 0, 2)
    assert (move.what, move.label, move.direction) == ("action", "none → rest", 0)


def test_numbers_are_written_with_a_sign() -> None:
    assert [Move(0, "x", 3.0, after).label for after in (5.0, 2.5)] == ["+2", "−0.5"]


def _moves(named: object, observed: int, alternative: int) -> tuple[Move, ...]:
    return moves_of([Change(0, observed, alternative)], labels_of(named))  # type: ignore[arg-type]


def test_a_course_that_is_over_says_how() -> None:
    labels = replace(labels_of(layout()), states=np.array([[0.0], [1.0], [2.0], [np.nan]]))
    labels = replace(labels, endings={3: "died"})
    data = trajectory_of(policy(), labels)
    for course, states, is_observed in (
        (data.observed, policy().episode.states, True),
        (data.counterfactual, policy().most_likely.states, False),
    ):
        over = np.flatnonzero(states == 3)
        ends = [end for end in data.ends if end.is_observed is is_observed]
        assert len(ends) == min(1, len(over))
        for end in ends:
            assert (end.t, end.text) == (over[0], "died")
            assert np.isnan(course[end.t :]).all()
            assert np.isfinite(course[: end.t]).all()
    assert data.ends


def test_rows_of_a_run_give_the_same() -> None:
    found, levels = sequence(), problem().actions
    taken = {"": found.observed, "counterfactual_": found.actions}
    states = {"": found.episode.states, "counterfactual_": found.states}
    columns: dict[str, list[object]] = {
        "episode_id": ["a"] * 12, "k": [2] * 12, "t": list(range(12)),
        "time": [2.0 * t for t in range(12)], "changed": [False] * 12,
    }  # fmt: skip
    for prefix in ("", "counterfactual_"):
        for place, name in enumerate(("burden", "preparation")):
            columns[f"{prefix}state:{name}"] = states[prefix][:, place].tolist()
        for place, name in enumerate(("preparing", "main", "relief")):
            columns[f"{prefix}action:{name}"] = [*levels[taken[prefix], place].tolist(), None]
    frame = pl.DataFrame(columns, strict=False)
    for table in (frame.reverse(), frame.lazy(), frame.to_dicts()):
        data = trajectory_of(table, drugs(), feature="burden")
        direct = trajectory_of(found, drugs(), feature="burden")
        np.testing.assert_array_equal(data.counterfactual, direct.counterfactual)
        assert data.moves == direct.moves
        np.testing.assert_array_equal(data.times, direct.times)
    with pytest.raises(InputError, match="2 pairs of episode and k; choose one"):
        trajectory_of(pl.concat([frame, frame.with_columns(k=pl.lit(1, pl.Int64))]), drugs())


def test_rows_of_a_discrete_run_give_the_same() -> None:
    found = policy()
    path, episode = found.most_likely, found.episode
    frame = pl.DataFrame(
        {
            "episode_id": ["a"] * 5,
            "k": [2] * 5,
            "t": range(5),
            "time": [4.0 * t for t in range(5)],
            "changed": path.actions != episode.actions,
            "state": episode.states,
            "action": episode.actions,
            "counterfactual_state": path.states,
            "counterfactual_action": path.actions,
        }
    )
    data, direct = trajectory_of(frame, layout()), trajectory_of(found, layout())
    np.testing.assert_array_equal(data.counterfactual, direct.counterfactual)
    np.testing.assert_array_equal(data.observed, direct.observed)
    assert data.moves == direct.moves


def test_steps_without_a_unit() -> None:
    data = Trajectory(np.array([1.0, 2.0]), np.array([1.0, 1.5]))
    assert data.time_title == "time (steps)"


def test_all_changes_of_a_dose_are_written_in_the_longest_way_that_fits() -> None:
    near = [Move(t, "a", 0, 2, "none → much") for t in (0, 1, 5)]
    data = Trajectory(np.zeros(8), np.ones(8), (*near, Move(0, "b", np.nan, np.nan, "x → y")))
    for step, expected, size in (
        (20.0, "none → much", 0),
        (10.0, "none → much", 1),
        (8.0, "none\n→ much", 0),
        (3.0, "+2", 0),
        (0.5, "", 0),
    ):
        way, found = data.move_text("a", step, 1.0, [1.0, 0.8])
        assert (way(near[0]), found) == (expected, size), step
    way, _ = data.move_text("b", 0.1, 1.0, [1.0])
    assert way(data.moves[-1]) == "", "words cannot be replaced by a number that means nothing"


def test_sizes_are_shares_of_the_largest_of_the_same_dose() -> None:
    moves = (Move(0, "a", 0, 4), Move(1, "a", 2, 1), Move(1, "b", 0.0, 0.1))
    data = Trajectory(np.zeros(3), np.ones(3), moves)
    assert [data.relative_size(move) for move in moves] == [1.0, 0.25, 1.0]


@pytest.mark.parametrize(
    ("observed", "counterfactual", "moves", "words"),
    [
        ([1.0, 2.0], [1.0], (), "2 observed values, but 1"),
        ([np.nan, 1.0], [1.0, 2.0], (), "observed must be a list of finite numbers"),
        ([1.0, np.nan, 1.0], [1.0, 2.0, 3.0], (), "nan only from where a course is over"),
        ([1.0, np.inf], [1.0, 2.0], (), "observed must be a list of finite numbers"),
        ([], [], (), "observed must be a list"),
        ([1.0, 2.0], [1.0, 2.0], (Move(2, "V", 0, 1),), "a change at step 2, but the steps are 0"),
    ],
)
def test_bad_courses(
    observed: list[float], counterfactual: list[float], moves: tuple[Move, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Trajectory(np.array(observed), np.array(counterfactual), moves)


def test_bad_questions() -> None:
    with pytest.raises(InputError, match="say what the features are called"):
        trajectory_of(sequence(), None)
    with pytest.raises(InputError, match="no feature 'x': there are burden, preparation"):
        trajectory_of(sequence(), drugs(), feature="x")
    with pytest.raises(InputError, match="has no names for features"):
        trajectory_of(sequence(), "names")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot draw a float"):
        trajectory_of(1.0, drugs())  # type: ignore[arg-type]


def test_steps_of_different_lengths_stand_where_they_begin() -> None:
    times = [0.0, 8.0, 12.0, 16.0, 36.0]
    doses = {"action:preparing": 0.0, "action:main": 0.0, "action:relief": 0.0}
    rows = [
        {
            "episode_id": "a", "k": 1, "t": t, "time": time,
            "state:burden": 2.0, "counterfactual_state:burden": 1.0, **doses,
            **{f"counterfactual_{name}": float(t == 3) for name in doses},
        }
        for t, time in enumerate(times)
    ]  # fmt: skip
    data = trajectory_of(rows, drugs(), feature="burden")
    assert data.times.tolist() == times
    assert {data.times[move.t] for move in data.moves} == {16.0}
    assert data.step == 4.0


def test_curves_and_arrows() -> None:
    figure, data = FIGURES["trajectory"](), trajectory_of(sequence(), drugs(), feature="burden")
    for label, values in (("observed", data.observed), ("counterfactual", data.counterfactual)):
        np.testing.assert_array_equal(line(figure, label), np.column_stack([data.times, values]))
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("burden", "time (d)")
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    labels = [text for text in axes.texts if text.arrow_patch is None]
    assert [label.get_text() for label in labels] == [move.label for move in data.moves]
    for arrow, move in zip(arrows, data.moves, strict=True):
        (time, end), (start_time, start) = arrow.xy, arrow.xyann
        assert time == start_time == data.times[move.t]
        assert (end > start) == (move.direction > 0)
        assert max(start, end) < data.extent[0], "below the curves"
        head = to_rgb(arrow.arrow_patch.get_facecolor())
        assert head == to_rgb(style.COUNTERFACTUAL if move.direction > 0 else "white")
    rows = [tick.get_text() for tick in axes.get_yticklabels()]
    assert rows[-len(data.doses) :] == list(data.doses)


def test_longer_arrows_are_larger_changes() -> None:
    moves = (viz.Move(0, "a", 0, 4), viz.Move(2, "a", 3, 1), viz.Move(4, "a", 0, 3))
    figure = viz.trajectory_figure(viz.Trajectory(np.arange(6.0), np.ones(6), moves))
    arrows = [text for text in figure.axes[0].texts if text.arrow_patch is not None]
    lengths = [abs(arrow.xy[1] - arrow.xyann[1]) for arrow in arrows]
    assert lengths[0] > lengths[2] > lengths[1]


def test_labels_beside_arrows_never_run_into_the_next_one() -> None:
    named = [viz.Move(t, "a", 0, 2, "very little → very much") for t in range(12)]
    crowded = viz.trajectory_figure(viz.Trajectory(np.arange(12.0), np.zeros(12), tuple(named)))
    beside = [text for text in crowded.axes[0].texts if text.arrow_patch is None]
    assert [text.get_text() for text in beside] == ["+2"] * 12
    alone = viz.trajectory_figure(viz.Trajectory(np.arange(12.0), np.zeros(12), (named[0],)))
    assert "very little → very much" in texts(alone)


def test_trajectory_of_a_policy_shows_a_band_and_names() -> None:
    figure = FIGURES["trajectory of a policy"]()
    data = trajectory_of(policy(), layout())
    assert "8 in 10 courses" in legend(figure)
    assert data.low is not None
    (band,) = figure.axes[0].collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == data.low.min()
    mdp = discrete()[0]
    replaced = viz.trajectory_figure(policy(), mdp)
    diamonds = [one for one in replaced.axes[0].lines if one.get_marker() == "D"]
    assert len(diamonds) == len(policy().changes)


@pytest.mark.parametrize(("name", "written"), [("vasopressor (µg/kg/min)", True), (LONG, False)])
def test_changes_are_written_where_the_names_leave_room(name: str, written: bool) -> None:
    values = np.linspace(9.0, 5.0, 12)
    moves = tuple(viz.Move(t, name, 0.0, 0.3) for t in range(3))
    figure = viz.trajectory_figure(viz.Trajectory(values, values - 1.0, moves, "SOFA"))
    assert texts(figure).count("+0.3") == (3 if written else 0)
