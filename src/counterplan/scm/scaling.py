"""Physical units: (value - offset) / range, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.number_arrays import number_array


@dataclass(frozen=True, eq=False)
class Scaling:
    """How a model's own units follow from physical ones.

    state_offset, state_range    (D,)
    action_offset, action_range  (d,)
    """

    state_offset: FloatArray
    state_range: FloatArray
    action_offset: FloatArray
    action_range: FloatArray

    def __post_init__(self) -> None:
        for field in ("state_offset", "state_range", "action_offset", "action_range"):
            array = number_array(getattr(self, field), f"scaling: {field}")
            if array.ndim != 1:
                raise InputError(
                    f"scaling: {field} must be a list of numbers, one for each column; got shape "
                    f"{array.shape}"
                )
            object.__setattr__(self, field, array)
        for name in ("state", "action"):
            spread = getattr(self, f"{name}_range")
            bad = np.flatnonzero(~(np.isfinite(spread) & (spread > 0.0)))
            if bad.size:
                raise InputError(
                    f"scaling: the range of {name} column {bad[0]} is {spread[bad[0]]}: a column "
                    "needs at least two different finite values"
                )

    def check(self, n_features: int, n_components: int) -> None:
        """Raise unless it is made for so many features and action components."""
        for name, count in (("state", n_features), ("action", n_components)):
            for part in ("offset", "range"):
                array = getattr(self, f"{name}_{part}")
                if np.shape(array) != (count,) or not np.isfinite(array).all():
                    raise InputError(
                        f"scaling: {name}_{part} must be {count} finite numbers, one for each "
                        f"{name} column; got shape {np.shape(array)}"
                    )

    def encode_states(self, states: FloatArray) -> FloatArray:
        """From physical units to the model's."""
        return (states - self.state_offset) / self.state_range

    def decode_states(self, states: FloatArray) -> FloatArray:
        """From the model's units to physical ones."""
        return states * self.state_range + self.state_offset

    def encode_actions(self, actions: FloatArray) -> FloatArray:
        """Action vectors from physical units to the model's."""
        return (actions - self.action_offset) / self.action_range
