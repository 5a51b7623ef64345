"""When an explanation changes the course (the paper's Figure 4b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class StateBand:
    """One course of states, drawn as a row of cells.

    label   what course it is
    levels  (T,) how severe each state is; nan where severity means nothing
    texts   T words for the cells
    """

    label: str
    levels: FloatArray
    texts: Sequence[str]


def change_strip_figure(
    change_probabilities: ArrayLike,
    bands: Sequence[StateBand],
    *,
    severity: str = "severity",
    scale: tuple[float, float] | None = None,
) -> Figure:
    """How often each step is changed, above bands of states; darker means more severe.

    change_probabilities  (T,), or (T, A) as `PolicyExplanation.change_probabilities` gives them
    bands                 e.g. the observed states and the likeliest counterfactual ones
    severity              what the bands' levels measure
    scale                 the levels drawn palest and darkest, by default those that occur
    """
    changed = np.asarray(change_probabilities, dtype=np.float64)
    changed = changed.sum(axis=1) if changed.ndim == 2 else changed
    steps = len(changed)
    for band in bands:
        if len(band.levels) != steps or len(band.texts) != steps:
            raise InputError(
                f"change_strip_figure: the band {band.label!r} has {len(band.levels)} levels and "
                f"{len(band.texts)} texts for {steps} steps"
            )
    width = max(5.6, 2.2 + 0.42 * steps)
    figure = style.new_figure(width, 1.5 + 0.36 * len(bands))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.1, 0.36 * len(bands)])
    _draw_changes(upper, changed)
    _draw_bands(lower, bands, severity, scale or _extremes(bands))
    lower.set_xlim(-0.6, steps - 0.4)
    lower.set_xticks(range(steps))
    lower.set_xlabel("step", size=style.TEXT_SIZE, color=style.INK)
    return figure


def _draw_changes(axes: Axes, changed: FloatArray) -> None:
    style.style_axes(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.bar(range(len(changed)), changed, width=0.82, color=style.COUNTERFACTUAL)
    for t, probability in enumerate(changed):
        if probability >= 0.005:
            text = share(probability).removesuffix(" %")
            axes.text(
                t, probability + 0.03, text, ha="center", va="bottom",
                size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.set_ylim(0.0, 1.25)
    axes.set_yticks([0.0, 0.5, 1.0])
    Quantity(percent=True).label_axis(axes.yaxis)
    axes.set_ylabel("changed", size=style.TEXT_SIZE, color=style.INK)


def _draw_bands(
    axes: Axes, bands: Sequence[StateBand], severity: str, scale: tuple[float, float]
) -> None:
    from matplotlib.colors import Normalize

    style.bare_axes(axes)
    norm = Normalize(*scale)
    colours = style.severity_colours()
    for row, band in enumerate(bands):
        for t, (level, text) in enumerate(zip(band.levels, band.texts, strict=True)):
            if not text and np.isnan(level):  # the course is over
                continue
            colour = colours(norm(level)) if np.isfinite(level) else "white"
            axes.barh(
                row, 0.94, left=t - 0.47, height=0.86, color=colour,
                edgecolor=style.MUTED, linewidth=0.5,
            )  # fmt: skip
            size = style.SMALL_SIZE if len(text) <= 5 else style.SMALL_SIZE - 1.5
            axes.text(t, row, text, ha="center", va="center", size=size, color=style.ink_on(colour))
    axes.set_yticks(range(len(bands)), [band.label for band in bands])
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_ylim(len(bands) - 0.45, -0.55)
    title = f"{severity}: darker is worse"
    axes.set_title(title, size=style.SMALL_SIZE, color=style.SOFT_INK, pad=3)


def _extremes(bands: Sequence[StateBand]) -> tuple[float, float]:
    levels = np.concatenate([band.levels for band in bands])
    finite = levels[np.isfinite(levels)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return low, high if high > low else low + 1.0
