"""Meanings are told apart by anyone, on any paper."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from counterplan.viz import style
from counterplan.viz.style import FULL, MEANINGS, PALE, SERIES, TAIL, Mark

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
    for field in ("marker", "line", "symbol", "dash"):
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
    greys = [grey(colour) for colour in (PALE, FULL, TAIL)]
    assert greys == sorted(greys, reverse=True)
    assert min(-np.diff(greys)) > 20.0


def test_severity_darkens_evenly_in_grey() -> None:
    colours = style.severity_colours()(np.linspace(0.0, 1.0, 50))
    greys = colours[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(greys) < 0.0).all()
    assert [grey(colour) for colour in style.SEVERITY] == sorted(
        (grey(colour) for colour in style.SEVERITY), reverse=True
    )
