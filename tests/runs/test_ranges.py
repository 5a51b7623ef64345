"""Values that cannot be are said beside the answer, and are not credited as sure."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.runs.answer import records, results_table

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


def held(answer: Any) -> float:
    """The improvement with every state held at 0 or more, member by member, by hand."""
    episode, found = answer.recorded.episode, answer.explanation
    totals = []
    for member in found.problem.scm.members:
        noise = member.infer(episode.states[:-1], episode.actions, episode.states[1:])
        state, total = episode.states[:1], episode.states[0, 0]
        for t, action in enumerate(found.actions):
            taken = np.array([[float(action)]])
            state = np.maximum(member.step(state, taken, noise[t : t + 1]), 0.0)
            total += state[0, 0]
        totals.append(total)
    return float(episode.states.sum() - np.mean(totals))


def test_what_impossible_values_bring_is_said_and_not_sure(answers: list[Any]) -> None:
    out = [one for one in answers if one.outside_range]
    assert 2 <= len(out) < len(answers)
    for one in out:
        assert one.improvement_in_range == pytest.approx(held(one), abs=1e-9)
        assert one.improvement_in_range < one.improvement
        lower, _ = one.explanation.interval
        credit = one.improvement - one.improvement_in_range
        assert one.improvement_low == pytest.approx(lower - credit, abs=1e-9)
        assert one.established == (one.improvement_low > 0.0)
        assert f"improvement is {one.improvement_in_range:.4g}, not" in one.outside_range[0].text


def test_only_answers_that_leave_a_range_say_so(answers: list[Any]) -> None:
    rows = records(results_table(answers, ()).to_dicts(), "")
    assert {"outside_range" in row for row in rows} == {True, False}
    for row in rows:
        assert ("outside_range" in row) == ("improvement_in_range" in row)
