"""Figures show the numbers they were given, with labels, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import counterplan as cp
from counterplan.core.result import Change, Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.case import Case
from counterplan.viz.distinct import DistinctExplanation, distinct_explanations
from counterplan.viz.figures import (
    IntervalRow,
    StateBand,
    change_strip_figure,
    cohort_figure,
    explanations_figure,
    frontier_figure,
    interval_figure,
    outcome_figure,
)
from counterplan.viz.quantity import Quantity

CHANCE = Quantity("survival probability", percent=True)


def line(figure: Figure, label: str) -> np.ndarray:
    """The points of the line with this label, (n, 2)."""
    lines = [one for axes in figure.axes for one in axes.lines if one.get_label() == label]
    assert len(lines) == 1, label
    return np.asarray(lines[0].get_xydata())


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def legend(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.legends[0].get_texts()}


def test_frontier_shows_values_ranges_and_the_observed_outcome(case: Case) -> None:
    intervals = [Interval(0.0, 1.0), Interval(1.0, 4.0), Interval(2.0, 6.0)]
    figure = frontier_figure(case.frontier, intervals=intervals, guaranteed=[0.0, 1.0, 2.0])
    values = [(k, value) for k, value in enumerate(case.frontier.values)]
    np.testing.assert_allclose(line(figure, "best explanation"), values)
    np.testing.assert_allclose(line(figure, "guaranteed in every model")[:, 1], [0.0, 1.0, 2.0])
    assert (line(figure, "observed")[:, 1] == case.explanation.factual_value).all()
    (bars,) = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], intervals)
    assert figure.axes[0].get_ylabel() == "Outcome"
    assert legend(figure) == {
        "best explanation",
        "guaranteed in every model",
        "observed",
        "range over causal models",
    }


def test_frontier_without_ranges(case: Case) -> None:
    figure = frontier_figure(case.frontier, quantity=CHANCE)
    assert legend(figure) == {"best explanation", "observed"}
    assert figure.axes[0].get_ylabel() == "Survival probability"


def test_outcomes_of_an_exact_distribution(case: Case) -> None:
    distribution = case.explanation.outcome_distribution()
    observed = case.explanation.factual_value
    figure = outcome_figure(
        distribution.values, observed, probabilities=distribution.probabilities, mean=7.0
    )
    better, worse = (
        sum(bar.get_height() for bar in container)
        for container in sorted(figure.axes[0].containers, key=lambda one: str(one.get_label()))
    )
    assert better == pytest.approx(case.probability_better)
    assert better + worse == pytest.approx(1.0)
    assert (line(figure, "observed")[:, 0] == observed).all()
    assert (line(figure, "expected")[:, 0] == 7.0).all()


@pytest.mark.parametrize("n", [7, 400])
def test_sampled_outcomes_equal_to_the_observed_one_are_not_better(n: int) -> None:
    outcomes = np.concatenate([np.zeros(n), 0.5 + np.linspace(0.0, 0.4, 3 * n)])
    figure = outcome_figure(outcomes, 0.0, quantity=CHANCE)
    shares = {
        str(container.get_label()): sum(bar.get_height() for bar in container)
        for container in figure.axes[0].containers
    }
    assert shares == pytest.approx({"not better": 0.25, "better than observed": 0.75})


def test_ticks_between_whole_percents_are_written_in_full() -> None:
    axis = outcome_figure([0.1, 0.2], 0.0, quantity=CHANCE).axes[0].xaxis
    labels = axis.get_major_formatter().format_ticks([0.0, 0.025, 0.07, 0.175, 1.0])
    assert labels == ["0 %", "2.5 %", "7 %", "17.5 %", "100 %"]


def test_single_outcome_is_visible() -> None:
    figure = outcome_figure([0.8, 0.8], 0.0)
    (bar,) = figure.axes[0].containers[0]
    assert bar.get_width() > 0.01
    assert bar.get_height() == pytest.approx(1.0)


def test_strip_shows_how_often_each_step_is_changed(case: Case) -> None:
    probabilities = case.explanation.change_probabilities()
    steps = len(probabilities)
    bands = [
        StateBand("observed", np.arange(steps, dtype=float), ["a"] * steps),
        StateBand("likeliest", np.full(steps, np.nan), ["b", "died", *[""] * (steps - 2)]),
    ]
    figure = change_strip_figure(probabilities, bands, severity="severity level")
    upper, lower = figure.axes
    heights = [bar.get_height() for bar in upper.containers[0]]
    np.testing.assert_allclose(heights, probabilities.sum(axis=1))
    assert [label.get_text() for label in lower.get_yticklabels()] == ["observed", "likeliest"]
    # Cells after the end of a course are left out.
    assert len(lower.patches) == steps + 2
    assert "died" in texts(figure)
    shades = [sum(to_rgb(cell.get_facecolor())) for cell in lower.patches[:steps]]
    assert shades == sorted(shades, reverse=True), "more severe is darker"


def test_strip_refuses_bands_of_another_length() -> None:
    with pytest.raises(InputError, match="'short' has 1 levels and 1 texts for 2 steps"):
        change_strip_figure([0.5, 0.5], [StateBand("short", np.zeros(1), ["a"])])


def test_explanations_stand_in_a_table(episode: cp.Episode) -> None:
    t = 2
    before = int(episode.actions[t])
    explanations = [
        DistinctExplanation((Change(t, before, (before + 1) % 3),), 0.7, 3.25),
        DistinctExplanation((Change(t, before, (before + 2) % 3),), 0.2, 4.5),
        DistinctExplanation((), 0.1, 1.0),
    ]
    figure = explanations_figure(explanations, episode, lambda action: f"A{action}")
    shown = texts(figure)
    for text in (f"A{(before + 1) % 3}", f"A{before}", "70 %", "20 %", "3.25", "4.5"):
        assert text in shown
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["explanation 1", "explanation 2", "observed"]


def test_distinct_explanations_account_for_all_realizations(case: Case) -> None:
    episode = case.explanation.episode
    realizations = case.explanation.sample(500, seed=1)
    distinct = distinct_explanations(realizations, episode)
    assert sum(one.frequency for one in distinct) == pytest.approx(1.0)
    mean = sum(one.frequency * one.mean_outcome for one in distinct)
    assert mean == pytest.approx(realizations.outcomes.mean())
    assert [one.frequency for one in distinct] == sorted(
        (one.frequency for one in distinct), reverse=True
    )
    assert len({one.changes for one in distinct}) == len(distinct)
    changes = sum(one.frequency * len(one.changes) for one in distinct)
    assert changes == pytest.approx(realizations.changes.mean())


def test_intervals_show_value_range_and_guarantee() -> None:
    rows = [
        IntervalRow("first", 0.8, Interval(0.2, 1.0), 0.5),
        IntervalRow("second", 0.6, Interval(0.6, 0.7), 0.6),
    ]
    figure = interval_figure(rows, observed=0.1, quantity=CHANCE)
    np.testing.assert_allclose(line(figure, "best explanation"), [(0.8, 0), (0.6, 1)])
    np.testing.assert_allclose(line(figure, "guaranteed in every model"), [(0.5, 0), (0.6, 1)])
    (bars,) = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 0] for bar in bars.get_segments()], [(0.2, 1), (0.6, 0.7)])
    low, high = figure.axes[0].get_ylim()
    assert low > high, "the first case is on top"


def test_cohort_counts_every_case_once() -> None:
    gains = [0.0, 0.0, 0.31, 0.32, 0.9]
    figure = cohort_figure(gains, guaranteed=[0.0, 0.0, 0.0, 0.3, 0.1], quantity=CHANCE)
    none, some = figure.axes[0].containers
    assert [bar.get_height() for bar in none] == [2]
    assert sum(bar.get_height() for bar in some) == 3
    assert none[0].get_x() + none[0].get_width() < 0.0
    outlines = [
        patch.get_data().values for patch in figure.axes[0].patches if hasattr(patch, "get_data")
    ]
    assert sorted(values.sum() for values in outlines) == [2, 3]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: cohort_figure([]),
        lambda: interval_figure([]),
        lambda: outcome_figure([], 0.0),
        lambda: explanations_figure([], cp.Episode([0], [0]), str),
    ],
)
def test_nothing_to_draw_is_said(draw: object) -> None:
    with pytest.raises(InputError, match="no "):
        draw()  # type: ignore[operator]


def test_files_are_the_same_each_time() -> None:
    def draw() -> Figure:
        return cohort_figure([0.1, 0.5], quantity=CHANCE)

    assert style.png_bytes(draw()).startswith(b"\x89PNG")
    assert style.png_bytes(draw()) == style.png_bytes(draw())
    assert style.svg_bytes(draw()) == style.svg_bytes(draw())


def test_svg_refers_to_nothing_outside() -> None:
    text = style.svg_bytes(cohort_figure([0.1, 0.5])).decode()
    assert "<svg" in text
    assert "<script" not in text
    assert 'href="http' not in text


def test_severity_darkens_evenly_in_grey() -> None:
    colours = style.severity_colours()(np.linspace(0.0, 1.0, 50))
    grey = colours[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) < 0.0).all()


def test_drawing_needs_no_pyplot_and_importing_no_matplotlib() -> None:
    code = """
import sys
from counterplan.viz import figures, page, style, terminal
assert "matplotlib" not in sys.modules
style.svg_bytes(figures.cohort_figure([0.1, 0.5]))
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
