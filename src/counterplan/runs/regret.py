"""The task that judges executed plans: what each scenario lost, and which decision lost most.

For every scenario of a part: the optimum in hindsight, the best policy without foresight and the
open loop along the realised path, a planner's own decisions if one is asked for, and against them
what was executed. Whoever decides sees a step's own row and what came before it, never what
follows. A planner's chance comes from the seed and the scenario's id alone.

    results     one row for each scenario: values and regrets (more is worse), and the costliest
                decision; the fields of `ScenarioAnswer`
    decisions   one row for each scenario and step: what was seen, what everyone did and with what,
                and what the executed decision lost in expectation
"""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.limits import ProgressCallback
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.explain import explain
from counterplan.domains.problems import ProblemChoice, options_of, problem_class
from counterplan.planning.description import Columns, action_in_words, axes_of, columns_of
from counterplan.planning.evaluate import Journey, carried_out, played
from counterplan.planning.hindsight import checked_path
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
from counterplan.runs.answer import BESIDE, FAILED, column_types, parquet_bytes, row_of
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.run import DECISIONS, RESULTS, Run, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import REGRET, PartResult, TaskSpec, reason_of
from counterplan.tables.scenarios import (
    Scenario,
    ScenarioFile,
    scenario_parts,
    scenarios_from_bytes,
)

OPTIMAL, HEURISTIC = "optimal", "heuristic"
# Files that a problem is made from keep their kind: CSV, or Parquet if the name says so.
PARQUET = ".parquet"
# Starts whose optimum is kept: most scenarios begin alike.
STARTS = 32
# The columns that are there only where an explanation is asked for.
EXPLAINED = ("k", "value", "improvement", "changes")


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

    policy     whose the policy without foresight is
    planner    which planner decided along, if one did
    costliest  the decision that lost most in expectation, in words; None if none lost anything
    k          how many decisions may change in an explanation, None where none is asked for
    value      with the few changes that should have been made, knowing the path
    status     'optimal': compared with the optimum without foresight, 'heuristic': with the best
               policy known, 'failed': see the reason
    decisions  the rows of its steps in the other table
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
        """One row of the table of results."""
        found = row_of(self)
        return {name: found[name] for name in found if self.k is not None or name not in EXPLAINED}


@dataclass
class _Steps:
    """What everyone did at every step: executed, policy, open_loop and planned with the levels that
    it led to, hindsight and advised by the actions alone; and what the executed ones lost."""

    players: dict[str, Journey] = field(default_factory=dict)
    actions: dict[str, FloatArray] = field(default_factory=dict)
    losses: FloatArray | None = None

    def rows(self, columns: Columns, scenario: Scenario) -> list[dict[str, Any]]:
        """One row for each step of a scenario."""
        rows, axes = [], axes_of(columns.problem)
        for s, observed in enumerate(scenario.observed):
            row: dict[str, Any] = {"scenario_id": scenario.id, "t": s}
            for column, value in zip(columns.observed, observed, strict=True):
                row[column.name] = column.names[int(value)] if column.names else float(value)
            for name in ("executed", "policy", "open_loop", "planned"):
                one = self.players.get(name)
                levels = None if one is None else one.levels[s]
                row |= _named(f"{name}_level", axes.level_keys, levels)
                row |= _named(name, axes.action_keys, None if one is None else one.actions[s])
            for name in ("hindsight", "advised"):
                actions = self.actions.get(name)
                row |= _named(name, axes.action_keys, None if actions is None else actions[s])
            row["expected_loss"] = None if self.losses is None else float(self.losses[s])
            rows.append(row)
        return rows


def _named(name: str, endings: Sequence[str], values: FloatArray | None) -> dict[str, float | None]:
    columns = [f"{name}{ending}" for ending in endings]
    if values is None:
        return dict.fromkeys(columns)
    return dict(zip(columns, (np.asarray(values) + 0.0).tolist(), strict=True))


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


