"""How a neural model is trained: everything but the data, the size and the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from counterplan.core.validation import whole_number
from counterplan.errors import InputError
from counterplan.scm.scaling import Scaling

# Units of a network: more are slips of the keyboard, and would not fit in memory.
MOST_UNITS = 10_000


@dataclass(frozen=True)
class Training:
    """Settings of a fit.

    batch          transitions in one step of Adam
    learning_rate  of Adam
    validation     share of the episodes held out to choose the best epoch, 0 for none
    patience       stop after so many epochs without a better one, None for never
    scaling        physical units, None to scale every column of the data to [-0.5, 0.5]
    progress       show a bar, if standard error is a terminal
    """

    batch: int = 256
    learning_rate: float = 1e-3
    validation: float = 0.1
    patience: int | None = 30
    scaling: Scaling | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        whole_number(self.batch, "batch", minimum=1)
        positive(self.learning_rate, "learning_rate")
        if self.validation != 0 and not positive(self.validation, "validation") < 1.0:
            raise InputError(f"validation must be a share from 0 to below 1, got {self.validation}")
        if self.patience is not None:
            whole_number(self.patience, "patience", minimum=1)


def positive(value: object, name: str) -> float:
    """`value` as a positive finite float, or an error that names it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < math.inf:
        return float(value)
    raise InputError(f"{name} must be a positive number, got {value!r}")


def constants(lipschitz: tuple[float, float] | None) -> tuple[float, float] | None:
    """The wanted Lipschitz constants of location and scale, checked; None if unconstrained."""
    if lipschitz is None:
        return None
    try:
        location, scale = lipschitz
    except (TypeError, ValueError):
        raise InputError(
            f"lipschitz must be two constants, of location and scale, or None; got {lipschitz!r}"
        ) from None
    return positive(location, "lipschitz of the location"), positive(scale, "that of the scale")
