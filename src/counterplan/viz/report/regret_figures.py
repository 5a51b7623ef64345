"""What all scenarios lost, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.marks import FULL, PALE
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
# Losses below this share of the largest are none.
ROUNDING = 1e-9


def loss_figure(losses: Sequence[float], quantity: Quantity, title: str) -> Figure:
    """Histogram of what each scenario lost; those that lost nothing stand apart."""
    from matplotlib.ticker import MaxNLocator

    values = np.array(losses, dtype=np.float64)
    low, top = min(0.0, float(values.min())), float(values.max())
    is_none = np.abs(values) <= ROUNDING * max(abs(low), abs(top), 1e-300)
    if top <= low:
        top = low + 1.0
    edges = np.linspace(low, top, BINS + 1)
    heights, _ = np.histogram(values[~is_none], edges)
    figure, axes = style.new_axes(4.6, 3.1)
    width = float(edges[1] - edges[0])
    apart = low - 2.5 * width
    axes.bar(apart, int(is_none.sum()), width, color=PALE, label="lost nothing")
    axes.bar(
        edges[:-1], heights, width, align="edge", color=FULL, edgecolor="white", linewidth=0.6,
        label="lost something" if low == 0.0 else "lost, or gained by luck where negative",
    )  # fmt: skip
    ticks = [tick for tick in MaxNLocator(5).tick_values(low, top) if low <= tick <= top]
    axes.set_xticks([apart, *ticks], ["none", *(quantity.write(float(tick)) for tick in ticks)])
    axes.set_xlabel(title)
    axes.set_ylabel("scenarios")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_above(figure)
    return figure
