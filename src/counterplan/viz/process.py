"""How a fitted law of prices predicts what it was not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import whole_number
from counterplan.viz import style
from counterplan.viz.style import COUNTERFACTUAL_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.planning.processes.fit import FittedProcess

BINS = 10


def process_figure(process: FittedProcess, series: int = 0) -> Figure:
    """Three views of held-out steps: the last of them in the fan of 50 % and 90 % bands that was
    predicted before; where all fell in their one-step predictions, evenly if the law is right; and
    the autocorrelation of shocks, within the grey band if they are independent.

    series  which, if there are several
    """
    i = whole_number(series, "series", maximum=process.series - 1)
    records, name = process.records, process.names[i]
    figure = style.new_figure(7.6, 2.7)
    fan_axes, pit_axes, lag_axes = figure.subplots(1, 3, width_ratios=[1.7, 1.0, 1.0])
    for axes in (fan_axes, pit_axes, lag_axes):
        style.style_axes(axes)
    fan, seen = records["fan"][:, :, i], records["seen"][:, i]
    ahead = np.arange(fan.shape[1])
    for low, high, alpha, label in ((0, 4, 0.45, "90 % band"), (1, 3, 0.95, "50 % band")):
        fan_axes.fill_between(
            ahead, fan[low], fan[high], color=style.BAND, alpha=alpha, linewidth=0, label=label
        )
    fan_axes.plot(ahead, fan[2], **COUNTERFACTUAL_MARK.look(1.6, 0), label="median predicted")
    times = np.arange(len(seen)) - (len(seen) - fan.shape[1])
    fan_axes.plot(times, seen, **OBSERVED_MARK.look(1.3, 0), label="seen")
    fan_axes.set_xlabel("steps after the prediction")
    fan_axes.set_ylabel(style.wrapped(name, 2.0))
    pit = records["pit"][:, i]
    spread = 1.645 * np.sqrt((1 - 1 / BINS) / BINS / len(pit))
    pit_axes.axhspan(
        1 / BINS - spread, 1 / BINS + spread, color=style.MUTED, alpha=0.4, linewidth=0
    )
    weights = np.full(len(pit), 1 / len(pit))
    pit_axes.hist(
        pit, BINS, range=(0.0, 1.0), weights=weights, color=style.FULL, alpha=0.8, rwidth=0.9
    )
    pit_axes.set_xlabel(f"place in prediction\n({len(pit):,} held-out steps)")
    pit_axes.set_ylabel("share of steps")
    lags = records["shock_correlation"][:, i]
    reach = 1.645 / np.sqrt(process.about["rows"])
    lag_axes.axhspan(-reach, reach, color=style.MUTED, alpha=0.4, linewidth=0)
    lag_axes.bar(np.arange(1, len(lags) + 1), lags, color=style.FULL, width=0.6)
    lag_axes.set_xlabel("lag in steps")
    lag_axes.set_ylabel("correlation of shocks")
    style.legend_above(figure, columns=4)
    return figure
