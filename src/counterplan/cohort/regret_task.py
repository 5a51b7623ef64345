"""The task that judges executed plans: what each scenario lost, and which decision lost most.

For every scenario of a part: the optimum in hindsight, the best policy without foresight and the
open loop along the realised path, a planner's own decisions if one is asked for, and against them
what was executed. Whoever decides sees a step's own row and what came before it, never what
follows. A planner's chance comes from the seed and the scenario's id alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from counterplan.allocation.hindsight import Hindsight
from counterplan.cohort.regret_tables import Judged, Judgement, tables
from counterplan.cohort.task import REGRET, PartResult, TaskSpec, reason_of
from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_explanation import AllocationExplanation
from counterplan.counterfactual.explain import explain
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.io.plan_question import Question, problem_of
from counterplan.io.scenario_form import form_of
from counterplan.io.scenario_parts import scenarios_from_bytes
from counterplan.io.scenario_table import Scenario
from counterplan.planning.journey import Journey, carried_out, checked_path, played
from counterplan.planning.planners import PLANNERS
from counterplan.planning.policies import OpenLoop
from counterplan.planning.policy import Rule
from counterplan.planning.regret import (
    advice,
    check_regret,
    expected_losses,
    proved_hindsight,
)
from counterplan.planning.without_foresight import Benchmark, benchmark

# What a problem may be read from: CSV, or Parquet if the name says so.
FILES = ("prices_csv", "drive_cycle")
PARQUET = ".parquet"
# Starts whose optimum is kept: most scenarios begin alike.
STARTS = 32


def regret_spec(
    question: Question,
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
    said = {name: value for name, value in asdict(question).items() if value}
    asked = {name: value for name, value in said.items() if name not in FILES}
    files = {}
    for name in FILES:
        path = getattr(question, name)
        if path is not None:
            ending = PARQUET if path.suffix.lower() == PARQUET else ""
            files[name + ending] = path.read_bytes()
    searched = {"planner": planner, "simulations": simulations, "clip": clip} if planner else {}
    changed = {} if k is None else {"k": k}
    return TaskSpec(REGRET, {"problem": asked, "seed": seed, **searched, **changed}, files)


def open_task(spec: TaskSpec) -> RegretTask:
    """The task, its problem made ready."""
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, Any] = {}
        for name in FILES:
            for ending in ("", PARQUET):
                if (content := spec.files.get(name + ending)) is not None:
                    paths[name] = Path(folder) / (name + ending)
                    paths[name].write_bytes(content)
        problem = problem_of(Question(**spec.description["problem"], **paths))
    return RegretTask(problem, spec.description)


class RegretTask:
    """Judges the scenarios of a part."""

    def __init__(self, problem: ExogenousModel, description: Mapping[str, Any]) -> None:
        self.problem, self.form = problem, form_of(problem)
        self._seed = int(description["seed"])
        self._clip = bool(description.get("clip"))
        self._k: int | None = description.get("k")
        name = description.get("planner")
        self._planner = PLANNERS[name](int(description["simulations"])) if name else None
        self._benchmark = lru_cache(STARTS)(self._benchmark_from)

    def solve(self, part: bytes) -> PartResult:
        """Results and decisions of a part."""
        return self._result([self.judge(one) for one in scenarios_from_bytes(part, self.form)])

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be judged, every scenario with the reason."""
        scenarios = scenarios_from_bytes(part, self.form)
        return self._result(
            [Judgement(scenario, reason=reason, k=self._k) for scenario in scenarios]
        )

    def _result(self, found: list[Judgement]) -> PartResult:
        summary = {
            "episodes": len(found),
            "failed": sum(one.reason != "" for one in found),
            "expected_regret": sum(one.expected_regret or 0.0 for one in found),
        }
        return PartResult(tables(self.form, found), summary)

    def judge(self, scenario: Scenario) -> Judgement:
        """What a scenario lost; whatever is wrong with it is its reason."""
        try:
            path, state = checked_path(self.problem, self.form.path(scenario.seen))
            state = self.form.state(path, scenario.start)
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
        if scenario.decided is None:
            return judged
        try:
            actions = self.form.actions(path, state, scenario.decided)
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
