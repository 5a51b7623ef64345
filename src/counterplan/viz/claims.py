"""What explanations claim to bring, how much of it is vouched for, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.result import Explanation, Interval
from counterplan.errors import InputError
from counterplan.runs.question import EXACT
from counterplan.viz import style
from counterplan.viz.explained import MODELS, Rows, as_rows, is_table
from counterplan.viz.quantity import (
    ESTABLISHED,
    NO_CHANGE,
    NOT_ESTABLISHED,
    Claim,
    Quantity,
    claim_of,
)
from counterplan.viz.style import BOUND_MARK, COUNTERFACTUAL_MARK, GUARANTEED_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.core.episode import Episode
    from counterplan.counterfactual.sensitivity import Sensitivity
    from counterplan.runs.explainer import DiscreteExplainer
    from counterplan.runs.question import Question

# Cases that can be told apart in a figure; of more, so many evenly chosen ones are drawn.
MOST_DRAWN = 240
# Doubts whose advice is compared.
DOUBTS = (0.0, 0.05, 0.2, 0.5, 0.75, 1.0)
# Assumptions about the causal model, from none to strong; fields of a row, and how they are drawn.
ASSUMPTIONS = ("none", "stable", "monotone")
ASSUMED = (
    ("interval", style.BAND, 9.0, "every causal model"),
    ("stable", style.STABLE, 5.5, "stable ones"),
    ("monotone", style.MONOTONE, 2.0, "monotone ones"),
)
# Up to so many budgets each has its number.
MOST_NUMBERS = 10
# Of the plot's extent: how far apart points are that have a label each.
LABEL_ROOM = 0.08
WORST = "mean of the worst models"


# --- All cases ---


def cohort_figure(
    claims: ArrayLike | Sequence[Claim] | Rows, *, quantity: Quantity | None = None
) -> Figure:
    """Every case as a line from the lower to the upper end of its interval, sorted by the lower
    end; established ones are solid with full circles, others pale with open diamonds.

    claims  of the cases, a run's `results` of one k, or mere improvements
    """
    quantity, given = quantity or Quantity(), _claims(claims)
    finite = [one for one in given if np.isfinite([one.mean, one.low or 0.0]).all()]
    if not finite:
        raise InputError("cohort_figure: there are no cases to draw")
    every = -(-len(finite) // MOST_DRAWN)
    # By the lower end; what is not known comes last.
    finite.sort(key=lambda one: (-np.inf if one.low is None else one.low, one.mean), reverse=True)
    chosen = finite[::every]
    figure, axes = style.new_axes(4.6, min(3.9, 1.5 + 0.1 * max(len(chosen), 4)), grid="x")
    width = min(2.4, 150.0 / len(chosen))
    for verdict, colour, shade, face, marker in (
        (ESTABLISHED, style.COUNTERFACTUAL, style.STABLE, style.COUNTERFACTUAL, "o"),
        (NOT_ESTABLISHED, style.SOFT_INK, style.MUTED, "white", "D"),
        (NO_CHANGE, style.SOFT_INK, style.MUTED, style.SOFT_INK, "x"),
    ):
        lines = [(y, one) for y, one in enumerate(chosen) if one.verdict == verdict]
        known = [(y, one.low, one.high) for y, one in lines if None not in one[1:3]]
        if known:
            axes.hlines(*zip(*known, strict=True), color=shade, linewidth=width)
        if lines:
            axes.plot(
                [one.mean for _, one in lines], [y for y, _ in lines], marker,
                label=f"{verdict}: {sum(one.verdict == verdict for one in finite):,}",
                markersize=min(4.5, 1.5 + width), color=colour, markerfacecolor=face,
                markeredgewidth=0.9,
            )  # fmt: skip
    axes.axvline(0.0, **OBSERVED_MARK.look(1.2, 0))
    unit = f" ({quantity.unit})" if quantity.unit else ""
    axes.set_xlabel(style.wrapped(f"improvement of the {quantity.name}{unit}", 3.8))
    quantity.label_axis(axes.xaxis)
    infinite, some = len(given) - len(finite), f", one in {every}" if every > 1 else ""
    left_out = f" ({infinite:,} infinite, left out)" if infinite else ""
    axes.set_ylabel(f"cases by lower end{some}{left_out}")
    axes.set_yticks([])
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    style.legend_above(figure, columns=3)
    return figure


def _claims(given: Any) -> list[Claim]:
    if is_table(given):
        rows = as_rows(given, "cohort_figure", "improvement", "k", "status")
        if len({row["k"] for row in rows}) > 1:
            raise InputError("cohort_figure: the table holds several k; choose one")
        return [
            claim_of({"factual": None, **row}) for row in rows if row["improvement"] is not None
        ]
    return [one if isinstance(one, Claim) else Claim(float(one)) for one in given]


def interval_figure(
    rows: Rows, *, observed: float | None = None, quantity: Quantity | None = None
) -> Figure:
    """One line for each case, first case on top: the ranges over all, over stable and over monotone
    causal models as nested bars, the value as a circle, the guarantee as a diamond.

    rows      a run's `results` of one k, or others with `episode_id`, `value`, `interval_low` and
              `interval_high`, and where known `guaranteed` and the same ends of `stable` and
              `monotone`; those without an interval are left out
    observed  the outcome that was, marked where all cases share it
    """
    needed = ("episode_id", "value", "interval_low", "interval_high")
    given = as_rows(rows, "interval_figure", *needed)
    cases = [row for row in given if None not in (row["interval_low"], row["interval_high"])]
    if not cases:
        raise InputError("interval_figure: there are no cases to draw")
    figure, axes = style.new_axes(4.6, 1.3 + 0.19 * max(len(cases), 2), grid="x")
    for name, colour, width, label in ASSUMED:
        ends = [(y, row.get(f"{name}_low"), row.get(f"{name}_high")) for y, row in enumerate(cases)]
        if known := [one for one in ends if None not in one]:
            axes.hlines(*zip(*known, strict=True), color=colour, linewidth=width, label=label)
    if observed is not None:
        axes.axvline(observed, **OBSERVED_MARK.look(1.4, 0), label="observed")
    for name, look, label in (
        ("value", COUNTERFACTUAL_MARK.look(0, 4.5), "expected by Gumbel-Max"),
        ("guaranteed", GUARANTEED_MARK.look(0, 4.0), "guaranteed"),
    ):
        points = [(row[name], y) for y, row in enumerate(cases) if row.get(name) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), **look, label=label)
    axes.set_yticks(range(len(cases)), [style.literal(str(row["episode_id"])) for row in cases])
    axes.tick_params(axis="y", length=0, labelsize=style.SMALL_SIZE - 1)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    style.label_quantity(axes, "x", quantity or Quantity(), 3.0)
    style.legend_above(figure, columns=3)
    return figure


# --- What each further change brings ---


def frontier_figure(
    frontier: Sequence[Explanation] | Rows,
    *,
    intervals: Sequence[Interval] | None = None,
    guaranteed: Sequence[float] | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """Value of the explanation for each budget k, the bound on any, and the observed outcome.

    frontier    the explanations for k = 0, 1, ..., or rows of a run's `results` of one episode
    intervals   for each k, the range of the explanation's value over all causal models
    guaranteed  for each k, the best value that some policy has in every causal model
    """
    from matplotlib.ticker import MaxNLocator

    rows, quantity = _by_budget(frontier), quantity or Quantity()
    if not rows:
        raise InputError("frontier_figure: there are no explanations to draw")
    budgets = np.array([row["k"] for row in rows])
    numbers = np.array([[row["value"], row["bound"]] for row in rows], dtype=np.float64)
    values, bounds = np.where(np.isfinite(numbers), numbers, np.nan).T  # no line to infinity
    claims = [claim_of({"improvement": 0.0, **row}) for row in rows]
    ranges: Sequence[Any] = intervals or [
        (None, None) if None in one[1:3] else tuple(row["factual"] + end for end in one[1:3])
        for row, one in zip(rows, claims, strict=True)
    ]
    is_causal = intervals is not None or any(one.is_causal for one in claims)
    figure, axes = style.new_axes(4.6, 3.1)
    if all(None not in one for one in ranges):
        low, high = np.array(ranges, dtype=np.float64).T
        axes.vlines(
            budgets, low, high, color=style.BAND, linewidth=min(15.0, 160.0 / len(budgets)),
            label="range over causal models" if is_causal else "interval of 90 %",
        )  # fmt: skip
    axes.axhline(float(rows[0]["factual"]), **OBSERVED_MARK.look(1.4, 0), label="observed")
    if (np.abs(bounds - values) > 0.0).any():
        axes.plot(
            budgets, bounds, **BOUND_MARK.look(1.2, 6.5), markerfacecolor="white",
            label="bound: nothing is better",
        )  # fmt: skip
    name = "best explanation" if is_causal or not any(one.low for one in claims) else WORST
    proved = "; search complete" if all(row["status"] == "optimal" for row in rows) else ""
    look = COUNTERFACTUAL_MARK.look(1.8, 6.0)
    axes.plot(budgets, values, **look, label=f"{name}{proved}")
    if guaranteed is not None:
        look = GUARANTEED_MARK.look(1.2)
        axes.plot(budgets, list(guaranteed), **look, label="guaranteed in every model")
    if len(budgets) <= MOST_NUMBERS:
        axes.set_xticks(budgets)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_NUMBERS, integer=True))
    axes.set_xlim(float(budgets[0]) - 0.4, float(budgets[-1]) + 0.4)
    axes.set_xlabel("changes allowed (k)")
    style.label_quantity(axes, "y", quantity, 2.5)
    style.legend_above(figure)
    return figure


def _by_budget(frontier: Any) -> list[Mapping[str, Any]]:
    """Explanations as rows of a run's `results`, in the order of k."""
    if not is_table(frontier):
        return [
            {"k": one.k, "value": one.value, "bound": one.bound, "factual": one.factual_value,
             "status": one.status.value, **_ends(one)}
            for one in frontier
        ]  # fmt: skip
    rows = as_rows(frontier, "frontier_figure", "episode_id", "k", "value", "bound", "factual")
    if len({row["episode_id"] for row in rows}) > 1:
        raise InputError("frontier_figure: the table holds several episodes; choose one")
    known = [row for row in rows if row["status"] != "failed"]
    return sorted(known, key=lambda row: int(row["k"]))


