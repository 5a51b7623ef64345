"""The task that judges executed plans: what each scenario lost, and which decision lost most.

For every scenario of a part: the optimum in hindsight, the best policy without foresight and the
open loop along the realised path, a planner's own decisions if one is asked for, and against them
what was executed. Whoever decides sees a step's own row and what came before it, never what
follows. A planner's chance comes from the seed and the scenario's id alone.
"""

from __future__ import annotations

import hashlib
import heapq
import io
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.executed.setting import AllocationExplanation
from counterplan.counterfactual.explain import explain
from counterplan.domains.problems import ProblemChoice, options_of, problem_class
from counterplan.planning.description import Columns, action_in_words, axes_of, columns_of
from counterplan.planning.evaluate import Journey, carried_out, checked_path, played
from counterplan.planning.hindsight import Hindsight
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import OpenLoop, Rule
from counterplan.planning.regret import (
    Benchmark,
    advice,
    benchmark,
    check_regret,
    expected_losses,
    proved_hindsight,
)
from counterplan.planning.search.planners import PLANNERS
from counterplan.runs.task import REGRET, PartResult, TaskSpec, reason_of
from counterplan.tables.scenarios import Scenario, scenarios_from_bytes

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# What comes out of judging scenarios, as tables.
#
# results    one row for each scenario: values and regrets (more is worse), and its costliest
# decision decisions  one row for each scenario and step: what was seen, what everyone did and with
# what, and
#            what the executed decision lost in expectation

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


def tables(columns: Columns, judged: Sequence[Judgement]) -> dict[str, bytes]:
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
    results = pl.DataFrame([result_row(columns, one) for one in judged], schema_overrides=kinds)
    steps = [step for one in judged for step in _step_rows(columns, one)]
    named = {one.name: pl.String for one in columns.observed if one.names}
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


def result_row(columns: Columns, judged: Judgement) -> dict[str, Any]:
    """One scenario."""
    problem = columns.problem
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
        "costliest": _costliest(columns, judged),
        **_explained(columns, judged),
        "status": judged.status,
        "reason": judged.reason or _remark(judged),
    }


def _explained(columns: Columns, judged: Judgement) -> dict[str, Any]:
    """What at most k changed decisions would have brought; no columns where that was not asked."""
    if judged.k is None:
        return {}
    row: dict[str, Any] = {"k": judged.k, "value": None, "improvement": None}
    found = None if judged.executed is None else judged.executed.explained
    if found is None or judged.path is None or judged.state is None:
        return {**row, "changes": []}
    changes = []
    for t, observed, alternative in found.changes:
        new, old = (
            action_in_words(columns.problem, np.array(amounts))
            for amounts in (alternative, observed)
        )
        changes.append(
            {
                "t": t,
                "observed": list(observed),
                "alternative": list(alternative),
                "text": f"t={judged.state.t + t}: {new} instead of {_rest(old, new)}",
            }
        )
    row |= {"value": found.value, "improvement": found.improvement}
    return {**row, "changes": changes}


def _rest(old: str, new: str) -> str:
    """An action without the verb that it shares with the one before it."""
    verb, _, rest = old.partition(" ")
    return rest if rest and verb.isalpha() and new.startswith(f"{verb} ") else old


def _remark(judged: Judgement) -> str | None:
    return "no decisions are given" if judged.executed is None else None


def _costliest(columns: Columns, judged: Judgement) -> str | None:
    """The decision that lost most in expectation, in words; None if none lost anything."""
    found = judged.executed
    if found is None or found.losses is None or judged.path is None or judged.state is None:
        return None
    s = int(found.losses.argmax())
    if found.losses[s] == 0.0:
        return None
    did, better = (
        action_in_words(columns.problem, actions[s])
        for actions in (found.done.actions, found.advised)
    )
    return f"t={judged.state.t + s}: {did}; better {better}"


