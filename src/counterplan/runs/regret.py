"""Runs that judge executed plans: what each scenario lost, and which decision lost most.

For every scenario of a part: the optimum in hindsight, the best policy without foresight and the
open loop along the realised path, a planner's own decisions if one is asked for, and against them
what was executed. Whoever decides sees a step's own row and what came before it, never what
follows. A planner's chance comes from the seed and the scenario's id alone.

    results     one row for each scenario: values and regrets (more is worse), and the costliest
                decision; the fields of `ScenarioAnswer`
    decisions   one row for each scenario and step: what was seen, what everyone did and with what,
                and what the executed decision lost in expectation

A problem goes along as a description and the files that it is made from (`regret_spec`), so that it
can be made again anywhere (`runs.run.open_problem`); `summarised` adds up what scenarios lost.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.explain import explain
from counterplan.planning.description import action_in_words, axes_of, columns_of
from counterplan.planning.evaluate import carried_out
from counterplan.planning.hindsight import checked_path
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import OpenLoop, Played, Rule, played
from counterplan.planning.regret import (
    Benchmark,
    advice,
    benchmark,
    check_regret,
    expected_losses,
    proved_hindsight,
)
from counterplan.planning.risk import Risk
from counterplan.planning.search.planners import PLANNERS, begun
from counterplan.runs.answer import BESIDE, FAILED, column_types, parquet_bytes, row_of
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.run import DECISIONS, KEPT_ENDINGS, RESULTS, Run, open_problem, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import REGRET, PartResult, TaskSpec, reason_of
from counterplan.tables.scenarios import Scenario, scenario_parts, scenarios_from_bytes

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.limits import ProgressCallback
    from counterplan.domains.problems import ProblemChoice
    from counterplan.tables.scenarios import ScenarioFile

OPTIMAL, HEURISTIC = "optimal", "heuristic"
# Starts whose optimum is kept: most scenarios begin alike.
STARTS = 32
# The columns that are there only where an explanation is asked for.
EXPLAINED = ("k", "value", "improvement", "changes")
# What is added up over scenarios.
TOTALS = ("executed", "hindsight", "without_foresight", "open_loop", "planned", "expected_regret")


@dataclass(frozen=True)
class DecisionChange:
    """A decision that should have been another: amounts at the step `t`, and all of it in words."""

    t: int
    observed: tuple[float, ...]
    alternative: tuple[float, ...]
    text: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ScenarioAnswer:
    """What a scenario lost; what could not be found is None. Its fields are the columns of the
    results.

    scenario_id        its name
    steps              how long it is
    sense              min: values are costs, max: rewards
    policy             whose the policy without foresight is
    planner            which planner decided along, if one did, and for which risk
    executed           what the decisions brought
    hindsight          what foresight would have brought
    without_foresight  what the best policy known would have
    open_loop          what the plan for expected values would have, made once
    planned            what the planner would have
    regret_hindsight   how much better hindsight is than what was done
    regret_policy      and how much better the policy
    expected_regret    what the decisions lost in expectation, when they were made
    costliest          the decision that lost most so, in words; None if none lost anything
    k                  how many decisions may change in an explanation, None where none is asked for
    value              with the few changes that should have been made, knowing the path
    improvement        by how much that is better
    changes            these, in order of time
    status             optimal: compared with the optimum without foresight, heuristic: with the
                       best policy known, failed: see the reason
    reason             why it could not be judged
    decisions          the rows of its steps in the other table
    """

    scenario_id: str
    steps: int
    sense: str
    policy: str | None = None
    planner: str | None = None
    executed: float | None = None
    hindsight: float | None = None
    without_foresight: float | None = None
    open_loop: float | None = None
    planned: float | None = None
    regret_hindsight: float | None = None
    regret_policy: float | None = None
    expected_regret: float | None = None
    costliest: str | None = None
    k: int | None = None
    value: float | None = None
    improvement: float | None = None
    changes: tuple[DecisionChange, ...] = ()
    status: str
    reason: str | None = None
    decisions: Sequence[Mapping[str, Any]] = field(repr=False, metadata=BESIDE)

    def row(self) -> dict[str, Any]:
        found = row_of(self)
        return {name: found[name] for name in found if self.k is not None or name not in EXPLAINED}


def _named(name: str, endings: Sequence[str], values: FloatArray | None) -> dict[str, float | None]:
    columns = [f"{name}{ending}" for ending in endings]
    if values is None:
        return dict.fromkeys(columns)
    return dict(zip(columns, (np.asarray(values) + 0.0).tolist(), strict=True))


def open_task(spec: TaskSpec) -> RegretTask:
    """The task, its problem made ready."""
    return RegretTask(open_problem(spec.description, spec.files), spec.description)


class RegretTask:
    """Judges the scenarios of a part."""

    def __init__(self, problem: ExogenousModel, description: Mapping[str, Any]) -> None:
        self.problem, self.columns, self._axes = problem, columns_of(problem), axes_of(problem)
        self._seed = int(description["seed"])
        # Where it is asked for and the problem has bounds.
        self._clip = None if description.get("clip") else False
        self._k: int | None = description.get("k")
        name = description.get("planner")
        self._planner = PLANNERS[name](int(description["simulations"])) if name else None
        self._risk = Risk.read(description.get("risk"))
        self._benchmark = lru_cache(STARTS)(self._benchmark_from)

    def solve(self, part: bytes) -> PartResult:
        return self._result([self.judge(one) for one in scenarios_from_bytes(part, self.columns)])

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be judged, every scenario with the reason."""
        failed = {"status": FAILED, "reason": reason}
        every = scenarios_from_bytes(part, self.columns)
        return self._result([self._answer(one, {}, **failed) for one in every])

    def judge(self, scenario: Scenario) -> ScenarioAnswer:
        """What a scenario lost; whatever is wrong with it is its reason."""
        try:
            path, state = checked_path(self.problem, self.columns.path(scenario.observed))
            state = self.columns.state(path, scenario.start)
            against = self._benchmark(state.t, state.exogenous.tobytes(), state.resource.tobytes())
            players: dict[str, Any] = {**self._play(scenario.id, path, state, against)}
            known = proved_hindsight(self.problem, path, state)
        # Whatever goes wrong with one scenario must not cost the others their answers.
        except Exception as problem:
            return self._answer(scenario, {}, status=FAILED, reason=reason_of(problem))
        found: dict[str, Any] = {
            "policy": against.name,
            "planner": None
            if self._planner is None
            else planned_for(self._planner.name, self._risk),
            "hindsight": known.value,
            "without_foresight": players["policy"].value,
            "open_loop": players["open_loop"].value,
            "planned": players["planned"].value if self._planner else None,
            "status": OPTIMAL if against.exact else HEURISTIC,
        }
        players["hindsight"] = known.actions
        if scenario.decisions is None:
            return self._answer(scenario, players, **found, reason="no decisions are given")
        try:
            actions = self.columns.actions(path, state, scenario.decisions)
            done = carried_out(self.problem, path, actions, state)
            check_regret(self.problem, done.value, known.value)
            losses = expected_losses(done, against)
            advised = advice(done, against)
            found |= self._explained(path, state, done)
        except Exception as problem:
            found |= {"status": FAILED, "reason": reason_of(problem)}
            return self._answer(scenario, players, **found)
        players |= {"executed": done, "advised": advised, "losses": losses}
        sign = 1.0 if self.problem.sense == "max" else -1.0
        found |= {
            "executed": done.value,
            "regret_hindsight": max(0.0, sign * (known.value - done.value) + 0.0),
            "regret_policy": sign * (found["without_foresight"] - done.value) + 0.0,
        }
        if losses is not None:
            found["expected_regret"], worst = float(losses.sum()), int(losses.argmax())
            if losses.any():
                did, better = map(self._in_words, (done.actions[worst], advised[worst]))
                found["costliest"] = f"t={state.t + worst}: {did}; better {better}"
        return self._answer(scenario, players, **found)

    def _in_words(self, action: ArrayLike) -> str:
        return action_in_words(self.problem, np.asarray(action))

    def _answer(
        self, scenario: Scenario, players: Mapping[str, Any], **found: Any
    ) -> ScenarioAnswer:
        return ScenarioAnswer(
            scenario_id=scenario.id,
            steps=self.problem.horizon,
            sense=self.problem.sense,
            k=self._k,
            decisions=self._rows(scenario, players),
            **found,
        )

    def _rows(self, scenario: Scenario, players: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One row for each step of a scenario: executed, policy, open_loop and planned with the
        levels that they led to, hindsight and advised by the actions alone; and the losses."""
        rows, axes, losses = [], self._axes, players.get("losses")
        for s, observed in enumerate(scenario.observed):
            row: dict[str, Any] = {"scenario_id": scenario.id, "t": s}
            for column, value in zip(self.columns.observed, observed, strict=True):
                row[column.name] = column.names[int(value)] if column.names else float(value)
            for name in ("executed", "policy", "open_loop", "planned"):
                one = players.get(name)
                levels = None if one is None else one.levels[s]
                row |= _named(f"{name}_level", axes.level_keys, levels)
                row |= _named(name, axes.action_keys, None if one is None else one.actions[s])
            for name in ("hindsight", "advised"):
                actions = players.get(name)
                row |= _named(name, axes.action_keys, None if actions is None else actions[s])
            row["expected_loss"] = None if losses is None else float(losses[s])
            rows.append(row)
        return rows

    def _explained(self, path: FloatArray, state: State, done: Played) -> dict[str, Any]:
        """The few decisions that should have been others, if that is asked."""
        if self._k is None:
            return {}
        states = np.hstack([path, done.levels[:-1]])
        found = explain(self.problem, Episode(states, done.actions), self._k)
        changes = []
        for t, observed, alternative in found.changes:
            new, old = self._in_words(alternative), self._in_words(observed)
            verb, _, rest = old.partition(" ")
            # Without the verb that both share.
            is_shared = rest and verb.isalpha() and new.startswith(f"{verb} ")
            text = f"t={state.t + t}: {new} instead of {rest if is_shared else old}"
            changes.append(DecisionChange(t, tuple(observed), tuple(alternative), text))
        return {"value": found.value, "improvement": found.improvement, "changes": tuple(changes)}

    def _play(
        self, name: str, path: FloatArray, state: State, against: Benchmark
    ) -> dict[str, Played]:
        """Everybody who decides without foresight, along the path."""
        rules: dict[str, Rule] = {
            "policy": against.rule,
            "open_loop": OpenLoop().prepare(self.problem, state=state),
        }
        if self._planner is not None:
            own = scenario_seed(self._seed, name)
            decide = begun(self._planner, self.problem, self._clip, own, self._risk)

            def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
                return np.array(decide(State(t, exogenous[0], resource[0])).action)[np.newaxis]

            rules["planned"] = rule
        return {name: played(self.problem, rule, path, state) for name, rule in rules.items()}

    def _benchmark_from(self, t: int, exogenous: bytes, resource: bytes) -> Benchmark:
        x, d = np.frombuffer(exogenous), np.frombuffer(resource)
        return benchmark(self.problem, State(t, x, d), seed=self._seed)

    def results(self, found: Sequence[ScenarioAnswer]) -> pl.DataFrame:
        import polars as pl

        rows, types = [one.row() for one in found], column_types(ScenarioAnswer)
        return pl.DataFrame(rows, schema={name: types[name] for name in rows[0]})

    def _result(self, found: list[ScenarioAnswer]) -> PartResult:
        import polars as pl

        steps = [step for one in found for step in one.decisions]
        named = {one.name: pl.String for one in self.columns.observed if one.names}
        kinds = {"scenario_id": pl.String, "t": pl.Int64, **named}
        schema = {name: kinds.get(name, pl.Float64) for name in steps[0]}
        tables = {
            RESULTS: self.results(found),
            DECISIONS: pl.DataFrame(steps, schema=schema),
        }
        summary = {
            "episodes": len(found),
            "failed": sum(one.status == FAILED for one in found),
            "expected_regret": sum(one.expected_regret or 0.0 for one in found),
        }
        return PartResult({name: parquet_bytes(one) for name, one in tables.items()}, summary)


def planned_for(planner: str, risk: Risk) -> str:
    """A planner, and what it plans for where that is not the mean."""
    return planner if risk.is_mean else f"{planner} for {risk}, at every step"


def scenario_seed(seed: int, name: str) -> int:
    """A seed of its own for every scenario, wherever and in whatever order it is judged."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{name}".encode()).digest()[:8], "big")