def _ends(found: Any) -> dict[str, float]:
    """Of the interval of an improvement, where members of a model differ."""
    if found.harm is None:
        return {}
    return dict(zip(("improvement_low", "improvement_high"), found.interval, strict=True))


# --- What a claim rests on ---


def plans_by_doubt(
    explainer: DiscreteExplainer, episode: Episode, question: Question, **options: Any
) -> dict[float, tuple[float, float]]:
    """Doubt -> what is expected of the plan that it advises for the budget of a question, and what
    is guaranteed."""
    found = {}
    for doubt in sorted({*DOUBTS, question.doubt or 0.0}) if question.solver == EXACT else ():
        (plan,) = explainer.explain(episode, replace(question, doubt=doubt, risk=None), **options)
        found[doubt] = plan.value, float(explainer.claim(plan, None)["guaranteed"])
    return found


def doubt_figure(
    found: Mapping[float, Any], *, chosen: float | None = None, quantity: Quantity | None = None
) -> Figure:
    """What the causal model expects of a plan against what is guaranteed in every one, a point for
    each doubt: up is better by the model, right is surer.

    found   doubt -> explanation, as `cp.explain(..., doubt=)` gives it, or (value, guaranteed)
    chosen  the doubt that is marked
    """
    quantity = quantity or Quantity()
    pairs = {
        doubt: one if isinstance(one, tuple) else (one.value, one.guaranteed)
        for doubt, one in sorted(found.items())
    }
    if not pairs or not np.isfinite(list(pairs.values())).all():
        raise InputError("doubt_figure: there are no finite values to draw")
    values, sure = np.array(list(pairs.values())).T
    figure, axes = style.new_axes(4.6, 2.7)
    axes.plot(sure, values, **COUNTERFACTUAL_MARK.look(1.4, 5.0), label="a plan for each doubt")
    if chosen in pairs:
        value, least = pairs[chosen]
        axes.plot(least, value, **GUARANTEED_MARK.look(0, 8.0), label=f"doubt {chosen:g}")
    size, told = np.maximum(np.ptp([sure, values], axis=1), 1e-9), list[Any]()
    for doubt, (value, least) in pairs.items():
        # Plans that are nearly the same have one label.
        place = np.array([least, value]) / size
        if all(np.abs(place - other).max() > LABEL_ROOM for other in told):
            told.append(place)
            axes.annotate(
                f"{doubt:g}", (least, value), xytext=(5, 4), textcoords="offset points",
                size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.margins(0.12, 0.18)
    axes.set_xlabel(f"{quantity.name}, guaranteed in every causal model")
    axes.set_ylabel(style.wrapped(f"{quantity.name}, expected", 2.0))
    for axis in (axes.xaxis, axes.yaxis):
        quantity.label_axis(axis)
    style.legend_above(figure)
    return figure


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
            low, high = np.quantile(values, [MODELS.outside, 1 - MODELS.outside], axis=0)
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
            "calibration_figure: the model has no record of how it predicts what was held out; "
            "cp.fit(..., learner='smooth') with episodes to hold out keeps one"
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
