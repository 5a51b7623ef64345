"""When a solver must stop, even if it has not proved its answer optimal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from counterplan.core.validation import whole_number
from counterplan.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Stop at whichever comes first; the result then has status 'limit' and a certified gap.

    seconds  wall-clock time
    nodes    nodes expanded (searches) or kernel rows evaluated (dynamic programs)
    gap      stop once bound - value is at most this

    On a frontier they hold for each budget anew, and for what is prepared for all of them.
    """

    seconds: float = math.inf
    nodes: int | None = None
    gap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "gap"):
            given = getattr(self, name)
            if not isinstance(given, Real):
                raise InputError(f"limits: {name} must be a number, got {given!r}")
        if not self.seconds > 0:
            raise InputError(f"limits: seconds must be positive, got {self.seconds}")
        if self.nodes is not None:
            whole_number(self.nodes, "limits: nodes", minimum=1)
        if not self.gap >= 0:
            raise InputError(f"limits: gap must be 0 or more, got {self.gap}")