def _rest(old: str, new: str) -> str:
    """An action without the verb that it shares with the one before it."""
    verb, _, rest = old.partition(" ")
    return rest if rest and verb.isalpha() and new.startswith(f"{verb} ") else old


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
        failed = {"status": FAILED, "reason": reason}
        return self._result([self._answer(scenario, _Steps(), **failed) for scenario in scenarios])

    def judge(self, scenario: Scenario) -> ScenarioAnswer:
        """What a scenario lost; whatever is wrong with it is its reason."""
        steps = _Steps()
        try:
            path, state = checked_path(self.problem, self.columns.path(scenario.observed))
            state = self.columns.state(path, scenario.start)
            against = self._benchmark(state.t, state.exogenous.tobytes(), state.resource.tobytes())
            players = self._play(scenario.id, path, state, against)
            known = proved_hindsight(self.problem, path, state)
        # Whatever goes wrong with one scenario must not cost the others their answers.
        except Exception as problem:
            return self._answer(scenario, steps, status=FAILED, reason=reason_of(problem))
        steps.players, steps.actions = players, {"hindsight": known.actions}
        found: dict[str, Any] = {
            "policy": against.name,
            "planner": None if self._planner is None else self._planner.name,
            "hindsight": known.value,
            "without_foresight": players["policy"].value,
            "open_loop": players["open_loop"].value,
            "planned": players["planned"].value if self._planner else None,
            "status": OPTIMAL if against.exact else HEURISTIC,
        }
        if scenario.decisions is None:
            return self._answer(scenario, steps, **found, reason="no decisions are given")
        try:
            actions = self.columns.actions(path, state, scenario.decisions)
            done = carried_out(self.problem, path, actions, state)
            check_regret(self.problem, done.value, known.value)
            losses = expected_losses(path, done, against, state)
            advised = advice(path, done, against, state)
            explained = self._explained(path, state, done)
        except Exception as problem:
            found |= {"status": FAILED, "reason": reason_of(problem)}
            return self._answer(scenario, steps, **found)
        steps.players["executed"], steps.actions["advised"] = done, advised
        steps.losses = losses
        found |= explained | self._regrets(found, done, losses)
        found["costliest"] = self._costliest(state, steps)
        return self._answer(scenario, steps, **found)

    def _answer(self, scenario: Scenario, steps: _Steps, **found: Any) -> ScenarioAnswer:
        return ScenarioAnswer(
            scenario_id=scenario.id,
            steps=self.problem.horizon,
            sense=self.problem.sense,
            k=self._k,
            decisions=steps.rows(self.columns, scenario),
            **found,
        )

    def _regrets(
        self, found: Mapping[str, Any], done: Journey, losses: FloatArray | None
    ) -> dict[str, Any]:
        sign = 1.0 if self.problem.sense == "max" else -1.0
        against_best, against_policy = (
            sign * (found[name] - done.value) + 0.0 for name in ("hindsight", "without_foresight")
        )
        return {
            "executed": done.value,
            "regret_hindsight": max(0.0, against_best),
            "regret_policy": against_policy,
            "expected_regret": None if losses is None else float(losses.sum()),
        }

    def _explained(self, path: FloatArray, state: State, done: Journey) -> dict[str, Any]:
        """The few decisions that should have been others, if that is asked."""
        if self._k is None:
            return {}
        states = np.hstack([path, done.levels[:-1]])
        found = explain(self.problem, Episode(states, done.actions), self._k)
        changes = []
        for t, observed, alternative in found.changes:
            new, old = (
                action_in_words(self.problem, np.array(amounts))
                for amounts in (alternative, observed)
            )
            text = f"t={state.t + t}: {new} instead of {_rest(old, new)}"
            changes.append(DecisionChange(t, tuple(observed), tuple(alternative), text))
        return {"value": found.value, "improvement": found.improvement, "changes": tuple(changes)}

    def _costliest(self, state: State, steps: _Steps) -> str | None:
        """The decision that lost most in expectation, in words; None if none lost anything."""
        if steps.losses is None or not steps.losses.any():
            return None
        s, done = int(steps.losses.argmax()), steps.players["executed"]
        did, better = (
            action_in_words(self.problem, actions[s])
            for actions in (done.actions, steps.actions["advised"])
        )
        return f"t={state.t + s}: {did}; better {better}"

    def _play(
        self, name: str, path: FloatArray, state: State, against: Benchmark
    ) -> dict[str, Journey]:
        """Everybody who decides without foresight, along the path."""
        rules: dict[str, Rule] = {
            "policy": against.rule,
            "open_loop": OpenLoop().prepare(self.problem, state=state),
        }
        if self._planner is not None:
            decide = self._planner.begin(self.problem, self._clip, scenario_seed(self._seed, name))

            def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
                return np.array(decide(State(t, exogenous[0], resource[0])).action)[np.newaxis]

            rules["planned"] = rule
        return {name: played(self.problem, rule, path, state) for name, rule in rules.items()}

    def _benchmark_from(self, t: int, exogenous: bytes, resource: bytes) -> Benchmark:
        x, d = np.frombuffer(exogenous), np.frombuffer(resource)
        return benchmark(self.problem, State(t, x, d), seed=self._seed)

    def _result(self, found: list[ScenarioAnswer]) -> PartResult:
        import polars as pl

        rows = [one.row() for one in found]
        types = column_types(ScenarioAnswer)
        steps = [step for one in found for step in one.decisions]
        named = {one.name: pl.String for one in self.columns.observed if one.names}
        kinds = {"scenario_id": pl.String, "t": pl.Int64, **named}
        tables = {
            RESULTS: pl.DataFrame(rows, schema={name: types[name] for name in rows[0]}),
            DECISIONS: pl.DataFrame(
                steps, schema={name: kinds.get(name, pl.Float64) for name in steps[0]}
            ),
        }
        summary = {
            "episodes": len(found),
            "failed": sum(one.status == FAILED for one in found),
            "expected_regret": sum(one.expected_regret or 0.0 for one in found),
        }
        return PartResult({name: parquet_bytes(one) for name, one in tables.items()}, summary)


def scenario_seed(seed: int, name: str) -> int:
    """A seed of its own for every scenario, wherever and in whatever order it is judged."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{name}".encode()).digest()[:8], "big")


# --- All scenarios together -----------------------------------------------------------------------


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
    changed = {"k": about["k"]} if "k" in about else {}
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
