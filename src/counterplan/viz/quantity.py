"""How numbers are written: outcomes with their names and units, probabilities, and claims.

A claim is an improvement with an interval. Where a model is one of many that the data allows, the
interval is meant to hold the truth in nine of ten cases; where states are discrete, it goes from
what is guaranteed in every causal model to the best that one of them allows. A claim is

    established        the lower end of its interval is above zero
    not established    it is not, or nobody knows the interval, or the table behind the model is
                       known to leave out what matters

How much it is and how sure that is are two things: "proved optimal" is said of the search alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axis import Axis

# From where to where numbers are written in full.
LARGE, HUGE = 1e3, 1e15
# Differences below this are rounding.
ROUNDING = 1e-9
ESTABLISHED, NOT_ESTABLISHED, NO_CHANGE = "established", "not established", "no change"


@dataclass(frozen=True)
class Quantity:
    """An outcome's name, whether it is a probability to be written in percent, its unit, and
    whether higher or lower values are better."""

    name: str = "outcome"
    percent: bool = False
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"

    @property
    def label(self) -> str:
        """What stands at an axis: the name and the unit."""
        title = self.name[:1].upper() + self.name[1:]
        return f"{title} ({self.unit})" if self.unit else title

    def write(self, value: float) -> str:
        """A value as text: 83.8 % for probabilities, otherwise four significant digits or, if it
        is large, all in front of the point."""
        if not math.isfinite(value):
            return f"{value}"
        value += 0.0  # no minus in front of a zero
        if self.percent:
            return f"{100 * value:.1f} %"
        return f"{value:,.0f}" if LARGE <= abs(value) < HUGE else f"{value:.4g}"

    def with_unit(self, value: float) -> str:
        """A value as text, with its unit where one is known."""
        return f"{self.write(value)} {self.unit}".rstrip()

    def tells_apart(self, one: float | None, other: float) -> bool:
        """Whether two values are not written alike, if there are two."""
        return one is not None and self.write(one) != self.write(other)

    def write_gain(self, value: float) -> str:
        """A difference of two values, with its sign; of percentages, in points."""
        text = self.write(value).replace(" %", " points")
        if not any(digit in text for digit in "123456789f"):  # what is not zero may be written so
            return text.removeprefix("-")
        return f"+{text}" if value > 0 else text

    def write_range(self, low: float, high: float) -> str:
        """An interval as text; the percent sign stands once."""
        first = self.write(low)
        return f"{first.removesuffix(' %') if math.isfinite(high) else first} to {self.write(high)}"

    def write_tick(self, value: float) -> str:
        """A round number beside an axis, with as many digits as it needs: 2.5 % rounded to whole
        percent would be wrong."""
        if self.percent:
            return f"{100 * value + 0.0:.6g} %"
        return f"{value + 0.0:,.6g}".replace("-", "−")

    def label_axis(self, axis: Axis) -> None:
        """Write the axis's numbers in this quantity's way."""
        axis.set_major_formatter(lambda value, _: self.write_tick(value))


def share(probability: float) -> str:
    """A probability in whole percent; what is neither never nor always does not look so."""
    if 0.0 < probability < 0.01:
        return "< 1 %"
    if 0.99 < probability < 1.0:
        return "> 99 %"
    return f"{100 * probability:.0f} %"


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
        if factual == -math.inf:
            known = self.is_established
            return (
                "Established: not -inf as what was done is, whatever the causal model." if known
                else "Not established: by some causal models that fit the same data it is -inf too."
            )  # fmt: skip
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
    if row.get("improvement_low") is not None and row.get("guaranteed") is None:
        ends = row["improvement_low"], row["improvement_high"]
        withheld = row.get("established") is False and ends[0] > ROUNDING
        return Claim(mean, *ends, row.get("harm"), withheld=withheld)
    low, high = row.get("guaranteed"), row.get("interval_high")
    if low is None or factual is None:
        return Claim(mean)
    most = None if high is None else beyond(high, factual)
    return Claim(mean, beyond(low, factual), most, is_causal=True)


def beyond(value: float, factual: float) -> float:
    """By how much a value is above what was; where both are minus infinity, nothing is sure."""
    return -math.inf if value == factual == -math.inf else value - factual
