"""Tables whose rows do not tell all that matters for the next state are found, others are not."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.runs.explainer import ContinuousExplainer
from counterplan.runs.question import Question
from counterplan.scm.effects import Effects
from counterplan.tables.fit import Fit, fit_continuous
from counterplan.tables.schema import schema_from_dict
from counterplan.viz.quantity import NOT_ESTABLISHED, Quantity, claim_of

SMOOTH: Any = {"learner": "smooth"}
COLUMNS = {
    "x": {"role": "state", "better": "lower"},
    "dose": {"role": "action", "levels": [0, 1]},
}
# What a dose does to the next value, and where it acts late, to the one after.
SOON, LATE = -0.6, 1.0


def table(
    kind: str = "", seed: int = 0, episodes: int = 200, steps: int = 8, dated: bool = False
) -> pl.DataFrame:
    """Episodes of x' = 0.7 x + SOON dose + noise, and by kind: LATE times the dose before, a
    season of six steps, a level of the episode, or one that guides the doses."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(episodes):
        x, before, level = rng.normal(), 0, rng.normal()
        start = int(rng.integers(12)) if kind == "season" else 0
        for t in range(steps):
            urge = 2.0 * level if kind == "guided" else x
            dose = int(rng.uniform() < 1.0 / (1.0 + np.exp(-urge)))
            when = date(2020, 1, 15) + timedelta(days=int(365.25 / 12 * (start + t)))
            time = str(when) if dated else start + t
            rows.append((f"p{number}", time, x, before, (start + t) % 6, dose))
            more = {
                "late": LATE * before,
                "season": np.sin(np.pi * (start + t) / 3.0),
                "level": 0.5 * level,
                "guided": 0.5 * level,
            }.get(kind, 0.0)
            x, before = 0.7 * x + SOON * dose + more + 0.6 * rng.normal(), dose
    columns = ["episode_id", "t", "x", "before", "phase", "dose"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def fitted(frame: pl.DataFrame, about: dict[str, Any] | None = None, **more: Any) -> Fit:
    given: dict[str, Any] = {"columns": {**COLUMNS, **more}}
    return fit_continuous(
        frame, schema_from_dict(given | ({"table": about} if about else {})), SMOOTH
    )


def warned(found: Fit) -> list[tuple[str, str]]:
    return [(one.column, one.text) for one in found.findings if one.kind == "memory"]


@pytest.fixture(scope="module")
def late() -> Fit:
    return fitted(table("late"))


def test_a_dose_that_acts_late_is_found(late: Fit) -> None:
    ((column, text),) = warned(late)
    assert column == "x"
    assert "also depends on 'dose' of the row before (" in text
    assert "role = 'state'" in text


def test_nothing_is_established_by_a_model_that_leaves_out_what_matters(
    late: Fit, tmp_path: Path
) -> None:
    path = tmp_path / "late.csv"
    table("late").write_csv(path)
    some = [f"p{number}" for number in range(6)]
    asked = [one for one in cp.explain_table(path, late.model, k=2, episodes=some) if one.changes]
    assert any(one.improvement_low > 0.0 for one in asked)
    assert not any(one.established for one in asked)
    sure = next(one for one in asked if one.improvement_low > 0.0)
    claim = claim_of(sure.row())
    assert claim.verdict == NOT_ESTABLISHED
    assert "leaves out what matters" in claim.sentence(Quantity(), sure.factual)
    notes = ContinuousExplainer(late.model, late.layout).notes(Question(budgets=(2,)))
    assert "Not established: what the table leaves out matters for x (see fit)." in notes


def test_the_remedy_makes_answers_right(late: Fit, tmp_path: Path) -> None:
    """Without it advice does harm; with the dose before as a state nothing is warned about, and
    what is advised brings what was said."""
    path, frame = tmp_path / "late.csv", table("late")
    frame.write_csv(path)
    found = fitted(frame, before={"role": "state"})
    assert not warned(found)
    (said, brought), (_, harm) = (promised(path, one) for one in (found, late))
    assert harm.mean() < -1.0
    assert (brought > 1.0).all()
    assert abs(said.mean() - brought.mean()) < 0.5


def promised(path: Path, found: Fit) -> tuple[np.ndarray, np.ndarray]:
    """What two changes in each of some episodes are said to bring, and what they bring."""
    some, said, brought = [f"p{number}" for number in range(6)], [], []
    for one in cp.explain_table(path, found.model, k=2, episodes=some):
        taken = one.recorded.episode.actions[:, 0]
        moved, x, total, last = np.zeros(len(taken)), 0.0, 0.0, 0.0
        for change in one.changes:
            moved[change.t] = 1.0 - 2.0 * taken[change.t]
        for step in moved:
            x, last = 0.7 * x + SOON * step + LATE * last, step
            total -= x
        brought.append(total)
        said.append(one.improvement)
    return np.array(said), np.array(brought)


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_table_draws_no_warning(seed: int) -> None:
    assert not warned(fitted(table(seed=seed)))


def test_a_season_is_found_by_the_time_unless_a_column_tells_it() -> None:
    frame = table("season")
    ((column, text),) = warned(fitted(frame))
    assert (column, "also depends on the time 't' (" in text) == ("x", True)
    assert "role = 'contextual'" in text
    assert not warned(fitted(frame, phase={"role": "contextual", "levels": list(range(6))}))


def test_a_season_is_found_by_dates() -> None:
    ((_, text),) = warned(
        fitted(table("season", dated=True), {"dates": True, "gaps": "allow", "unit": "d"})
    )
    assert "also depends on the month (" in text


def test_what_stays_with_an_episode_is_no_memory_unless_it_guided_the_doses() -> None:
    own = fitted(table("level"))
    assert not warned(own)
    assert "persistence" in {one.kind for one in own.findings}
    ((_, text),) = warned(fitted(table("guided")))
    assert "'dose' of all rows before" in text
    assert "what guided the actions" in text


def test_few_episodes_tell_nothing() -> None:
    assert not warned(fitted(table("late", episodes=15, steps=30)))


def test_surprises_are_rests_whitened_by_their_covariance() -> None:
    rng, T = np.random.default_rng(0), 7
    inputs, rests = rng.normal(size=(T, 3)), rng.normal(size=(T, 2))
    scale, variance = rng.uniform(0.5, 2.0, size=(T, 2)), np.array([[0.4, 0, 0.3, 0], [0.0] * 4])
    centre, spread, noise = rng.normal(size=3), rng.uniform(0.5, 2.0, 3), np.array([0.7, 1.3])
    effects = Effects(centre, spread, variance, noise, np.zeros((1, 2, 4)))
    found = effects.surprises(inputs, rests, scale)
    f = np.column_stack([np.ones(T), (inputs - centre) / spread]) / scale[:, :1]
    covariance = f @ np.diag(variance[0]) @ f.T + 0.7 * np.eye(T)
    white = np.linalg.solve(np.linalg.cholesky(covariance), rests[:, 0]) * np.sqrt(0.7)
    np.testing.assert_allclose(found, np.column_stack([white, rests[:, 1]]), atol=1e-9)