def _step_rows(columns: Columns, judged: Judgement) -> list[dict[str, Any]]:
    """One row for each step of a scenario."""
    journeys: dict[str, Journey | None] = {
        "executed": None if judged.executed is None else judged.executed.done,
        **{name: judged.players.get(name) for name in ("policy", "open_loop", "planned")},
    }
    rows, axes = [], axes_of(columns.problem)
    for s, observed in enumerate(judged.scenario.observed):
        row: dict[str, Any] = {"scenario_id": judged.scenario.id, "t": s}
        for column, value in zip(columns.observed, observed, strict=True):
            row[column.name] = column.names[int(value)] if column.names else float(value)
        for name, journey in journeys.items():
            levels = None if journey is None else journey.levels[s]
            row |= _named(f"{name}_level", axes.level_keys, levels)
            row |= _named(name, axes.action_keys, None if journey is None else journey.actions[s])
        known, found = judged.hindsight, judged.executed
        row |= _named("hindsight", axes.action_keys, None if known is None else known.actions[s])
        row |= _named("advised", axes.action_keys, None if found is None else found.advised[s])
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


# ----------------------------------------------------------------------------------------------

# Files that a problem is made from keep their kind: CSV, or Parquet if the name says so.
PARQUET = ".parquet"
# Starts whose optimum is kept: most scenarios begin alike.
STARTS = 32


def regret_spec(
    problem: ProblemChoice,
    planner: str | None,
    simulations: int,
    clip: bool,
    seed: int,
    k: int | None = None,
) -> TaskSpec:
    """The task for a problem; `planner` None: no planner decides along; `k`: what at most so many
    changed decisions would have brought is told, too."""
    if planner:
        PLANNERS[planner](simulations)  # a bad number is told of before anything is written
    asked: dict[str, Any] = {"domain": problem.domain}
    files = {}
    for name, value in problem.options.items():
        if isinstance(value, Path):
            ending = PARQUET if value.suffix.lower() == PARQUET else ""
            files[name + ending] = value.read_bytes()
        elif value:
            asked[name] = value
    searched = {"planner": planner, "simulations": simulations, "clip": clip} if planner else {}
    changed = {} if k is None else {"k": k}
    return TaskSpec(REGRET, {"problem": asked, "seed": seed, **searched, **changed}, files)


def open_task(spec: TaskSpec) -> RegretTask:
    """The task, its problem made ready."""
    options = dict(spec.description["problem"])
    domain = options.pop("domain")
    with tempfile.TemporaryDirectory() as folder:
        for name, option in options_of(problem_class(domain)).items():
            for ending in ("", PARQUET):
                content = spec.files.get(name + ending)
                if option.kind is Path and content is not None:
                    options[name] = Path(folder) / (name + ending)
                    options[name].write_bytes(content)
        problem = ProblemChoice(domain, options).make()
    return RegretTask(problem, spec.description)


