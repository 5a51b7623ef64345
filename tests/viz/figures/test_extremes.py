"""Figures of results at the edge: long names, a single budget, no improvement, many steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import counterplan as cp
from counterplan import viz
from counterplan.counterfactual import SequenceExplanation
from counterplan.viz import Quantity, interactive

from ..results import problem, sequence

LONG = "Sequential organ failure assessment of all six organs, summed over the whole of the stay"
WORTH = Quantity("outcome", unit=LONG)
STEPS = 50


def nothing_changed() -> SequenceExplanation:
    case = problem()
    return cp.explain(case.scm, case.episode, k=0, actions=case.actions, reward=case.reward)


def trajectory(names: Any = viz) -> Any:
    values = np.linspace(9.0, 5.0, 12)
    moves = [viz.Move(t, LONG, 0.0, 1.0) for t in (0, 1)]
    return names.trajectory_figure(viz.Trajectory(values, values - 1.0, tuple(moves), LONG))


def plan(name: str) -> Figure:
    return viz.convergence_figure({name: [cp.plan(ship(), planner=cp.UCT(20), seed=0)]})


def ship() -> cp.domains.Bunkering:
    return cp.domains.Bunkering(config="A", prices="independent")


NAMED: dict[str, Callable[[], Figure]] = {
    "frontier": lambda: viz.frontier_figure([nothing_changed()], quantity=WORTH),
    "progress": lambda: viz.progress_figure(sequence(), quantity=WORTH),
    "cohort": lambda: viz.cohort_figure([1.0, 2.0], quantity=WORTH),
    "outcomes": lambda: viz.outcome_figure([1.0, 2.0], 1.0, quantity=WORTH),
    "trajectory": trajectory,
    "convergence": lambda: plan(LONG),
}


@pytest.mark.parametrize("name", NAMED)
def test_long_names_stay_inside(name: str) -> None:
    figure = NAMED[name]()
    figure.draw_without_rendering()
    whole = figure.bbox
    texts = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    for text in texts:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0, text
        assert box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0, text
        assert box.y1 <= whole.y1, text


def test_long_names_stay_inside_on_screens() -> None:
    layout = interactive.frontier_figure([nothing_changed()], quantity=WORTH).layout
    assert max(map(len, layout.yaxis.title.text.split("<br>"))) <= 30
    assert max(map(len, trajectory(interactive).layout.yaxis.title.text.split("<br>"))) <= 30


def test_budgets_are_whole_numbers() -> None:
    axes = viz.frontier_figure([nothing_changed()]).axes[0]
    assert axes.get_xticks().tolist() == [0]


def test_a_certain_probability_is_a_narrow_bar_between_0_and_1() -> None:
    survival = Quantity("survival", percent=True)
    figure = viz.outcome_figure([0.0], 0.0, quantity=survival)
    (bar,) = figure.axes[0].patches
    assert bar.get_width() <= 0.05
    assert figure.axes[0].get_xlim() == (-0.03, 1.03)
    screen = interactive.outcome_figure([0.0], 0.0, quantity=survival)
    assert screen.data[0].width <= 0.05
    assert tuple(screen.layout.xaxis.range) == (-0.03, 1.03)


@pytest.mark.parametrize(("gains", "names"), [([0.0, 0.0], ["no change helps"]), ([1.0], ["top"])])
def test_the_legend_of_a_cohort_names_only_what_is_drawn(
    gains: list[float], names: list[str]
) -> None:
    (legend,) = viz.cohort_figure(gains).legends
    screen = interactive.cohort_figure(gains)
    for shown in ([text.get_text() for text in legend.get_texts()], [b.name for b in screen.data]):
        assert len(shown) == len(names)
        assert shown[0].startswith(names[0])
    assert screen.layout.showlegend  # which plotly leaves out for a single entry
    assert screen.layout.yaxis.dtick == 1


def test_numbers_of_many_steps_do_not_lie_on_each_other() -> None:
    levels = np.arange(STEPS, dtype=float)
    band = viz.StateBand("observed", levels, [f"{level:.3f}" for level in levels])
    figure = viz.change_strip_figure(np.ones(STEPS), [band])
    assert list(figure.axes[0].texts) == []
    screen = interactive.change_strip_figure(np.ones(STEPS), [band])
    assert screen.data[1].texttemplate == ""
    assert len(screen.layout.xaxis.tickvals) <= 24


def test_large_outcomes_have_room_for_their_numbers() -> None:
    values = np.linspace(110_000.0, 305_000.0, 40)
    figure = viz.outcome_figure(values, 165_000.0)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0


def test_no_row_of_a_table_on_screens_is_hidden() -> None:
    names = ("fluids 4, vasopressor 0",) * 7
    table = viz.explanations.ExplanationTable(
        tuple(range(7)), (names,) * 6, names, (("1 %", "2"),) * 6
    )
    figure = interactive.explanations_figure(table)
    cells = figure.data[0].cells
    assert cells.height > 26  # the names take two lines
    assert figure.layout.height >= cells.height * 7 + 26


@pytest.mark.parametrize(("name", "written"), [("vasopressor (µg/kg/min)", True), (LONG, False)])
def test_changes_are_written_where_the_names_leave_room(name: str, written: bool) -> None:
    values = np.linspace(9.0, 5.0, 12)
    moves = tuple(viz.Move(t, name, 0.0, 0.3) for t in range(3))
    figure = viz.trajectory_figure(viz.Trajectory(values, values - 1.0, moves, "SOFA"))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts.count("+0.3") == (3 if written else 0)
