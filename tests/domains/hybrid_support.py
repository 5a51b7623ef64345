"""Random hybrid vehicles small enough to solve by listing everything."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.hybrid_exact import HybridConfig


@st.composite
def vehicles(draw: st.DrawFn, horizon: int = 4, hidden: bool = False) -> HybridVehicle:
    """Three modes, any mileage and matrix, small tanks."""
    mileage = [[draw(st.integers(0, 9)) for _ in range(2)] for _ in range(3)]
    rows = [[draw(st.integers(0, 4)) for _ in range(3)] for _ in range(3)]
    matrix = np.array(rows, dtype=float)
    matrix[:, 1] += matrix.sum(axis=1) == 0
    matrix /= matrix.sum(axis=1, keepdims=True)
    config = HybridConfig(
        mileage,
        matrix,
        draw(st.integers(1, horizon)),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 3)),
    )
    capacity = draw(st.integers(0, 6))
    return HybridVehicle(
        config, capacity=capacity, hidden=hidden, accuracy=draw(st.floats(0.0, 1.0))
    )
