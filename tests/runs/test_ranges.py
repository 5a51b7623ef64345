"""Values that cannot be are not reached: features of a table stay in the range of their column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp

SCHEMA = cp.tables.Schema(
    (
        cp.tables.Column("pain", "state", low=0.0, better="lower"),
        cp.tables.Column("dose", "action", levels=(0.0, 1.0)),
    ),
    episode="id",
)


pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """A dose takes 2 from the pain, however little there is; tables hold 0 at the least, but where
    it matters nobody was treated."""
    rng, rows = np.random.default_rng(0), []
    for number in range(60):
        pain = rng.uniform(4.0, 9.0)
        for t in range(6):
            dose = int(rng.uniform() < 0.4 and pain > 2.0)
            rows.append((str(number), t, pain, dose))
            pain = max(pain + 0.3 - 2.0 * dose + 0.2 * rng.normal(), 0.0)
    frame = pl.DataFrame(rows, schema=["id", "t", "pain", "dose"], orient="row")
    model = cp.fit(frame, schema=SCHEMA, members=2)
    asked = frame.filter(pl.col("id").cast(int) < 10)
    return cp.explain_table(asked, model, k=5, supported=False)


def test_every_member_stays_in_the_range_and_claims_no_more(answers: list[Any]) -> None:
    """Against the members without limits, held at 0 by hand."""
    held = 0
    for one in answers:
        episode, found = one.recorded.episode, one.explanation
        assert found.member_states.min() >= -1e-12
        totals = []
        for member in found.problem.scm.members:
            free = replace(member, limits=None)
            noise = free.infer(episode.states[:-1], episode.actions, episode.states[1:])
            state, total = episode.states[:1], episode.states[0, 0]
            for t, action in enumerate(found.actions):
                after = free.step(state, np.array([[float(action)]]), noise[t : t + 1])
                held += bool(after[0, 0] < 0.0)
                state = np.maximum(after, 0.0)
                total += state[0, 0]
            totals.append(total)
        assert one.improvement == pytest.approx(episode.states.sum() - np.mean(totals), abs=1e-9)
    assert held >= 2
