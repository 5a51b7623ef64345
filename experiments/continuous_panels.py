"""How the figures of the 2023 paper are drawn: a look for each bound, averages with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.viz import style
from experiments.continuous_study import OURS, PAPERS
from experiments.panels import Look
from experiments.statistics import average

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {
    OURS: Look(style.COUNTERFACTUAL, "o"),
    PAPERS: Look("#d55e00", "s"),
    "mc-uniform": Look("#e69f00", "^"),
    "facility-location": Look("#9c6b98", "D"),
}
NAMES = {
    OURS: "ours: first-order bound",
    PAPERS: "paper's: anchors, MC-Lipschitz",
    "mc-uniform": "paper's: anchors, MC-uniform",
    "facility-location": "paper's: anchors, facility location",
}
BRANCHING, SECONDS = "effective_branching_factor", "cpu_seconds"
LABELS = {BRANCHING: "effective branching factor", SECONDS: "run time (CPU s)"}


class Sample(NamedTuple):
    """A quantity of several searches, and whether any of them was stopped: then its mean is lower
    than the truth."""

    values: FloatArray
    stopped: bool


def draw_averages(
    axes: Axes, places: Sequence[float], samples: Mapping[str, Sequence[Sample]]
) -> None:
    """Means with 95 % intervals at each place, a curve for each bound, markers open where the mean
    is only a lower bound; positions are evenly spaced where the places are not."""
    style.style_axes(axes)
    positions = np.arange(len(places))
    for bound, taken in samples.items():
        colour, marker = LOOKS[bound]
        means = [average(sample.values) for sample in taken]
        middle = np.array([float(mean.mean) for mean in means])
        reach = np.array([float(mean.high - mean.mean) for mean in means])
        # On a logarithmic scale an interval must not reach down to zero.
        down = np.minimum(reach, 0.9 * middle)
        axes.errorbar(
            positions, middle, yerr=[down, reach], color=colour, marker=marker, markersize=4,
            linewidth=1.3, elinewidth=1.0, capsize=2.5, label=NAMES[bound],
        )  # fmt: skip
        cut = np.array([sample.stopped for sample in taken])
        axes.plot(
            positions[cut], middle[cut], color=colour, marker=marker, markersize=4.5,
            markerfacecolor="white", linestyle="none", zorder=4,
        )  # fmt: skip
    axes.set_xticks(positions, [f"{place:g}" for place in places])
    axes.set_xlim(-0.35, len(places) - 0.65)
    axes.tick_params(which="minor", length=0)


def style_quantity(axes: Axes, quantity: str) -> None:
    """Name the vertical axis; run times are logarithmic."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_ylabel(LABELS[quantity])
    if quantity == BRANCHING:
        axes.set_ylim(bottom=0.0)
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Whole decades, so that numbers without exponents suffice.
    axes.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
