"""Every figure: readable by anyone on any paper, the same each time, with nothing left behind."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from counterplan import viz
from counterplan.errors import CounterplanError
from counterplan.viz import Quantity, style
from counterplan.viz.style import FULL, MEANINGS, MOST_LINES, PALE, SERIES, Mark, wrap

from .results import FIGURES, plans, sequence

# Machado, Oliveira and Fernandes 2009, severity 1: what linear colours look like without one kind
# of cone.
VISIONS = {
    "all": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
# Differences in Lab of about 2 are just seen side by side; lines on a page need more.
APART = 15.0


def linear(colour: str) -> np.ndarray:
    given = np.array(to_rgb(colour))
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE Lab of linear sRGB."""
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.clip(np.array(matrix) @ rgb, 0.0, None) / [0.9505, 1.0, 1.089]
    f = [np.cbrt(v) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def grey(colour: str) -> float:
    """As a printer without colour prints it, 0 to 100."""
    return float(lab(np.full(3, linear(colour) @ [0.2126, 0.7152, 0.0722]))[0])


@pytest.mark.parametrize("marks", [MEANINGS, SERIES], ids=["meanings", "series"])
def test_markers_and_lines_alone_tell_them_apart(marks: tuple[Mark, ...]) -> None:
    for field in ("marker", "line"):
        looks = [getattr(mark, field) for mark in marks]
        assert len(set(looks)) == len(marks), field


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_safe_for_all_kinds_of_vision(vision: str) -> None:
    for one, other in combinations(MEANINGS, 2):
        seen = [lab(VISIONS[vision] @ linear(mark.colour)) for mark in (one, other)]
        assert np.linalg.norm(seen[0] - seen[1]) > APART, (one.colour, other.colour)


def test_greys_differ_and_stand_out_from_paper() -> None:
    greys = sorted(grey(mark.colour) for mark in MEANINGS)
    assert min(np.diff(greys)) > 3.0
    # A contrast of 3 to 1 is what guidelines ask of lines and markers.
    for mark in MEANINGS:
        luminance = linear(mark.colour) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) >= 3.0, mark.colour


def test_parts_of_bars_are_told_apart_in_grey() -> None:
    greys = [grey(colour) for colour in (PALE, FULL)]
    assert greys == sorted(greys, reverse=True)
    assert min(-np.diff(greys)) > 20.0


def test_severity_darkens_evenly_in_grey() -> None:
    colours = style.severity_colours()(np.linspace(0.0, 1.0, 50))
    greys = colours[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(greys) < 0.0).all()
    assert [grey(colour) for colour in style.SEVERITY] == sorted(
        (grey(colour) for colour in style.SEVERITY), reverse=True
    )


def test_a_short_name_stays_as_it_is() -> None:
    assert wrap("SOFA (points)", 20) == ["SOFA (points)"]
    assert wrap("", 20) == [""]


@pytest.mark.parametrize("text", ["many words " * 30, "oneword" * 40, "患者" * 60])
def test_a_long_name_fits(text: str) -> None:
    lines = wrap(text, 24)
    assert len(lines) == MOST_LINES
    assert max(map(len, lines)) <= 24
    assert lines[-1].endswith("…")


LONG = "Sequential organ failure assessment of all six organs, summed over the whole of the stay"
WORTH = Quantity("outcome", unit=LONG)


def long_trajectory() -> Figure:
    values = np.linspace(9.0, 5.0, 12)
    moves = [viz.Move(t, LONG, 0.0, 1.0) for t in (0, 1)]
    return viz.trajectory_figure(viz.Trajectory(values, values - 1.0, tuple(moves), LONG))


NAMED: dict[str, Callable[[], Figure]] = {
    "frontier": lambda: viz.frontier_figure([sequence(4)], quantity=WORTH),
    "progress": lambda: viz.progress_figure(sequence(), quantity=WORTH),
    "cohort": lambda: viz.cohort_figure([1.0, 2.0], quantity=WORTH),
    "outcomes": lambda: viz.outcome_figure([1.0, 2.0], 1.0, quantity=WORTH),
    "trajectory": long_trajectory,
    "convergence": lambda: viz.convergence_figure({LONG: plans()["UCT"]}),
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


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_written_the_same_each_time(name: str) -> None:
    first, second = (style.svg_bytes(FIGURES[name]()) for _ in range(2))
    assert first == second
    text = first.decode()
    assert "<script" not in text
    assert 'href="http' not in text
    assert style.png_bytes(FIGURES[name]()).startswith(b"\x89PNG")


def test_a_dollar_in_data_is_no_formula() -> None:
    row = {"episode_id": "$\\broken{$", "value": 0.5, "interval_low": 0.0, "interval_high": 1.0}
    assert style.png_bytes(viz.interval_figure([row])).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["a\x07b", "\x00", "\x1b[31m", "\ufffe", "\ud800", "]]>--><b>&"])
def test_no_sign_in_data_breaks_a_file(name: str) -> None:
    row = {"episode_id": name, "value": 0.5, "interval_low": 0.0, "interval_high": 1.0}
    figure = viz.interval_figure([row])
    assert ElementTree.fromstring(style.svg_bytes(figure)).tag.endswith("svg")
    assert style.png_bytes(figure).startswith(b"\x89PNG")


def test_figures_say_what_they_take() -> None:
    for name in viz.__all__:
        if name.endswith("_figure") and name != "save_figure":
            function: Callable[..., Any] = getattr(viz, name)
            assert function.__name__ == name
            assert function.__doc__
            assert str(inspect.signature(function).return_annotation) == "Figure"


def test_files(tmp_path: Path) -> None:
    figure = FIGURES["cohort"]()
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
from counterplan.viz import style, trajectory
assert "matplotlib" not in sys.modules
style.svg_bytes(viz.cohort_figure([0.1, 0.5]))
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