def regret_spec(
    problem: ProblemChoice,
    planner: str | None,
    simulations: int,
    clip: bool,
    seed: int,
    k: int | None = None,
    risk: str | None = None,
) -> TaskSpec:
    """The task for a problem; `planner` None: no planner decides along; `k`: what at most so many
    changed decisions would have brought is told, too; `risk`: what the planner plans for."""
    Risk.read(risk)
    if planner:
        PLANNERS[planner](simulations)  # a bad number is told of before anything is written
    asked: dict[str, Any] = {"domain": problem.domain}
    files = {}
    for name, value in problem.options.items():
        if isinstance(value, Path):
            ending = value.suffix.lower() if value.suffix.lower() in KEPT_ENDINGS else ""
            files[name + ending] = value.read_bytes()
        elif value or (value == 0 and value is not False):  # a number that is 0 was said, too
            asked[name] = value
    searched = {"planner": planner, "simulations": simulations, "clip": clip} if planner else {}
    searched |= {"risk": risk} if planner and risk is not None else {}
    changed = {} if k is None else {"k": k}
    return TaskSpec(REGRET, {"problem": asked, "seed": seed, **searched, **changed}, files)


def run_scenarios(
    table: ScenarioFile,
    spec: TaskSpec,
    folder: Path,
    progress: ProgressCallback | None = None,
    **places: Any,
) -> Run:
    """Judge all scenarios of a table and keep everything in a folder; `places`: the workers or the
    cluster of `RunSettings`."""
    about = spec.description
    searched = {name: about.get(name) for name in ("planner", "simulations", "clip")}
    changed = {name: about[name] for name in ("k", "risk") if name in about}
    with Path(table.path).open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    settings = RunSettings(
        arguments={**about["problem"], **searched, **changed},
        hashes={"input": checksum, **{name: sha256(one) for name, one in spec.files.items()}},
        seed=about["seed"],
        **places,
    )
    parts = scenario_parts(table.scenarios(), table.columns, settings.part_size)
    return open_run(run_cohort(spec, parts, folder, settings, progress).out)


