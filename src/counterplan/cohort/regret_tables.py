"""What comes out of judging scenarios, as tables.

results    one row for each scenario: values and regrets (more is worse), and its costliest decision
decisions  one row for each scenario and step: what was seen, what everyone did and with what, and
           what the executed decision lost in expectation
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.allocation.hindsight import Hindsight
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_explanation import AllocationExplanation
from counterplan.exogenous.model import State
from counterplan.io.plan_answer import action_in_words
from counterplan.io.scenario_form import ScenarioForm
from counterplan.io.scenario_table import Scenario
from counterplan.planning.journey import Journey

if TYPE_CHECKING:
    import polars as pl

OPTIMAL, HEURISTIC, FAILED = "optimal", "heuristic", "failed"


@dataclass(frozen=True, eq=False)
class Judged:
    """Executed decisions.

    losses     (T,) what each lost in expectation; None where the optimum is not known
    advised    (T, A) what the policy would have done in their place
    explained  the few that should have been others, knowing the path; None if not asked for
    """

    done: Journey
    losses: FloatArray | None
    advised: FloatArray
    explained: AllocationExplanation | None = None


@dataclass(frozen=True, eq=False)
class Judgement:
    """All about one scenario; what could not be found is None or empty.

    k        how many decisions may change in an explanation, None where none is asked for
    players  by name: policy, open_loop, planned
    policy   whose the policy is, and whether it is the optimum
    reason   why it failed, empty if it did not
    """

    scenario: Scenario
    path: FloatArray | None = None
    state: State | None = None
    hindsight: Hindsight | None = None
    players: Mapping[str, Journey] = field(default_factory=dict)
    policy: str | None = None
    is_optimal: bool = False
    planner: str | None = None
    executed: Judged | None = None
    reason: str = ""
    k: int | None = None

    @property
    def expected_regret(self) -> float | None:
        """What the decisions lost in expectation."""
        if self.executed is None or self.executed.losses is None:
            return None
        return float(self.executed.losses.sum())

    @property
    def status(self) -> str:
        """'optimal': compared with the optimum without foresight, 'heuristic': with the best policy
        known, 'failed': see the reason."""
        if self.reason:
            return FAILED
        return OPTIMAL if self.is_optimal else HEURISTIC


def tables(form: ScenarioForm, judged: Sequence[Judgement]) -> dict[str, bytes]:
    """Both tables as Parquet files."""
    import polars as pl

    kinds: dict[str, Any] = {
        **dict.fromkeys(NUMBERS, pl.Float64),
        **dict.fromkeys(TEXTS, pl.String),
    }
    if any(one.k is not None for one in judged):
        amounts = pl.List(pl.Float64)
        sides = {"observed": amounts, "alternative": amounts}
        change = pl.Struct({"t": pl.Int64(), **sides, "text": pl.String()})
        kinds |= {"k": pl.Int64, "value": pl.Float64, "improvement": pl.Float64}
        kinds["changes"] = pl.List(change)
    results = pl.DataFrame([result_row(form, one) for one in judged], schema_overrides=kinds)
    steps = [step for one in judged for step in _step_rows(form, one)]
    named = {one.column: pl.String for one in form.seen if one.names}
    kinds = {
        name: named.get(name, pl.Int64 if name == "t" else pl.Float64)
        for name in steps[0]
        if name != "scenario_id"
    }
    decisions = pl.DataFrame(steps, schema_overrides={**kinds, "scenario_id": pl.String})
    return {"results": _parquet(results), "decisions": _parquet(decisions)}


TEXTS = ("scenario_id", "sense", "policy", "planner", "costliest", "status", "reason")
NUMBERS = (
    "executed",
    "hindsight",
    "without_foresight",
    "open_loop",
    "planned",
    "regret_hindsight",
    "regret_policy",
    "expected_regret",
)


def result_row(form: ScenarioForm, judged: Judgement) -> dict[str, Any]:
    """One scenario."""
    problem = form.problem
    values = {name: journey.value for name, journey in judged.players.items()}
    best = None if judged.hindsight is None else judged.hindsight.value
    done = None if judged.executed is None else judged.executed.done.value
    sign = 1.0 if problem.sense == "max" else -1.0

    def worse(reference: float | None) -> float | None:
        return None if done is None or reference is None else sign * (reference - done) + 0.0

    against_best = worse(best)
    return {
        "scenario_id": judged.scenario.id,
        "steps": problem.horizon,
        "sense": problem.sense,
        "policy": judged.policy,
        "planner": judged.planner,
        "executed": done,
        "hindsight": best,
        "without_foresight": values.get("policy"),
        "open_loop": values.get("open_loop"),
        "planned": values.get("planned"),
        "regret_hindsight": None if against_best is None else max(0.0, against_best),
        "regret_policy": worse(values.get("policy")),
        "expected_regret": judged.expected_regret,
        "costliest": _costliest(form, judged),
        **_explained(form, judged),
        "status": judged.status,
        "reason": judged.reason or _remark(judged),
    }


def _explained(form: ScenarioForm, judged: Judgement) -> dict[str, Any]:
    """What at most k changed decisions would have brought; no columns where that was not asked."""
    if judged.k is None:
        return {}
    row: dict[str, Any] = {"k": judged.k, "value": None, "improvement": None}
    found = None if judged.executed is None else judged.executed.explained
    if found is None or judged.path is None or judged.state is None:
        return {**row, "changes": []}
    changes = []
    for t, observed, alternative in found.changes:
        at = State(judged.state.t + t, judged.path[t], found.levels[t])
        new, old = (
            action_in_words(form.problem, at, np.array(amounts))
            for amounts in (alternative, observed)
        )
        changes.append(
            {
                "t": t,
                "observed": list(observed),
                "alternative": list(alternative),
                "text": f"t={at.t}: {new} instead of {old.removeprefix('buy ')}",
            }
        )
    row |= {"value": found.value, "improvement": found.improvement}
    return {**row, "changes": changes}


def _remark(judged: Judgement) -> str | None:
    return "no decisions are given" if judged.executed is None else None


def _costliest(form: ScenarioForm, judged: Judgement) -> str | None:
    """The decision that lost most in expectation, in words; None if none lost anything."""
    found = judged.executed
    if found is None or found.losses is None or judged.path is None or judged.state is None:
        return None
    s = int(found.losses.argmax())
    if found.losses[s] == 0.0:
        return None
    at = State(judged.state.t + s, judged.path[s], found.done.levels[s])
    did, better = (
        action_in_words(form.problem, at, actions[s])
        for actions in (found.done.actions, found.advised)
    )
    return f"t={at.t}: {did}; better {better}"


def _step_rows(form: ScenarioForm, judged: Judgement) -> list[dict[str, Any]]:
    """One row for each step of a scenario."""
    journeys: dict[str, Journey | None] = {
        "executed": None if judged.executed is None else judged.executed.done,
        **{name: judged.players.get(name) for name in ("policy", "open_loop", "planned")},
    }
    rows = []
    for s, seen in enumerate(judged.scenario.seen):
        row: dict[str, Any] = {"scenario_id": judged.scenario.id, "t": s}
        for entry, value in zip(form.seen, seen, strict=True):
            row[entry.column] = entry.names[int(value)] if entry.names else float(value)
        for name, journey in journeys.items():
            levels = None if journey is None else journey.levels[s]
            row |= _named(f"{name}_level", form.tanks, levels)
            row |= _named(name, form.parts, None if journey is None else journey.actions[s])
        known, found = judged.hindsight, judged.executed
        row |= _named("hindsight", form.parts, None if known is None else known.actions[s])
        row |= _named("advised", form.parts, None if found is None else found.advised[s])
        losses = None if found is None else found.losses
        row["expected_loss"] = None if losses is None else float(losses[s])
        rows.append(row)
    return rows


def _named(name: str, endings: Sequence[str], values: FloatArray | None) -> dict[str, float | None]:
    columns = [f"{name}{ending}" for ending in endings]
    if values is None:
        return dict.fromkeys(columns)
    return dict(zip(columns, (np.asarray(values) + 0.0).tolist(), strict=True))


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
