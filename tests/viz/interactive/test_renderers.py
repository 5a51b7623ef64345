"""Figures for screens show what those for print show, number by number."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan import viz
from counterplan import viz as figures
from counterplan.viz import interactive, style
from counterplan.viz.changes import change_strip_data
from counterplan.viz.cohort import cohort_data
from counterplan.viz.explanations import explanations_data
from counterplan.viz.interactive.canvas import plain
from counterplan.viz.outcomes import outcome_data
from counterplan.viz.path import path_data
from counterplan.viz.trajectory import trajectory_data

from ..results import (
    FIGURES,
    GAINS,
    INTERVALS,
    ODD,
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


def drawn(name: str) -> dict[str, Any]:
    """A figure as the page has it."""
    found: dict[str, Any] = json.loads(FIGURES[name](interactive).to_json())
    return found


def trace(figure: dict[str, Any], name: str) -> dict[str, Any]:
    """The only trace of this name that is drawn."""
    found = [one for one in figure["data"] if one.get("name") == name and one["y"] != [None]]
    assert len(found) == 1, name
    one: dict[str, Any] = found[0]
    return one


def names(figure: dict[str, Any]) -> set[str]:
    """What the legend says."""
    return {one["name"] for one in figure["data"] if one.get("showlegend", True)}


@pytest.mark.parametrize("name", [name for name in viz.__all__ if name.endswith("_figure")])
def test_both_renderers_take_the_same_arguments(name: str) -> None:
    if name == "save_figure":
        return
    one, other = (
        inspect.signature(getattr(module, name)).parameters for module in (figures, interactive)
    )
    assert one == other
    assert getattr(figures, name).__doc__ == getattr(interactive, name).__doc__


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_small_and_carries_no_template(name: str) -> None:
    figure = drawn(name)
    assert "template" not in figure["layout"] or not figure["layout"]["template"].get("layout")
    assert len(json.dumps(figure)) < 20_000
    assert "http" not in json.dumps(figure)
    assert figure["layout"]["autosize"] is True


@pytest.mark.parametrize("name", FIGURES)
def test_legends_say_the_same_as_in_print(name: str) -> None:
    figure, printed = drawn(name), FIGURES[name](figures)
    if not printed.legends:
        return
    said = {text.get_text() for text in printed.legends[0].get_texts()}
    # What arrows show in print are markers with names here.
    extra = {"raised", "lowered", "replaced"}
    assert {plain(text.replace(r"\$", "$")) for text in said} == names(figure) - extra


def test_trajectory() -> None:
    figure, data = drawn("trajectory"), trajectory_data(sequence(), drugs(), feature="burden")
    for label, values in (("observed", data.observed), ("counterfactual", data.counterfactual)):
        one = trace(figure, label)
        np.testing.assert_array_equal(one["x"], data.times)
        np.testing.assert_array_equal(one["y"], values)
    assert figure["layout"]["yaxis2"]["ticktext"] == list(data.doses)
    for direction, name, symbol in ((1, "raised", "triangle-up"), (-1, "lowered", "down-open")):
        moves = [move for move in data.moves if move.direction == direction]
        one = trace(figure, name)
        assert one["text"] == [move.label for move in moves]
        assert one["x"] == [data.time(move.t) for move in moves]
        assert symbol in one["marker"]["symbol"]
    assert figure["layout"]["yaxis"]["title"]["text"] == "burden"
    assert figure["layout"]["xaxis"]["title"]["text"] == "time (d)"


def test_trajectory_of_a_policy_shows_a_band_and_names() -> None:
    figure, data = drawn("trajectory of a policy"), trajectory_data(policy(), layout())
    np.testing.assert_array_equal(trace(figure, "8 in 10 courses")["y"], data.high)
    np.testing.assert_array_equal(trace(figure, "low")["y"], data.low)


def test_frontier() -> None:
    figure, frontier = drawn("frontier"), discrete()[1]
    np.testing.assert_array_equal(trace(figure, "best explanation, proved")["y"], frontier.values)
    assert trace(figure, "guaranteed in every model")["y"] == [0.0, 1.0, 2.0]
    assert trace(figure, "observed")["y"] == [frontier[0].factual_value] * 2
    ranges = trace(figure, "range over causal models")
    assert ranges["customdata"] == [list(one) for one in INTERVALS]
    np.testing.assert_allclose(ranges["base"], [one.low for one in INTERVALS])
    np.testing.assert_allclose(ranges["y"], [one.width for one in INTERVALS])
    gap = drawn("frontier with a gap")
    assert trace(gap, "bound: nothing is better")["y"] == [sequence(4).bound]


def test_outcomes() -> None:
    figure, data = drawn("outcome"), outcome_data(policy())
    np.testing.assert_array_equal(trace(figure, "not better")["y"], data.rest)
    (better,) = (name for name in names(figure) if name.startswith("better than observed"))
    np.testing.assert_array_equal(trace(figure, better)["y"], data.better)
    assert trace(figure, "observed")["x"] == [data.observed] * 2
    assert trace(figure, "expected")["x"] == [data.mean] * 2


def test_strip() -> None:
    figure, data = drawn("change strip"), change_strip_data(policy(), labels=layout())
    np.testing.assert_array_equal(trace(figure, "changed")["y"], data.changed)
    (cells,) = (one for one in figure["data"] if one["type"] == "heatmap")
    shades = [[data.shade(level) for level in band.levels] for band in data.bands]
    np.testing.assert_allclose(cells["z"], shades)
    assert cells["text"] == [list(band.texts) for band in data.bands]
    assert figure["layout"]["yaxis2"]["ticktext"] == [band.label for band in data.bands]
    ended = viz.StateBand("x", np.array([1.0, np.nan]), ["1", "<died>"])
    written = interactive.change_strip_figure([0.1, 0.2], [ended]).to_dict()
    assert "&lt;died&gt;" in [one["text"] for one in written["layout"]["annotations"]]


def test_explanations() -> None:
    figure, data = drawn("explanations"), explanations_data(policy())
    cells = figure["data"][0]["cells"]["values"]
    assert cells[0] == list(data.names)
    for place in range(len(data.steps)):
        column = [*(row[place] for row in data.rows), data.observed[place]]
        assert cells[1 + place] == [plain(text) for text in column]
    assert cells[-2] == [*(plain(often) for often, _ in data.margins), ""]


def test_intervals() -> None:
    figure = drawn("interval")
    assert trace(figure, "best explanation")["x"] == [0.8, 0.6]
    assert trace(figure, "guaranteed in every model")["x"] == [0.5]
    assert trace(figure, "range over stable ones")["customdata"] == [[0.4, 0.9]]
    assert figure["layout"]["yaxis"]["ticktext"] == ["first", plain(ODD)]
    low, high = figure["layout"]["yaxis"]["range"]
    assert low > high, "the first case is on top"


def test_cohort() -> None:
    figure = drawn("cohort")
    data = cohort_data(GAINS, guaranteed=[0.5 * gain for gain in GAINS])
    assert trace(figure, "no change helps")["y"] == [data.none]
    np.testing.assert_array_equal(trace(figure, "best explanation")["y"], data.body)
    tail = trace(figure, data.tail_name)
    np.testing.assert_array_equal(tail["y"], data.tail)
    assert tail["marker"]["pattern"]["shape"] == "/"
    assert max(y for y in trace(figure, "guaranteed in every model")["y"] if y) == max(
        data.unsure, data.sure.max()
    )


def test_progress() -> None:
    figure, history = drawn("progress"), sequence().history
    np.testing.assert_array_equal(trace(figure, "best found so far")["y"], history[:, 1])
    np.testing.assert_array_equal(trace(figure, "bound: nothing is better")["y"], history[:, 2])
    assert "proved optimal" in figure["layout"]["xaxis"]["title"]["text"]


def test_path() -> None:
    figure = drawn("path")
    data = path_data(voyage()[1], ship(), voyage()[0])
    assert trace(figure, "price")["y"] == voyage()[0][:, 0].tolist()
    for player in data.players:
        drawn_lines = [one["y"] for one in figure["data"] if one["name"] == player.name]
        assert player.actions[:, 0].tolist() in drawn_lines
        assert player.levels[:, 0].tolist() in drawn_lines
    assert data.losses is not None
    assert trace(figure, "expected loss")["y"] == data.losses.tolist()


@pytest.mark.parametrize(
    "problem", [cp.domains.HybridVehicle("A"), cp.domains.OptionBasket("A")], ids=["car", "basket"]
)
def test_paths_of_other_problems_are_drawn(problem: Any) -> None:
    path = problem.sample_path(seed=1)
    lost = cp.regret(problem, path, cp.hindsight(problem, path).actions)
    figure = interactive.path_figure(lost, problem, path)
    data = path_data(lost, problem, path)
    titles = [one.title.text.replace("<br>", " ") for one in figure.select_yaxes()]
    assert titles == [panel.title for panel in data.panels]


def test_convergence() -> None:
    figure = drawn("convergence")
    for name in plans():
        assert trace(figure, plain(name))["x"] == [20.0, 80.0]
    assert trace(figure, "lower bound: hindsight")["y"] == [bounds().lower] * 2
    assert trace(figure, "upper bound: executed open loop")["y"] == [bounds().upper] * 2
    assert trace(figure, "optimum V*")["y"] == [cp.exact_value(ship())] * 2


def test_meanings_have_the_looks_of_print() -> None:
    one = trace(drawn("trajectory"), "observed")
    assert one["line"]["dash"] == "dash"
    assert one["marker"]["symbol"] == "square"
    assert one["line"]["color"] == style.OBSERVED
