"""How numbers are written: outcomes with their names and units, and probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axis import Axis

# From where to where numbers are written in full.
LARGE, HUGE = 1e3, 1e15


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
