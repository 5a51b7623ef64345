"""Runs of all kinds, solved in this process: real folders, with names that are markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import counterplan as cp
from counterplan.core.episode import Episode
from counterplan.domains.problems import ProblemChoice, stated
from counterplan.runs.question import Question
from counterplan.runs.regret import regret_spec
from counterplan.runs.run import Run, open_run
from counterplan.runs.store import Manifest, open_store, task_record
from counterplan.runs.task import TaskSpec, open_task
from counterplan.scm.support import collect_seen
from counterplan.tables.parts import Recorded
from counterplan.tables.scenarios import Scenario, scenarios_to_bytes

from ...runs.models import (
    ACTIONS,
    FEATURES,
    continuous_episodes,
    discrete_episodes,
    part_of,
    small_mdp,
    small_scm,
    spec_of,
)

# Ids and labels that would break out of a page that does not escape them.
ODD = ("<script>alert(1)</script>", "\"&'", "</script><img src=x onerror=alert(2)>", "naïve 患者")
LABEL = "<b>walk & $run$</b>"


def solved(
    spec: TaskSpec, parts: Sequence[bytes], out: Path, arguments: dict[str, Any] | None = None
) -> Run:
    """A complete run."""
    asked = Manifest(task_record(spec), arguments or {}, {"input": "0" * 64}, 0, 50, True)
    task = open_task(spec)
    with open_store(out, asked, spec.files) as store:
        found = store.begin(iter(parts))
        for index in found.pending:
            store.write_part(index, task.solve(store.read_part(index)))
        store.complete()
    return open_run(out)


def explain_run(
    folder: Path,
    model: Any,
    episodes: Sequence[Recorded],
    question: Question,
    about: dict[str, Any] | None = None,
) -> Run:
    """Episodes explained by a model, in parts of 20."""
    spec = spec_of(folder, model, question, about)
    parts = [part_of(episodes[start : start + 20]) for start in range(0, len(episodes), 20)]
    return solved(spec, parts, folder / "out", {"k": str(question.budgets[-1])})


def named(recorded: Recorded, name: str) -> Recorded:
    """The same episode under another id."""
    return recorded._replace(episode=replace(recorded.episode, id=name))


def discrete_run(folder: Path, count: int = 30, robust: bool = True) -> Run:
    """Policies for k = 0, 1, 2; the first ids are markup, and the last episode fails."""
    mdp = small_mdp()
    labelled = cp.TabularMDP(
        np.array([[mdp.row(s, a) for a in range(3)] for s in range(4)]),
        mdp.rewards,
        action_labels=["rest", LABEL, "run"],
    ).with_data(mdp.visits)
    episodes = discrete_episodes(mdp, count)
    episodes[: len(ODD)] = map(named, episodes[: len(ODD)], ODD)
    lost = Recorded(Episode([0, 9], [0, 0], id="lost-one"), np.arange(2.0), 0, (("cured", "1"),))
    question = Question((0, 1, 2), robust=robust)
    return explain_run(folder, labelled, [*episodes, lost], question)


def continuous_run(folder: Path, count: int = 12) -> Run:
    """Sequences for k = 0, 1, 2 on a table with a schema; the first ids are markup."""
    scm = small_scm()
    episodes = continuous_episodes(scm, count)
    episodes[: len(ODD)] = map(named, episodes[: len(ODD)], ODD)
    return explain_run(folder, scm, episodes, Question((0, 1, 2), nodes=500))


def ensemble_run(folder: Path, count: int = 8) -> Run:
    """The same table explained by a model with members, by a quick method."""
    simulated, scm = continuous_episodes(small_scm(), 40, seed=7), small_scm()
    given = cp.Transitions.collect([one.episode for one in simulated], None, FEATURES, ACTIONS)
    learned = cp.SmoothSCM.fit(given, members=6, fixed=1, seed=0)
    about = {**learned.about, **scm.about}
    model = replace(learned, about=about, seen=collect_seen(given, learned.scaling))
    episodes = continuous_episodes(scm, count)
    return explain_run(folder, model, episodes, Question((1, 2), solver="greedy", supported=False))


def regret_run(
    folder: Path,
    domain: str | ProblemChoice = "bunkering",
    planner: str | None = "uct",
    k: int | None = None,
) -> Run:
    """Executed plans of a problem; one of them was not possible."""
    chosen = ProblemChoice(domain) if isinstance(domain, str) else domain
    spec = regret_spec(chosen, planner, 30, True, 0, k)
    columns = open_task(spec).columns  # type: ignore[attr-defined]
    return solved(spec, [scenarios_to_bytes(scenarios(columns), columns)], folder / "out")


def marked_battery(folder: Path) -> Run:
    """Executed plans of a storage whose title, step and unit are markup."""
    text = (Path(__file__).parents[3] / "examples" / "battery.toml").read_text(encoding="utf-8")
    for words, markup in zip(
        ("A battery on the day-ahead market", "hour", "MWh"), ODD, strict=False
    ):
        text = text.replace(f'= "{words}"', f"= {json.dumps(markup)}")
    path = folder / "battery.toml"
    path.write_text(text, encoding="utf-8")
    return regret_run(folder, stated(str(path)))


def scenarios(columns: Any) -> list[Scenario]:
    """What the plan for expected values does on sampled paths, and something impossible."""
    from counterplan.planning.hindsight import checked_path
    from counterplan.planning.policies import OpenLoop, futures, played

    rule = OpenLoop().prepare(columns.problem)
    found = []
    for name, sampled in zip(
        (*ODD, "plain"), futures(columns.problem, len(ODD) + 1, 0), strict=True
    ):
        path, state = checked_path(columns.problem, sampled)
        done = played(columns.problem, rule, path, state)
        table = columns.written(path, done.actions)
        seen, decided = table[:, : len(columns.observed)], table[:, len(columns.observed) :]
        found.append(Scenario(name, seen, decided))
    wrong = np.full_like(found[0].decisions, 1e6)
    return [*found, Scenario("too-much", found[0].observed, wrong)]
