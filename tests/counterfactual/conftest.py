"""What tests of answers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def searches_have_bounds() -> Iterator[None]:
    """Small questions are searched all the same, although trying everything would be cheaper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterplan.counterfactual.continuous.astar.FEW_SEQUENCES", 0)
        yield
