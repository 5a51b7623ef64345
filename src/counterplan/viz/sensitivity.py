"""What an improvement rests on that no data can tell, and whether a model's own uncertainty is
honest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import COUNTERFACTUAL_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.counterfactual.sensitivity import Sensitivity

# Of members, on each side of a band.
OUTSIDE = 0.05


def sensitivity_figure(found: Sensitivity, *, quantity: Quantity | None = None) -> Figure:
    """The improvement as luck is re-drawn and turned round (left), and as a hidden cause grows
    (right); bands hold nine in ten members, and a line marks where nothing is left.

    found  of `cp.sensitivity`; what it comes to in one sentence is `str(found)`
    """
    quantity = quantity or Quantity()
    figure = style.new_figure(5.6, 2.3)
    for axes, places, values, tipping, title in zip(
        figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.08}),
        (found.rho, found.gamma),
        (found.at_rho, found.at_gamma),
        (found.tipping_rho, found.tipping_gamma),
        ("luck kept: 1 all, 0 re-drawn, −1 flipped", "hidden cause, in units of the noise"),
        strict=True,
    ):
        style.style_axes(axes)
        if len(values) > 1:
            low, high = np.quantile(values, [OUTSIDE, 1 - OUTSIDE], axis=0)
            axes.fill_between(places, low, high, color=style.BAND, alpha=0.8, linewidth=0)
        axes.axhline(0.0, **OBSERVED_MARK.look(1.2, 0))
        axes.plot(places, values.mean(axis=0), **COUNTERFACTUAL_MARK.look(1.8, 0))
        if tipping is not None:
            axes.axvline(tipping, color=style.INK, linewidth=1.0, linestyle=":")
            axes.annotate(
                f" gone at {tipping:.2g}".replace("-", "−"), (tipping, 1.0), va="top",
                xycoords=axes.get_xaxis_transform(), size=style.SMALL_SIZE, color=style.INK,
                ha="left" if abs(tipping - places[0]) < 0.6 * np.ptp(places) else "right",
            )  # fmt: skip
        axes.set_xlim(float(places[0]), float(places[-1]))
        axes.set_xticks(np.linspace(places[0], places[-1], 3 if places[0] else 6))
        axes.set_xlabel(title, size=style.SMALL_SIZE)
        quantity.label_axis(axes.yaxis)
    figure.axes[0].set_ylabel("improvement", size=style.SMALL_SIZE)
    return figure


def calibration_figure(model: Any) -> Figure:
    """What was held out of training against what the model predicts: the share of values below each
    predicted quantile, a line for each feature. On the diagonal the model's uncertainty is right;
    flatter than it is too sure of itself.

    model  a learned one whose record of training has it, or that record
    """
    about = getattr(model, "about", model)
    record = about.get("training", about)
    given: Any = record.get("calibration") if isinstance(record, dict) else None
    try:
        levels, shares = (np.asarray(given[name], dtype=np.float64) for name in ("levels", "below"))
        steps = int(given["steps"])
    except (KeyError, TypeError, ValueError):
        levels, shares, steps = np.zeros(0), np.zeros((0, 0)), 0
    if not steps or shares.ndim != 2 or shares.shape[1:] != levels.shape or not shares.size:
        raise InputError(
            "calibration_figure: the model has no record of how it predicts what was held out; fit "
            "it anew, with episodes to hold out"
        )
    figure, axes = style.new_axes(3.6, 3.1)
    error = 1.96 * np.sqrt(levels * (1.0 - levels) / steps)
    axes.fill_between(
        levels, levels - error, levels + error, color=style.BAND, linewidth=0,
        label="95 % if the model is right",
    )  # fmt: skip
    axes.plot([0.0, 1.0], [0.0, 1.0], **OBSERVED_MARK.look(1.2, 0))
    for place, one in enumerate(shares):
        name = "each feature" if place == 0 else None
        axes.plot(levels, one, color=style.MUTED, linewidth=0.8, label=name)
    look = COUNTERFACTUAL_MARK.look(1.8, 4.0)
    axes.plot(levels, shares.mean(axis=0), **look, label="all features")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="predicted quantile")
    axes.set_ylabel(f"share of {steps:,} held-out steps below")
    for axis in (axes.xaxis, axes.yaxis):
        Quantity(percent=True).label_axis(axis)
    style.legend_above(figure, columns=1)
    return figure