def summarised(results: pl.LazyFrame, most: int | None) -> dict[str, Any]:
    """All scenarios together: how many there are, totals (over those that say what was done, if
    there are any), and at most so many each of those that lost most, of equals the first in the
    table, and of those that failed."""
    import polars as pl

    is_failed = pl.col("status") == FAILED
    every = results.select("status", "sense", *TOTALS).collect()
    judged = every.filter(~is_failed)
    executed = judged.filter(pl.col("executed").is_not_null())
    known = (executed if len(executed) else judged).select(TOTALS)
    totals = {one.name: math.fsum(one.drop_nulls()) for one in known if one.count()}
    loss = pl.coalesce("expected_regret", "regret_policy", pl.lit(0.0))
    worst = results.filter(~is_failed).sort(loss, descending=True, maintain_order=True)
    return {
        "scenarios": len(every),
        "executed": len(executed),
        "failed": len(every) - len(judged),
        "sense": every["sense"][-1],
        "totals": totals,
        "worst": worst.slice(0, most).collect().to_dicts(),
        "failures": results.filter(is_failed).slice(0, most).collect().to_dicts(),
    }


def lost(row: dict[str, Any]) -> float:
    """What a scenario lost: in expectation, or where that is not known against the policy."""
    known = (row[name] for name in ("expected_regret", "regret_policy"))
    return float(next((value for value in known if value is not None), 0.0))
