"""What explanations claim to bring, and how much of it is vouched for.

A claim is an improvement with an interval. Where a model is one of many that the data allows, the
interval is meant to hold the truth in nine of ten cases; where states are discrete, it goes from
what is guaranteed in every causal model to the best that one of them allows. A claim is

    established        the lower end of its interval is above zero
    not established    it is not, or nobody knows the interval, or the table behind the model is
                       known to leave out what matters

How much it is and how sure that is are two things: "proved optimal" is said of the search alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.errors import InputError
from counterplan.runs.question import EXACT
from counterplan.viz import style
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.style import COUNTERFACTUAL_MARK, GUARANTEED_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.core.episode import Episode
    from counterplan.runs.explainer import DiscreteExplainer
    from counterplan.runs.question import Question

# Differences below this are rounding.
ROUNDING = 1e-9
ESTABLISHED, NOT_ESTABLISHED, NO_CHANGE = "established", "not established", "no change"
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


class Claim(NamedTuple):
    """An improvement, and between what it is vouched for; None where that is not known.

    harm       how likely it is worse than what was done
    is_causal  whether the interval is one over causal models
    withheld   whether it is not established, whatever the interval
    """

    mean: float
    low: float | None = None
    high: float | None = None
    harm: float | None = None
    is_causal: bool = False
    withheld: bool = False

    @property
    def is_established(self) -> bool:
        return not self.withheld and self.low is not None and self.low > ROUNDING

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if abs(self.mean) <= ROUNDING and not self.low:
            return NO_CHANGE
        return ESTABLISHED if self.is_established else NOT_ESTABLISHED

    def interval(self, quantity: Quantity) -> str:
        """As text, empty where it is not known."""
        if self.low is None:
            return ""
        if self.high is None:
            return f"{quantity.write_gain(self.low)} or more"
        low = quantity.write_gain(self.low).removesuffix(" points")
        return f"{low} to {quantity.write_gain(self.high)}"

    def sentence(self, quantity: Quantity, factual: float) -> str:
        """What holds regardless of what is not known."""
        if self.verdict == NO_CHANGE:
            return "Nothing is claimed: no change was found that helps."
        if self.low is None:
            return f"{self.verdict.capitalize()}: how far the model may be off is not known."
        if not self.is_causal:
            so = "" if self.is_established else ", so there may be none"
            if self.withheld:
                so = " by a model whose table leaves out what matters"
            return (
                f"{self.verdict.capitalize()}: better by {self.interval(quantity)} (90 %){so}; "
                f"worse than what was done with a probability of {share(self.harm or 0.0)}."
            )
        if self.is_established:
            return (
                f"Established: at least {quantity.write(factual + self.low)} instead of "
                f"{quantity.write(factual)}, whatever the causal model."
            )
        return (
            "Not established: among the causal models that fit the same data are some by which it "
            f"brings {quantity.write_gain(self.low)}."
        )


def claim_of(row: Mapping[str, Any]) -> Claim:
    """The claim of a row of results."""
    mean, factual = row["improvement"], row["factual"]
    if row.get("improvement_low") is not None:
        ends = row["improvement_low"], row["improvement_high"]
        withheld = row.get("established") is False and ends[0] > ROUNDING
        return Claim(mean, *ends, row.get("harm"), withheld=withheld)
    low, high = row.get("guaranteed"), row.get("interval_high")
    if low is None or factual is None or not np.isfinite(factual):
        return Claim(mean)
    return Claim(mean, low - factual, None if high is None else high - factual, is_causal=True)


def plans_by_doubt(
    explainer: DiscreteExplainer, episode: Episode, question: Question, **options: Any
) -> dict[float, tuple[float, float]]:
    """Doubt -> what is expected of the plan that it advises for the budget of a question, and what
    is guaranteed."""
    found = {}
    for doubt in sorted({*DOUBTS, question.doubt or 0.0}) if question.solver == EXACT else ():
        (plan,) = explainer.explain(episode, replace(question, doubt=doubt), **options)
        found[doubt] = plan.value, float(explainer.claim(plan, None)["guaranteed"])
    return found


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
