"""When an explanation changes actions, above the states (Figure 4b of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray, Seed
from counterplan.viz import style
from counterplan.viz.explained import Rows, is_policy, trajectory_of
from counterplan.viz.labels import Named, labels_of, step_title
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.style import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Up to so many steps each has its number.
MOST_NUMBERS = 24
# Inches: of the widest strip, and of the narrowest cell that holds a text or a percentage.
WIDEST, NARROWEST, NUMBER = 11.0, 0.32, 0.24
# Darker cells have higher levels: what that means, by what is better.
DARKER = {"lower": "worse", "higher": "better", None: "higher"}


class StateBand(NamedTuple):
    """One trajectory of states, drawn as a row of cells.

    label   which one it is
    levels  (T,) how severe each state is; nan where severity means nothing
    texts   T words for the cells
    """

    label: str
    levels: FloatArray
    texts: Sequence[str]


def change_strip_figure(
    found: Explanation | Rows, labels: Named, *, feature: str | int | None = None, seed: Seed = 0
) -> Figure:
    """How often each step is changed, above the states observed, counterfactual and, where chance
    decides, on average; darker means more severe.

    found    an explanation, or rows of a run's `trajectories` of one episode and k
    labels   where names and units come from: a schema, a layout, a model, or `Labels`
    feature  what the bands show: a name or number
    seed     of the samples that an average is taken over
    """
    known, what = labels_of(labels), "change_strip_figure"
    shown = trajectory_of(found, known, feature=feature, what=what, seed=seed)
    names = dict(shown.ticks)
    bands = []
    for name, values, ending in (
        ("observed", shown.observed, shown.endings[0]),
        ("likeliest" if is_policy(found) else "counterfactual", shown.counterfactual,
         shown.endings[1]),
    ):  # fmt: skip
        texts = ["" if np.isnan(one) else names.get(one) or f"{one:.3g}" for one in values.tolist()]
        if "" in texts:  # in the first cell after it is over stands how it ended
            texts[texts.index("")] = ending
        bands.append(StateBand(name, values, texts))
    if shown.sampled is not None:
        bands.append(_average(shown.sampled))
    better = known.features[known.place(feature)].better
    heading = f"{shown.feature}: darker is {DARKER[better]}"
    assert shown.changed is not None
    return draw_change_strip(shown.changed, bands, heading, shown.times, step_title(known.unit))


def draw_change_strip(
    changed: FloatArray,
    bands: Sequence[StateBand],
    heading: str,
    times: FloatArray | Sequence[float],
    time_title: str,
) -> Figure:
    """Bars for how often a step is changed, above rows of shaded cells under a heading."""
    steps, rows = len(changed), len(bands)
    width = min(max(5.6, 2.2 + 0.42 * steps), WIDEST)
    figure = style.new_figure(width, 1.5 + 0.36 * rows)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.1, 0.36 * rows])
    cell = (width - 1.6) / steps
    _draw_changes(upper, changed, numbers=cell >= NUMBER)
    _draw_bands(lower, bands, texts=cell >= NARROWEST)
    wrapped = style.wrapped(heading, 4.0, style.SMALL_SIZE)
    lower.set_title(wrapped, size=style.SMALL_SIZE, color=style.SOFT_INK, pad=3)
    lower.set_xlim(-0.6, steps - 0.4)
    every = -(-steps // MOST_NUMBERS)
    lower.set_xticks(range(0, steps, every), [f"{time:g}" for time in times[::every]])
    lower.set_xlabel(literal(time_title), size=style.TEXT_SIZE, color=style.INK)
    return figure


def _draw_changes(axes: Axes, changed: FloatArray, *, numbers: bool) -> None:
    style.style_axes(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.bar(range(len(changed)), changed, width=0.82, color=style.COUNTERFACTUAL)
    for t, probability in enumerate(changed):
        if numbers and probability >= 0.005:
            text = share(probability).removesuffix(" %")
            style.write(axes, t, probability + 0.03, text, va="bottom")
    axes.set_ylim(0.0, 1.25)
    axes.set_yticks([0.0, 0.5, 1.0])
    Quantity(percent=True).label_axis(axes.yaxis)
    axes.set_ylabel("changed", size=style.TEXT_SIZE, color=style.INK)


def _draw_bands(axes: Axes, bands: Sequence[StateBand], *, texts: bool) -> None:
    """Rows of cells, with their texts where these fit; how a trajectory ends is always written."""
    style.bare_axes(axes)
    colours, (low, high) = style.severity_colours(), _extremes(bands)
    for row, band in enumerate(bands):
        for t, (level, text) in enumerate(zip(band.levels, band.texts, strict=True)):
            if not text and np.isnan(level):  # it is over
                continue
            shade = float(np.clip((level - low) / (high - low), 0.0, 1.0))
            colour = colours(shade) if np.isfinite(level) else "white"
            axes.barh(
                row, 0.94, left=t - 0.47, height=0.86, color=colour,
                edgecolor=style.MUTED, linewidth=0.5,
            )  # fmt: skip
            if texts or np.isnan(level):
                size = style.SMALL_SIZE if len(text) <= 5 else style.SMALL_SIZE - 1.5
                style.write(axes, t, row, text, size=size, color=style.ink_on(colour))
    axes.set_yticks(range(len(bands)), [literal(band.label) for band in bands])
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_ylim(len(bands) - 0.45, -0.55)


def _extremes(bands: Sequence[StateBand]) -> tuple[float, float]:
    levels = np.concatenate([band.levels for band in bands])
    finite = levels[np.isfinite(levels)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return low, high if high > low else low + 1.0


def _average(sampled: FloatArray) -> StateBand:
    """The mean of those sampled trajectories that are not over."""
    going = np.isfinite(sampled)
    totals, counts = np.where(going, sampled, 0.0).sum(axis=0), going.sum(axis=0)
    means = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    texts = ["" if np.isnan(mean) else f"{mean:.3g}" for mean in means]
    return StateBand("average", means, texts)
