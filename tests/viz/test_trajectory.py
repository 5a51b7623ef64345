"""The trajectory figure shows both courses and every change of a dose."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.figures import Move, trajectory_figure
from counterplan.viz.figures.trajectory import LOWERED, RAISED

OBSERVED, COUNTERFACTUAL = [9.0, 8.0, 8.0, 7.0], [9.0, 8.0, 6.5, 5.0]
MOVES = (Move(1, "V", 0, 3), Move(1, "F", 4, 2), Move(2, "V", 1, 2))


@pytest.fixture(scope="module")
def figure() -> Figure:
    options = {"feature": "SOFA", "step": 4.0, "unit": "h"}
    return trajectory_figure(OBSERVED, COUNTERFACTUAL, MOVES, **options)


def test_both_courses_lie_over_time(figure: Figure) -> None:
    axes = figure.axes[0]
    lines = {line.get_label(): np.asarray(line.get_xydata()) for line in axes.lines}
    times = 4.0 * np.arange(4)
    np.testing.assert_array_equal(lines["observed"], np.column_stack([times, OBSERVED]))
    np.testing.assert_array_equal(lines["counterfactual"], np.column_stack([times, COUNTERFACTUAL]))
    assert axes.get_ylabel() == "SOFA"
    assert axes.get_xlabel() == "time (h)"
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "observed",
        "counterfactual",
    }


def test_arrows_show_direction_and_size(figure: Figure) -> None:
    axes = figure.axes[0]
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    labels = [text for text in axes.texts if text.arrow_patch is None]
    assert [label.get_text() for label in labels] == ["+3", "−2", "+1"]
    assert [label.get_color() for label in labels] == [RAISED, LOWERED, RAISED]
    lengths = []
    for arrow, move in zip(arrows, MOVES, strict=True):
        (time, end), (start_time, start) = arrow.xy, arrow.xyann
        assert time == start_time == 4.0 * move.t
        assert (end > start) == (move.after > move.before)
        assert max(start, end) < min(COUNTERFACTUAL)
        lengths.append(abs(end - start))
    assert lengths[0] > lengths[1] > lengths[2]
    rows = dict(
        zip([tick.get_text() for tick in axes.get_yticklabels()], axes.get_yticks(), strict=True)
    )
    assert rows["F"] < rows["V"] < min(COUNTERFACTUAL)


def test_without_changes_there_are_no_rows() -> None:
    figure = trajectory_figure([1.0, 1.0], [1.0, 1.0])
    assert not figure.axes[0].texts
    assert figure.axes[0].get_xlabel() == "time (steps)"
    assert style.png_bytes(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("observed", "counterfactual", "moves", "words"),
    [
        ([1.0, 2.0], [1.0], (), "2 observed values, but 1"),
        ([1.0, np.nan], [1.0, 2.0], (), "observed must be a list of finite numbers"),
        ([], [], (), "observed must be a list"),
        ([1.0, 2.0], [1.0, 2.0], (Move(2, "V", 0, 1),), "a change at step 2, but the steps are 0"),
    ],
)
def test_bad_input(
    observed: list[float], counterfactual: list[float], moves: tuple[Move, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        trajectory_figure(observed, counterfactual, moves)
