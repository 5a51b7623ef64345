"""When an explanation changes actions, above the states (Figure 4b of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray, Seed
from counterplan.viz import style
from counterplan.viz.explained import (
    Course,
    ExplainedEpisode,
    Rows,
    explained_episode,
)
from counterplan.viz.labels import Labels, Named, labels_of, step_title
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.style import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WHAT = "change_strip_figure"
# Up to so many steps each has its number.
MOST_NUMBERS = 24
# Inches: of the widest strip, and of the narrowest cell that holds a text or a percentage.
WIDEST, NARROWEST, NUMBER = 11.0, 0.32, 0.24
# Darker cells have higher levels: what that means, by what is better.
DARKER = {"lower": "worse", "higher": "better", None: "higher"}


@dataclass(frozen=True, eq=False)
class StateBand:
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
    known = labels_of(labels)
    episode, place = explained_episode(found, known, feature, WHAT, seed), known.place(feature)
    times: Any = episode.times
    if times is None:
        times = (known.step if known.unit else 1.0) * np.arange(len(episode.changed))
    heading = f"{known.title(place)}: darker is {DARKER[known.features[place].better]}"
    bands = _bands(episode, known, place)
    return draw_change_strip(episode.changed, bands, heading, times, step_title(known.unit))


def draw_change_strip(
    changed: FloatArray,
    bands: Sequence[StateBand],
    heading: str,
    times: Sequence[float],
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


def _bands(episode: ExplainedEpisode, labels: Labels, place: int) -> list[StateBand]:
    bands = [_band(course, labels, place) for course in episode.courses]
    return bands if episode.sampled is None else [*bands, _average(episode.sampled)]


def _band(course: Course, labels: Labels, place: int) -> StateBand:
    """A trajectory as cells; in the first one after it is over stands how it ended."""
    texts = ["" if np.isnan(one) else labels.text(place, float(one)) for one in course.values]
    if "" in texts:
        texts[texts.index("")] = course.ending
    return StateBand(course.name, course.values, texts)


def _average(sampled: FloatArray) -> StateBand:
    """The mean of those sampled trajectories that are not over."""
    going = np.isfinite(sampled)
    totals, counts = np.where(going, sampled, 0.0).sum(axis=0), going.sum(axis=0)
    means = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    texts = ["" if np.isnan(mean) else f"{mean:.3g}" for mean in means]
    return StateBand("average", means, texts)