class RegretTask:
    """Judges the scenarios of a part."""

    def __init__(self, problem: ExogenousModel, description: Mapping[str, Any]) -> None:
        self.problem, self.columns = problem, columns_of(problem)
        self._seed = int(description["seed"])
        # Where it is asked for and the problem has bounds.
        self._clip = None if description.get("clip") else False
        self._k: int | None = description.get("k")
        name = description.get("planner")
        self._planner = PLANNERS[name](int(description["simulations"])) if name else None
        self._benchmark = lru_cache(STARTS)(self._benchmark_from)

    def solve(self, part: bytes) -> PartResult:
        """Results and decisions of a part."""
        return self._result([self.judge(one) for one in scenarios_from_bytes(part, self.columns)])

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be judged, every scenario with the reason."""
        scenarios = scenarios_from_bytes(part, self.columns)
        return self._result(
            [Judgement(scenario, reason=reason, k=self._k) for scenario in scenarios]
        )

    def _result(self, found: list[Judgement]) -> PartResult:
        summary = {
            "episodes": len(found),
            "failed": sum(one.reason != "" for one in found),
            "expected_regret": sum(one.expected_regret or 0.0 for one in found),
        }
        return PartResult(tables(self.columns, found), summary)

    def judge(self, scenario: Scenario) -> Judgement:
        """What a scenario lost; whatever is wrong with it is its reason."""
        try:
            path, state = checked_path(self.problem, self.columns.path(scenario.observed))
            state = self.columns.state(path, scenario.start)
            known, players, against = self._play(scenario, path, state)
        # Whatever goes wrong with one scenario must not cost the others their answers.
        except Exception as problem:
            return Judgement(scenario, reason=reason_of(problem), k=self._k)
        judged = Judgement(
            scenario,
            path,
            state,
            known,
            players,
            against.name,
            against.exact,
            self._name,
            k=self._k,
        )
        if scenario.decisions is None:
            return judged
        try:
            actions = self.columns.actions(path, state, scenario.decisions)
            done = carried_out(self.problem, path, actions, state)
            check_regret(self.problem, done.value, known.value)
            losses = expected_losses(path, done, against, state)
            advised = advice(path, done, against, state)
            explained = self._explained(path, done)
        except Exception as problem:
            return replace(judged, reason=reason_of(problem))
        return replace(judged, executed=Judged(done, losses, advised, explained))

    def _explained(self, path: FloatArray, done: Journey) -> AllocationExplanation | None:
        """The few decisions that should have been others, if that is asked."""
        if self._k is None:
            return None
        states = np.hstack([path, done.levels[:-1]])
        return explain(self.problem, Episode(states, done.actions), self._k)

    @property
    def _name(self) -> str | None:
        return None if self._planner is None else self._planner.name

    def _play(
        self, scenario: Scenario, path: FloatArray, state: State
    ) -> tuple[Hindsight, dict[str, Journey], Benchmark]:
        """Hindsight, and everybody who decides without it."""
        against = self._benchmark(state.t, state.exogenous.tobytes(), state.resource.tobytes())
        rules: dict[str, Rule] = {
            "policy": against.rule,
            "open_loop": OpenLoop().prepare(self.problem, state=state),
        }
        if self._planner is not None:
            rules["planned"] = self._deciding(scenario.id)
        players = {name: played(self.problem, rule, path, state) for name, rule in rules.items()}
        return proved_hindsight(self.problem, path, state), players, against

    def _deciding(self, name: str) -> Rule:
        assert self._planner is not None
        decide = self._planner.begin(self.problem, self._clip, scenario_seed(self._seed, name))

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            return np.array(decide(State(t, exogenous[0], resource[0])).action)[np.newaxis]

        return rule

    def _benchmark_from(self, t: int, exogenous: bytes, resource: bytes) -> Benchmark:
        x, d = np.frombuffer(exogenous), np.frombuffer(resource)
        return benchmark(self.problem, State(t, x, d), seed=self._seed)


def scenario_seed(seed: int, name: str) -> int:
    """A seed of its own for every scenario, wherever and in whatever order it is judged."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{name}".encode()).digest()[:8], "big")


# ----------------------------------------------------------------------------------------------
# What all scenarios of a run come to, and which of them lost most.

TOTALS = ("executed", "hindsight", "without_foresight", "open_loop", "planned", "expected_regret")


@dataclass
class Summary:
    """Results as they come: totals, and those that lost most.

    most      how many of these are kept
    executed  scenarios that say what was done; totals are over these, if there are any
    """

    most: float
    scenarios: int = 0
    executed: int = 0
    sense: str = "max"
    failures: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    _totals: tuple[Counter[str], Counter[str]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    _worst: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Another scenario."""
        self.scenarios += 1
        self.sense = row["sense"]
        if row["status"] == "failed":
            self.failed += 1
            if len(self.failures) < self.most:
                self.failures.append(row)
            return
        is_executed = row["executed"] is not None
        self.executed += is_executed
        totals = self._totals[is_executed]
        totals.update({name: row[name] for name in TOTALS if row[name] is not None})
        keep = heapq.heappush if len(self._worst) < self.most else heapq.heappushpop
        keep(self._worst, (lost(row), -self.scenarios, row))

    @property
    def totals(self) -> dict[str, float]:
        """Sums over the scenarios."""
        return dict(self._totals[self.executed > 0])

    @property
    def worst(self) -> list[dict[str, Any]]:
        """Those that lost most, the most first; of equals the first in the table."""
        return [row for _, _, row in sorted(self._worst, reverse=True)]

    def record(self, output: Path | None) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "out": None if output is None else str(output),
            "scenarios": self.scenarios,
            "executed": self.executed,
            "failed": self.failed,
            "sense": self.sense,
            "totals": self.totals,
            "worst": self.worst,
            "failures": self.failures,
        }


def lost(row: dict[str, Any]) -> float:
    """What a scenario lost: in expectation, or where that is not known against the policy."""
    for name in ("expected_regret", "regret_policy"):
        if row[name] is not None:
            return float(row[name])
    return 0.0
