"""The numbers of a step that the compiled allocation reads, and what it reports.

LOW, HIGH              what the step may spend
AFTER_LOW, AFTER_HIGH  where the position must be after it
SHIFT                  what then moves the position by itself
SPILL_LOW, SPILL_HIGH  where the position spills over after that
"""

from __future__ import annotations

LOW, HIGH, AFTER_LOW, AFTER_HIGH, SHIFT, SPILL_LOW, SPILL_HIGH = range(7)
# Statuses; from 0 up, the first step at which no action is possible.
SOLVED = -1
NOT_CONCAVE = -2
TOLERANCE = 1e-9
