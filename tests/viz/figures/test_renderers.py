"""Figures for print show every element of their data, with labels, and leave nothing behind."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import counterplan as cp
from counterplan import viz
from counterplan import viz as figures
from counterplan.errors import CounterplanError
from counterplan.viz import style
from counterplan.viz.changes import change_strip_data
from counterplan.viz.cohort import cohort_data
from counterplan.viz.outcomes import outcome_data
from counterplan.viz.path import path_data
from counterplan.viz.trajectory import trajectory_data

from ..results import (
    CHANCE,
    FIGURES,
    GAINS,
    INTERVALS,
    bounds,
    discrete,
    drugs,
    layout,
    plans,
    policy,
    sequence,
    ship,
    voyage,
)


def drawn(name: str) -> Figure:
    figure: Figure = FIGURES[name](figures)
    return figure


def line(figure: Figure, label: str) -> np.ndarray:
    """The points of the line with this label, (n, 2)."""
    lines = [one for axes in figure.axes for one in axes.lines if one.get_label() == label]
    assert len(lines) == 1, label
    return np.asarray(lines[0].get_xydata())


def heights(figure: Figure) -> dict[str, np.ndarray]:
    """Of bars, by label."""
    return {
        str(bars.get_label()): np.array([bar.get_height() for bar in bars])
        for axes in figure.axes
        for bars in axes.containers
    }


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def legend(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.legends[0].get_texts()}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_written_the_same_each_time(name: str) -> None:
    first, second = (style.svg_bytes(drawn(name)) for _ in range(2))
    assert first == second
    text = first.decode()
    assert "<script" not in text
    assert 'href="http' not in text
    assert style.png_bytes(drawn(name)).startswith(b"\x89PNG")


def test_trajectory() -> None:
    figure, data = drawn("trajectory"), trajectory_data(sequence(), drugs(), feature="burden")
    for label, values in (("observed", data.observed), ("counterfactual", data.counterfactual)):
        np.testing.assert_array_equal(line(figure, label), np.column_stack([data.times, values]))
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("burden", "time (d)")
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    labels = [text for text in axes.texts if text.arrow_patch is None]
    assert [label.get_text() for label in labels] == [move.label for move in data.moves]
    for arrow, move in zip(arrows, data.moves, strict=True):
        (time, end), (start_time, start) = arrow.xy, arrow.xyann
        assert time == start_time == data.time(move.t)
        assert (end > start) == (move.direction > 0)
        assert max(start, end) < data.extent[0], "below the curves"
        head = to_rgb(arrow.arrow_patch.get_facecolor())
        assert head == to_rgb(style.COUNTERFACTUAL if move.direction > 0 else "white")
    rows = [tick.get_text() for tick in axes.get_yticklabels()]
    assert rows[-len(data.doses) :] == list(data.doses)


def test_longer_arrows_are_larger_changes() -> None:
    moves = (viz.Move(0, "a", 0, 4), viz.Move(2, "a", 3, 1), viz.Move(4, "a", 0, 3))
    figure = figures.trajectory_figure(viz.Trajectory(np.arange(6.0), np.ones(6), moves))
    arrows = [text for text in figure.axes[0].texts if text.arrow_patch is not None]
    lengths = [abs(arrow.xy[1] - arrow.xyann[1]) for arrow in arrows]
    assert lengths[0] > lengths[2] > lengths[1]


def test_labels_beside_arrows_never_run_into_the_next_one() -> None:
    named = [viz.Move(t, "a", 0, 2, "very little → very much") for t in range(12)]
    crowded = figures.trajectory_figure(viz.Trajectory(np.arange(12.0), np.zeros(12), tuple(named)))
    beside = [text for text in crowded.axes[0].texts if text.arrow_patch is None]
    assert [text.get_text() for text in beside] == ["+2"] * 12
    alone = figures.trajectory_figure(viz.Trajectory(np.arange(12.0), np.zeros(12), (named[0],)))
    assert "very little → very much" in texts(alone)


def test_trajectory_of_a_policy_shows_a_band_and_names() -> None:
    figure = drawn("trajectory of a policy")
    data = trajectory_data(policy(), layout())
    assert "8 in 10 courses" in legend(figure)
    assert data.low is not None
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == data.low.min()
    mdp = discrete()[0]
    replaced = figures.trajectory_figure(policy(), mdp)
    diamonds = [one for one in replaced.axes[0].lines if one.get_marker() == "D"]
    assert len(diamonds) == len(policy().changes)


def test_frontier_shows_values_ranges_and_the_observed_outcome() -> None:
    figure, frontier = drawn("frontier"), discrete()[1]
    np.testing.assert_allclose(
        line(figure, "best explanation, proved"), [*enumerate(frontier.values)]
    )
    np.testing.assert_allclose(line(figure, "guaranteed in every model")[:, 1], [0.0, 1.0, 2.0])
    assert (line(figure, "observed")[:, 1] == frontier[0].factual_value).all()
    (bars,) = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], INTERVALS)
    assert figure.axes[0].get_ylabel() == "Outcome"
    assert "range over causal models" in legend(figure)


def test_frontier_shows_the_bound_where_there_is_a_gap() -> None:
    figure = drawn("frontier with a gap")
    assert line(figure, "bound: nothing is better")[0, 1] == sequence(4).bound
    assert legend(drawn("frontier")).isdisjoint({"bound: nothing is better"})


def test_outcomes() -> None:
    figure, data = drawn("outcome"), outcome_data(policy())
    bars = heights(figure)
    np.testing.assert_allclose(bars["not better"], data.rest)
    (better,) = (label for label in bars if label.startswith("better than observed: "))
    np.testing.assert_allclose(bars[better], data.better)
    assert (line(figure, "observed")[:, 0] == data.observed).all()
    assert (line(figure, "expected")[:, 0] == data.mean).all()


def test_numbers_beside_axes_are_written_in_full() -> None:
    axis = figures.outcome_figure([0.1, 0.2], 0.0, quantity=CHANCE).axes[0].xaxis
    labels = axis.get_major_formatter().format_ticks([0.0, 0.025, 0.07, 0.175, 1.0])
    assert labels == ["0 %", "2.5 %", "7 %", "17.5 %", "100 %"]
    axis = figures.outcome_figure([1e5, -2e5], 0.0).axes[0].xaxis
    assert axis.get_major_formatter().format_ticks([-2e5, 1e5]) == ["−200,000", "100,000"]


def test_strip() -> None:
    figure, data = drawn("change strip"), change_strip_data(policy(), labels=layout())
    upper, lower = figure.axes
    np.testing.assert_allclose([bar.get_height() for bar in upper.containers[0]], data.changed)
    assert [label.get_text() for label in lower.get_yticklabels()] == [
        band.label for band in data.bands
    ]
    steps = len(data.changed)
    cells = lower.patches[:steps]
    shades = [sum(to_rgb(cell.get_facecolor())) for cell in cells]
    order = np.argsort(data.bands[0].levels, kind="stable")
    assert np.all(np.diff(np.array(shades)[order]) <= 0), "more severe is darker"
    assert lower.get_title() == data.heading
    assert [label.get_text() for label in lower.get_xticklabels()] == list(data.times)


def test_long_strips_stay_on_the_page() -> None:
    steps = 60
    bands = [viz.StateBand("x", np.r_[np.arange(59.0), np.nan], [*["text"] * 59, "died"])]
    figure = figures.change_strip_figure(np.full(steps, 0.001), bands)
    assert figure.get_figwidth() <= 11.0
    assert texts(figure) == ["died"], "what does not fit is left out, but for how it ends"


def test_explanations_stand_in_a_table() -> None:
    figure = drawn("explanations")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == "explanation 1"
    assert names[-1] == "observed"
    assert any(text.endswith(" %") for text in texts(figure))


def test_intervals() -> None:
    figure = drawn("interval")
    np.testing.assert_allclose(line(figure, "best explanation"), [(0.8, 0), (0.6, 1)])
    np.testing.assert_allclose(line(figure, "guaranteed in every model"), [(0.5, 0)])
    every, stable = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 0] for bar in every.get_segments()], [(0.2, 1), (0.6, 0.7)])
    np.testing.assert_allclose([bar[:, 0] for bar in stable.get_segments()], [(0.4, 0.9)])
    low, high = figure.axes[0].get_ylim()
    assert low > high, "the first case is on top"


def test_cohort() -> None:
    figure = drawn("cohort")
    data = cohort_data(GAINS, guaranteed=[0.5 * gain for gain in GAINS])
    bars = heights(figure)
    np.testing.assert_array_equal(bars["no change helps"], [data.none])
    np.testing.assert_array_equal(bars["best explanation"], data.body)
    np.testing.assert_array_equal(bars[data.tail_name], data.tail)
    outlines = [
        patch.get_data().values for patch in figure.axes[0].patches if hasattr(patch, "get_data")
    ]
    assert sorted(values.sum() for values in outlines) == sorted([data.unsure, data.sure.sum()])


def test_progress() -> None:
    figure, history = drawn("progress"), sequence().history
    np.testing.assert_array_equal(line(figure, "best found so far"), history[:, [0, 1]])
    np.testing.assert_array_equal(line(figure, "bound: nothing is better"), history[:, [0, 2]])
    assert "proved optimal" in figure.axes[0].get_xlabel()


def test_path() -> None:
    figure = drawn("path")
    data = path_data(voyage()[1], ship(), voyage()[0])
    price, bought, tank, loss = figure.axes
    np.testing.assert_array_equal(price.lines[0].get_ydata(), voyage()[0][:, 0])
    for number, player in enumerate(data.players):
        points = line(figure, player.name)
        np.testing.assert_array_equal(points[:, 1], player.actions[:, 0])
        np.testing.assert_allclose(points[:, 0], data.steps + data.offset(number))
        drawn_levels = [tuple(one.get_ydata()) for one in tank.lines]
        assert tuple(player.levels[:, 0]) in drawn_levels
    np.testing.assert_array_equal([bar.get_height() for bar in loss.containers[0]], data.losses)
    assert bought.get_ylabel() == "units bought"
    assert legend(figure) == {player.name for player in data.players}


@pytest.mark.parametrize(
    "problem", [cp.domains.HybridVehicle("A"), cp.domains.OptionBasket("A")], ids=["car", "basket"]
)
def test_paths_of_other_problems_are_drawn(problem: Any) -> None:
    path = problem.sample_path(seed=1)
    known = cp.hindsight(problem, path)
    figure = figures.path_figure(cp.regret(problem, path, known.actions), problem, path)
    assert style.png_bytes(figure).startswith(b"\x89PNG")


def test_convergence() -> None:
    figure = drawn("convergence")
    for name in plans():
        assert line(figure, name)[:, 0].tolist() == [20.0, 80.0]
    assert (line(figure, "lower bound: hindsight")[:, 1] == bounds().lower).all()
    assert (line(figure, "upper bound: executed open loop")[:, 1] == bounds().upper).all()
    assert (line(figure, "optimum V*")[:, 1] == cp.exact_value(ship())).all()


def test_a_dollar_in_data_is_no_formula() -> None:
    row = viz.IntervalRow("$\\broken{$", 0.5, INTERVALS[0])
    assert style.png_bytes(figures.interval_figure([row])).startswith(b"\x89PNG")


def test_figures_say_what_they_take() -> None:
    for name in viz.__all__:
        if name.endswith("_figure") and name != "save_figure":
            function: Callable[..., Any] = getattr(viz, name)
            assert function.__name__ == name
            assert function.__doc__
            assert str(inspect.signature(function).return_annotation) == "Figure"


def test_files(tmp_path: Path) -> None:
    figure = drawn("cohort")
    for name, start in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")):
        viz.save_figure(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    for name in ("a.jpeg", "a.html", "a"):
        with pytest.raises(CounterplanError, match=r"saved as \.png or \.svg"):
            viz.save_figure(figure, tmp_path / name)
    with pytest.raises(CounterplanError, match="folder does not exist"):
        viz.save_figure(figure, tmp_path / "no" / "a.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.png"]


def test_drawing_needs_no_pyplot_and_importing_no_matplotlib() -> None:
    code = """
import sys
from counterplan import viz
from counterplan.viz import figures, interactive, style
assert not {"matplotlib", "plotly"} & set(sys.modules)
style.svg_bytes(viz.cohort_figure([0.1, 0.5]))
assert "matplotlib.pyplot" not in sys.modules
assert "plotly" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
