"""A trajectory figure shows the numbers of the result, and every change where it is made."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb

from counterplan.errors import InputError
from counterplan.viz import Move, Trajectory, labels_of, style, trajectory_figure
from counterplan.viz.explained import trajectory_of
from counterplan.viz.trajectory import move_texts

from .results import (
    FIGURES,
    discrete,
    drugs,
    layout,
    legend,
    line,
    mortal,
    policy,
    policy_rows,
    problem,
    sequence,
    sequence_rows,
    texts,
)

LONG = "Sequential organ failure assessment of all six organs, summed over the whole of the stay"


def test_curves_and_arrows() -> None:
    figure, data = FIGURES["trajectory"](), trajectory_of(sequence(), drugs(), feature="burden")
    for label, states in (
        ("observed", problem().episode.states),
        ("counterfactual", sequence().states),
    ):
        points = np.column_stack([2.0 * np.arange(12), states[:, 0]])
        np.testing.assert_array_equal(line(figure, label), points)
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("burden", "time (d)")
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    labels = [text for text in axes.texts if text.arrow_patch is None]
    moves = sorted(data.moves, key=lambda move: data.doses.index(move.what))
    assert [label.get_text() for label in labels] == [move.label for move in moves]
    for arrow, move in zip(arrows, moves, strict=True):
        (time, end), (start_time, start) = arrow.xy, arrow.xyann
        assert time == start_time == data.times[move.t]
        assert (end > start) == (move.direction > 0)
        assert max(start, end) < data.extent[0], "below the curves"
        head = to_rgb(arrow.arrow_patch.get_facecolor())
        assert head == to_rgb(style.COUNTERFACTUAL if move.direction > 0 else "white")
    rows = [tick.get_text() for tick in axes.get_yticklabels()]
    assert rows[-len(data.doses) :] == list(data.doses)


def test_a_policy_has_a_band_that_holds_8_in_10() -> None:
    figure, data = FIGURES["trajectory of a policy"](), trajectory_of(policy(), layout())
    sampled = np.array([0.0, 1.0, 2.0, 4.0])[policy().sample(1_000, seed=0).states]
    assert data.low is not None
    assert data.high is not None
    inside = (sampled >= data.low) & (sampled <= data.high)
    assert (inside.mean(axis=0) >= 0.8).all()
    assert data.feature == "ill (points)"
    assert "8 in 10 courses" in legend(figure)
    (band,) = figure.axes[0].collections
    assert band.get_paths()[0].vertices[:, 1].min() == data.low.min()


def test_names_without_an_order_are_replaced_not_raised() -> None:
    figure = trajectory_figure(policy(), discrete()[0])
    diamonds = [one for one in figure.axes[0].lines if one.get_marker() == "D"]
    assert len(diamonds) == len(policy().changes)


def test_a_trajectory_that_is_over_says_how() -> None:
    figure, data = trajectory_figure(policy(), mortal()), trajectory_of(policy(), mortal())
    ends = [text for text in figure.axes[0].texts if text.get_text() == "died"]
    over = [np.isnan(values) for values in (data.observed, data.counterfactual)]
    assert [end.xy[0] for end in ends] == [4.0 * np.argmax(one) for one in over if one.any()]
    assert ends


def test_times_are_those_of_the_rows_or_counted_from_the_beginning() -> None:
    begun = trajectory_of(sequence(), drugs())
    np.testing.assert_array_equal(begun.times, 2.0 * np.arange(12))
    times = [0.0, 8.0, 12.0, 16.0, *range(36, 44)]
    rows = trajectory_of(sequence_rows().with_columns(time=pl.Series(times)), drugs())
    assert (rows.times.tolist(), rows.step) == (times, 1.0)
    counted = trajectory_figure(Trajectory(np.array([1.0, 2.0]), np.array([1.0, 1.5])))
    assert counted.axes[0].get_xlabel() == "time (steps)"


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
        assert move_texts(data, "a", step, [1.0, 0.8], 1.0) == ([expected] * 3, size), step
    found, _ = move_texts(data, "b", 0.1, [1.0], 1.0)
    assert found == [""], "words cannot be replaced by a number that means nothing"


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
def test_bad_trajectories(
    observed: list[float], counterfactual: list[float], moves: tuple[Move, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Trajectory(np.array(observed), np.array(counterfactual), moves)


def test_names_are_needed() -> None:
    with pytest.raises(InputError, match="say what the features are called"):
        trajectory_of(sequence(), None)


def test_longer_arrows_are_larger_changes() -> None:
    moves = (Move(0, "a", 0, 4), Move(2, "a", 3, 1), Move(4, "a", 0, 3))
    figure = trajectory_figure(Trajectory(np.arange(6.0), np.ones(6), moves))
    arrows = [text for text in figure.axes[0].texts if text.arrow_patch is not None]
    lengths = np.array([abs(arrow.xy[1] - arrow.xyann[1]) for arrow in arrows])
    np.testing.assert_allclose(lengths / lengths[0], [1.0, 0.5, 0.75])


def test_labels_beside_arrows_never_run_into_the_next_one() -> None:
    named = [Move(t, "a", 0, 2, "very little → very much") for t in range(12)]
    for moves, written in ((named, ["+2"] * 12), (named[:1], [named[0].text])):
        figure = trajectory_figure(Trajectory(np.arange(12.0), np.zeros(12), tuple(moves)))
        assert [text for text in texts(figure) if text] == written


@pytest.mark.parametrize(("name", "written"), [("vasopressor (µg/kg/min)", True), (LONG, False)])
def test_changes_are_written_where_the_names_leave_room(name: str, written: bool) -> None:
    values = np.linspace(9.0, 5.0, 12)
    moves = tuple(Move(t, name, 0.0, 0.3) for t in range(3))
    figure = trajectory_figure(Trajectory(values, values - 1.0, moves, "SOFA"))
    assert texts(figure).count("+0.3") == (3 if written else 0)


# --- From an explanation, and from the rows of a run ---


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


def test_bad_questions() -> None:
    with pytest.raises(InputError, match="no feature 'x': there are burden, preparation"):
        trajectory_of(sequence(), drugs(), feature="x", what="figure")
    with pytest.raises(InputError, match="figure: cannot draw a float"):
        trajectory_of(1.0, drugs(), what="figure")
