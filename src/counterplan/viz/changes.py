"""When an explanation changes the course (Figure 4b of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray, Seed
from counterplan.counterfactual.continuous.setting import SequenceExplanation
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import (
    Labels,
    Named,
    Quantity,
    Rows,
    as_rows,
    is_table,
    labels_of,
    one_episode,
    share,
    step_title,
)
from counterplan.viz.style import figure_function, fitted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How many courses the average of a policy's is taken over.
COURSES = 1_000
# Up to so many steps each has its number.
MOST_NUMBERS = 24


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


@dataclass(frozen=True, eq=False)
class ChangeStrip:
    """What a strip shows.

    changed   (T,) how often each step is changed
    bands     courses of states
    severity  what their levels measure
    scale     the levels drawn palest and darkest
    times     T texts under the steps
    title     what these are
    darker    what a darker cell is
    """

    changed: FloatArray
    bands: tuple[StateBand, ...]
    severity: str = "severity"
    scale: tuple[float, float] = (0.0, 1.0)
    times: tuple[str, ...] = ()
    title: str = "step"
    darker: str = "worse"

    def __post_init__(self) -> None:
        steps = len(self.changed)
        for band in self.bands:
            if len(band.levels) != steps or len(band.texts) != steps:
                raise InputError(
                    f"change_strip_figure: the band {band.label!r} has {len(band.levels)} levels "
                    f"and {len(band.texts)} texts for {steps} steps"
                )
        if len(self.times) != steps:
            object.__setattr__(self, "times", tuple(str(t) for t in range(steps)))

    @property
    def every(self) -> int:
        """Every so many steps have a number below them."""
        return -(-len(self.changed) // MOST_NUMBERS)

    @property
    def longest(self) -> int:
        """Letters in the longest cell."""
        return max(len(text) for band in self.bands for text in band.texts)

    @property
    def heading(self) -> str:
        """How the cells are read."""
        return f"{self.severity}: darker is {self.darker}"

    def shade(self, level: float) -> float:
        """Where a level lies between the palest (0) and the darkest (1)."""
        low, high = self.scale
        return float(np.clip((level - low) / (high - low), 0.0, 1.0))


@dataclass(frozen=True)
class _Course:
    """A course under way: its name and the states (T,) or (T, D)."""

    label: str
    states: Any = field(repr=False)


def change_strip_data(
    found: Explanation | Rows | ArrayLike | ChangeStrip,
    bands: Sequence[StateBand] = (),
    *,
    labels: Named | None = None,
    feature: str | int | None = None,
    severity: str | None = None,
    scale: tuple[float, float] | None = None,
    seed: Seed = 0,
) -> ChangeStrip:
    """How often each step is changed, above bands of states; darker means more severe.

    found     an explanation, rows of a run's `trajectories` of one episode and k, or
              probabilities: (T,), or (T, A) as `PolicyExplanation.change_probabilities` gives them
    bands     courses of states; with `labels` those observed, counterfactual and, where chance
              decides, on average
    labels    where names and units come from: a schema, a layout, a model, or `Labels`
    feature   what the bands show: a name or number
    severity  what the bands' levels measure
    scale     the levels drawn palest and darkest, by default those that occur
    seed      of the courses that an average is taken over
    """
    if isinstance(found, ChangeStrip):
        return found
    changed, courses, times = _read(found, seed)
    known = None if labels is None else labels_of(labels)
    if known is not None:
        place = known.place(feature)
        bands = bands or [_band(one, known, place) for one in courses]
        severity = severity or known.title(place)
    if not bands:
        raise InputError("change_strip_figure: no bands of states: pass bands= or labels=")
    return ChangeStrip(
        changed,
        tuple(bands),
        severity or "severity",
        scale or _extremes(bands),
        _times(len(changed), known, times),
        step_title("" if known is None else known.unit),
        _darker(known, feature),
    )


def _read(found: Any, seed: Seed) -> tuple[FloatArray, list[_Course], list[float] | None]:
    """How often each step is changed, the courses, and when steps begin if that is known."""
    if isinstance(found, PolicyExplanation):
        return found.change_probabilities().sum(axis=1), _policy_courses(found, seed), None
    if isinstance(found, SequenceExplanation):
        changed = np.zeros(len(found.episode))
        changed[[change.t for change in found.changes]] = 1.0
        observed = _Course("observed", found.episode.states)
        return changed, [observed, _Course("counterfactual", found.states)], None
    if is_table(found):
        return _read_rows(found)
    changed = np.asarray(found, dtype=np.float64)
    return changed.sum(axis=1) if changed.ndim == 2 else changed, [], None


def _policy_courses(found: PolicyExplanation, seed: Seed) -> list[_Course]:
    return [
        _Course("observed", found.episode.states),
        _Course("likeliest", found.most_likely.states),
        _Course("average", found.sample(COURSES, seed=seed).states),
    ]


def _read_rows(table: Any) -> tuple[FloatArray, list[_Course], list[float] | None]:
    what = "change_strip_figure"
    needed = ("episode_id", "k", "t", "time", "change_probability")
    rows = one_episode(as_rows(table, what, *needed), what)
    courses = []
    for prefix, label in (("", "observed"), ("counterfactual_", "counterfactual")):
        names = [name for name in rows[0] if name.startswith((f"{prefix}state:", f"{prefix}state"))]
        columns = [[row[name] for row in rows] for name in names]
        states = np.array(columns[0] if names == [f"{prefix}state"] else np.transpose(columns))
        courses.append(_Course(label, states))
    changed = np.array([row["change_probability"] for row in rows], dtype=np.float64)
    return changed, courses, [float(row["time"]) for row in rows]


def _band(course: _Course, labels: Labels, place: int) -> StateBand:
    values = labels.values(course.states, place)
    if values.ndim == 2:  # sampled courses: the mean of those that are not over
        going = np.isfinite(values)
        totals, counts = np.where(going, values, 0.0).sum(axis=0), going.sum(axis=0)
        means = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return StateBand(course.label, means, [_number(mean) for mean in means])
    texts = []
    over = False
    for state, value in zip(course.states, values, strict=True):
        if np.isnan(value):
            texts.append("" if over else labels.endings.get(int(state), ""))
            over = True
        else:
            texts.append(labels.text(place, float(value)))
    return StateBand(course.label, values, texts)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}"


def _times(steps: int, labels: Labels | None, times: list[float] | None) -> tuple[str, ...]:
    if times is not None:
        return tuple(f"{time:g}" for time in times)
    step = 1.0 if labels is None or not labels.unit else labels.step
    return tuple(f"{step * t:g}" for t in range(steps))


def _darker(labels: Labels | None, feature: str | int | None) -> str:
    """Darker cells have higher levels, whatever is good."""
    if labels is None:
        return "worse"
    better = labels.features[labels.place(feature)].better
    return {"lower": "worse", "higher": "better", None: "higher"}[better]


def _extremes(bands: Sequence[StateBand]) -> tuple[float, float]:
    levels = np.concatenate([band.levels for band in bands])
    finite = levels[np.isfinite(levels)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return low, high if high > low else low + 1.0


# ----------------------------------------------------------------------------------------------
# When an explanation changes the course, for print.

# Inches: of the widest strip, and of the narrowest cell that holds a text or a percentage.
WIDEST, NARROWEST, NUMBER = 11.0, 0.32, 0.24


def draw_change_strip(data: ChangeStrip) -> Figure:
    """Bars for how often a step is changed, above rows of shaded cells."""
    steps, rows = len(data.changed), len(data.bands)
    width = min(max(5.6, 2.2 + 0.42 * steps), WIDEST)
    figure = style.new_figure(width, 1.5 + 0.36 * rows)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.1, 0.36 * rows])
    cell = (width - 1.6) / steps
    _draw_changes(upper, data, numbers=cell >= NUMBER)
    _draw_bands(lower, data, texts=cell >= NARROWEST)
    lower.set_xlim(-0.6, steps - 0.4)
    lower.set_xticks(range(0, steps, data.every), data.times[:: data.every])
    lower.set_xlabel(plain(data.title), size=style.TEXT_SIZE, color=style.INK)
    return figure


def _draw_changes(axes: Axes, data: ChangeStrip, *, numbers: bool) -> None:
    style.style_axes(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.bar(range(len(data.changed)), data.changed, width=0.82, color=style.COUNTERFACTUAL)
    for t, probability in enumerate(data.changed):
        if numbers and probability >= 0.005:
            axes.text(
                t, probability + 0.03, share(probability).removesuffix(" %"), ha="center",
                va="bottom", size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.set_ylim(0.0, 1.25)
    axes.set_yticks([0.0, 0.5, 1.0])
    Quantity(percent=True).label_axis(axes.yaxis)
    axes.set_ylabel("changed", size=style.TEXT_SIZE, color=style.INK)


def _draw_bands(axes: Axes, data: ChangeStrip, *, texts: bool) -> None:
    """Rows of cells, with their texts where these fit; how a course ends is always told."""
    style.bare_axes(axes)
    colours = style.severity_colours()
    for row, band in enumerate(data.bands):
        for t, (level, text) in enumerate(zip(band.levels, band.texts, strict=True)):
            if not text and np.isnan(level):  # the course is over
                continue
            colour = colours(data.shade(level)) if np.isfinite(level) else "white"
            axes.barh(
                row, 0.94, left=t - 0.47, height=0.86, color=colour,
                edgecolor=style.MUTED, linewidth=0.5,
            )  # fmt: skip
            if not texts and np.isfinite(level):
                continue
            size = style.SMALL_SIZE if len(text) <= 5 else style.SMALL_SIZE - 1.5
            axes.text(
                t, row, plain(text), ha="center", va="center", size=size,
                color=style.ink_on(colour),
            )  # fmt: skip
    axes.set_yticks(range(len(data.bands)), [plain(band.label) for band in data.bands])
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_ylim(len(data.bands) - 0.45, -0.55)
    axes.set_title(
        fitted(data.heading, 4.0, style.SMALL_SIZE),
        size=style.SMALL_SIZE,
        color=style.SOFT_INK,
        pad=3,
    )


change_strip_figure = figure_function(change_strip_data, draw_change_strip, "change_strip_figure")
