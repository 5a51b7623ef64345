"""Advice on tables of two simulators that were not invented here, against the truth: `python -m
benchmarks.simulators` in the repository's root.

    tumour   growth under chemotherapy and radiotherapy (`experiments.tumour`)
    glucose  days of virtual patients with diabetes (`experiments.glucose`; needs the package
             simglucose: `pip install --no-deps simglucose`)

Each goes the way of a user: a table and a schema, `counterplan fit --learner smooth`, `counterplan
explain --k 2` on fresh episodes, and the advice is tried in the simulator with the same luck.

    error     of the outcome of random alternatives with two changes, relative to their effect
    claimed   improvement that the command says; true: what the simulator says of the same changes
    possible  what the best two changes bring, by the simulator, all tried (the first episodes only)
    held      how often intervals of 90 % hold the truth: of the advice, and of random alternatives
    worse     how often following the advice is worse than what was done

`forecaster` is a deep one to compare with (`benchmarks.forecaster`): it tries all plans too.
Writes results/simulators.md; `--only`, `--sizes` and `--learner` measure a part, whose lines
replace the old.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import counterplan as cp
from benchmarks.forecaster import Course, Forecaster
from experiments import glucose, tumour

RESULTS = Path(__file__).parent / "results"
PROCESSES: dict[str, ModuleType] = {"tumour": tumour, "glucose": glucose}
SIZES = {"tumour": (250, 1000), "glucose": (250, 1000)}
# A search that needs more answers with its best sequence so far; no clock decides.
NODES = 300
K, ALTERNATIVES, FRESH_SEED = 2, 5, 99
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """A fresh episode: as simulated, as the table has it, and what may be done in it."""

    name: str
    simulated: Any
    episode: cp.Episode
    vectors: Array
    observed: NDArray[np.int64]


def outcomes(process: str, simulated: Any, plans: NDArray[np.int64]) -> Array:
    """(n,) what plans (n, T-1) truly bring: minus the sum of diameters, or of risks."""
    if process == "tumour":
        return np.asarray(-tumour.replay(simulated, plans)[0].sum(axis=1))
    return np.asarray(-glucose.replay(simulated, plans)[:, :, 2].sum(axis=1))


def plans_within(observed: NDArray[np.int64], n_actions: int) -> NDArray[np.int64]:
    """Every plan with two changes or less; the first is what was done."""
    found = [observed]
    for steps in combinations(range(len(observed)), K):
        for chosen in product(range(n_actions), repeat=K):
            plan = observed.copy()
            plan[list(steps)] = chosen
            found.append(plan)
    return np.unique(np.array(found), axis=0)


def alternatives(case: Case, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random plans with two changes."""
    n, plans = case.vectors.shape[-2], np.repeat(case.observed[None], ALTERNATIVES, axis=0)
    for plan in plans:
        steps = rng.choice(len(plan), size=K, replace=False)
        plan[steps] = (plan[steps] + rng.integers(1, n, size=K)) % n
    return plans


def write_table(path: Path, module: ModuleType, simulated: list[Any]) -> None:
    """As people would have it."""
    every = [row for i, one in enumerate(simulated) for row in module.rows(f"p{i}", one)]
    pl.DataFrame(every, infer_schema_length=None).write_csv(path)


def read_cases(folder: Path, simulated: list[Any]) -> list[Case]:
    """The fresh table, read as the command reads it."""
    schema = cp.tables.read_schema(folder / "schema.toml")
    layout, cases = cp.tables.SchemaLayout(schema), []
    for recorded, one in zip(
        cp.tables.read_table(folder / "fresh.csv", schema), simulated, strict=True
    ):
        vectors = np.asarray(layout.action_set(recorded.episode))
        name = str(recorded.episode.id)
        cases.append(Case(name, one, recorded.episode, vectors, np.asarray(one.actions)))
    return cases


def command(folder: Path, *arguments: str) -> None:
    """Runs a command of the product; its warnings are shown."""
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "counterplan", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    for line in done.stderr.splitlines():
        print("    ", line[:200], flush=True)
    if done.returncode:
        raise SystemExit(f"counterplan {arguments[0]} failed")


@dataclass(frozen=True)
class Measured:
    """What is claimed and what is true, by case."""

    error: float
    claimed: Array
    true: Array
    low: Array
    high: Array
    held_random: float
    seconds: float

    def row(self, process: str, size: int, learner: str, possible: Array) -> str:
        """As a line of the table of results."""
        held = np.mean((self.low <= self.true) & (self.true <= self.high))
        cells = (
            f"{self.error:.2f}",
            f"{self.claimed.mean():.2f}",
            f"{self.true.mean():.2f}",
            f"{self.claimed.mean() / self.true.mean():.2f}",
            f"{possible.mean():.2f}",
            f"{100 * self.true[: len(possible)].sum() / possible.sum():.0f} %",
            f"{100 * held:.0f} %",
            f"{np.mean(self.high - self.low):.2f}",
            f"{100 * self.held_random:.0f} %",
            f"{100 * np.mean(self.true < -1e-9):.0f} %",
            f"{100 * np.mean(self.low > 0.0):.0f} %",
            f"{self.seconds:.0f}",
        )
        if np.isnan(self.claimed).all():  # nothing was searched
            cells = (cells[0], *[""] * 7, cells[8], "", "", cells[11])
        return f"| {process} | {size:,} | {learner} | {len(self.true)} | {' | '.join(cells)} |"


HEADING = (
    "| process | episodes | learner | fresh | error | claimed | true | claimed / true | possible | "
    "true / possible | held | width | held, random | worse | established | seconds |\n"
    "| --- | ---: | --- | " + " | ".join(["---:"] * 13) + " |"
)


def ask_product(process: str, folder: Path, cases: list[Case], search: bool = True) -> Measured:
    """Fit and explain by the command line; the model itself is asked about alternatives."""
    started = time.process_time() + sum(os.times()[2:4])
    command(
        folder, "fit", "train.csv", "--schema", "schema.toml", "--learner", "smooth",
        "-o", "m.safetensors",
    )  # fmt: skip
    found = _explained(folder, cases) if search else {}
    seconds = time.process_time() + sum(os.times()[2:4]) - started
    model = cp.load_model(folder / "m.safetensors")
    layout = cp.tables.SchemaLayout(cp.tables.read_schema(folder / "schema.toml"))
    rng, parts, wrong, moved, held = np.random.default_rng(0), [], 0.0, 0.0, []
    for case in cases:
        others = alternatives(case, rng)
        plan, record = case.observed.copy(), found.get(case.name)
        for change in record["changes"] if record else []:
            plan[change["t"]] = _action(layout, case, change)
        every = np.concatenate([case.observed[None], plan[None], others])
        truth = outcomes(process, case.simulated, every)
        gained = truth[1:] - truth[0]
        if record:
            low, high = _interval(model, layout, case, plan, record)
            parts.append([record["improvement"] or 0.0, gained[0], low, high])
        else:
            parts.append([np.nan] * 4)
        for other, true in zip(others, gained[1:], strict=True):
            said = _replayed(model, layout, case, other)
            wrong, moved = wrong + (said.improvement - true) ** 2, moved + true**2
            held.append(said.interval.low <= true <= said.interval.high)
    error = float(np.sqrt(wrong / moved))
    return Measured(error, *np.array(parts).T, float(np.mean(held)), seconds)


def _explained(folder: Path, cases: list[Case]) -> dict[str, dict[str, Any]]:
    """The command's answers by episode."""
    asked = [part for one in cases for part in ("--episode", one.name)]
    command(
        folder, "explain", "fresh.csv", "-m", "m.safetensors", "--k", str(K), "--nodes", str(NODES),
        "--seconds", "3600", "-o", "out.json", *asked,
    )  # fmt: skip
    document = json.loads((folder / "out.json").read_text())
    return {str(one["episode_id"]): one for one in document["explanations"]}


def _action(layout: Any, case: Case, change: dict[str, Any]) -> int:
    """The number of an action; columns that an answer does not name stay as they were."""
    vectors = case.vectors[change["t"]]
    wanted = vectors[case.observed[change["t"]]].copy()
    for i, name in enumerate(layout.actions):
        if name in change["alternative"]:
            wanted[i] = float(change["alternative"][name])
    return int(np.flatnonzero((vectors == wanted).all(axis=1))[0])


def _replayed(model: Any, layout: Any, case: Case, plan: NDArray[np.int64]) -> Any:
    changes = {int(t): int(plan[t]) for t in np.flatnonzero(plan != case.observed)}
    return cp.replay(model, case.episode, changes, actions=case.vectors, reward=layout.reward())


def _interval(
    model: Any, layout: Any, case: Case, plan: NDArray[np.int64], record: dict[str, Any]
) -> tuple[float, float]:
    """As the answer has it; where it has none, that of the same plan made by hand."""
    if record.get("improvement_low") is not None:
        return float(record["improvement_low"]), float(record["improvement_high"])
    said = _replayed(model, layout, case, plan).interval
    return said.low, said.high


def ask_forecaster(process: str, folder: Path, cases: list[Case]) -> Measured:
    """Learn from the same table; try all plans with two changes."""
    started = time.process_time()
    schema = cp.tables.read_schema(folder / "schema.toml")
    layout = cp.tables.SchemaLayout(schema)
    episodes = [one.episode for one in cp.tables.read_table(folder / "train.csv", schema)]
    forecaster = Forecaster(_course(episodes, layout))
    rng, parts, wrong, moved, held = np.random.default_rng(0), [], 0.0, 0.0, []
    for case in cases:
        plans = plans_within(case.observed, case.vectors.shape[-2])
        others = alternatives(case, rng)
        said = _forecasts(forecaster, case, np.concatenate([plans, others]))
        mine, rest = said[:, : len(plans)], said[:, len(plans) :]
        best = int(mine.mean(axis=0).argmax())
        truth = outcomes(
            process, case.simulated, np.concatenate([case.observed[None], plans[[best]], others])
        )
        gained = truth[1:] - truth[0]
        low, high = np.quantile(said, (0.05, 0.95), axis=0)
        parts.append([mine[:, best].mean(), gained[0], low[best], high[best]])
        wrong += float(((rest.mean(axis=0) - gained[1:]) ** 2).sum())
        moved += float((gained[1:] ** 2).sum())
        held += list((low[len(plans) :] <= gained[1:]) & (gained[1:] <= high[len(plans) :]))
    claimed, gained, low, high = np.array(parts).T
    error, seconds = float(np.sqrt(wrong / moved)), time.process_time() - started
    return Measured(error, claimed, gained, low, high, float(np.mean(held)), seconds)


def _course(episodes: list[cp.Episode], layout: Any) -> Course:
    length = max(len(one) for one in episodes)
    n, (D, d) = len(episodes), (episodes[0].states.shape[1], episodes[0].actions.shape[1])
    states, actions = np.zeros((n, length, D)), np.zeros((n, length - 1, d))
    rewards, there = np.zeros((n, length)), np.zeros((n, length - 1))
    for i, one in enumerate(episodes):
        T = len(one)
        states[i, :T], actions[i, : T - 1] = one.states, one.actions[: T - 1]
        rewards[i, :T], there[i, : T - 1] = layout.reward()(one.states), 1.0
    return Course(states, actions, rewards, there)


def _forecasts(forecaster: Forecaster, case: Case, plans: NDArray[np.int64]) -> Array:
    steps = np.arange(plans.shape[1])
    differs = plans != case.observed
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), plans.shape[1])
    vectors = case.vectors[steps, plans]
    done = case.vectors[steps, case.observed]
    return forecaster.improvements(case.episode.states, vectors, done, first)


LEARNERS = {
    "smooth": ask_product,
    "smooth, not searched": partial(ask_product, search=False),
    "forecaster": ask_forecaster,
}


def measure(
    process: str, sizes: list[int], learners: list[str], fresh: int, enumerated: int
) -> list[str]:
    """All rows of a process."""
    module, lines = PROCESSES[process], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "schema.toml").write_text(module.SCHEMA)
        simulated = [one for one in module.simulate(2 * fresh, FRESH_SEED) if len(one.actions) > 4]
        simulated = simulated[:fresh]
        write_table(folder / "fresh.csv", module, simulated)
        cases = read_cases(folder, simulated)
        possible = np.array([_possible(process, case) for case in cases[:enumerated]])
        for size in sizes:
            write_table(folder / "train.csv", module, module.simulate(size, 0))
            for learner in learners:
                found = LEARNERS[learner](process, folder, cases)
                lines.append(found.row(process, size, learner, possible))
                print(lines[-1], flush=True)
    return lines


def _possible(process: str, case: Case) -> float:
    every = outcomes(process, case.simulated, plans_within(case.observed, case.vectors.shape[-2]))
    return float(every.max() - outcomes(process, case.simulated, case.observed[None])[0])


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(PROCESSES))
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--learner", choices=list(LEARNERS))
    parser.add_argument("--fresh", type=int, default=40)
    parser.add_argument("--enumerated", type=int, default=12)
    given = parser.parse_args()
    lines: list[str] = []
    for process in [given.only] if given.only else PROCESSES:
        sizes = given.sizes or list(SIZES[process])
        learners = [given.learner] if given.learner else list(LEARNERS)
        lines += measure(process, sizes, learners, given.fresh, given.enumerated)
    _write(lines)
    return 0


def _write(lines: list[str]) -> None:
    """The page, in which these lines replace those about the same."""
    path, key = RESULTS / "simulators.md", lambda line: tuple(line.split(" | ")[:3])
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = {key(line): line for line in old if line.startswith(tuple(f"| {p} " for p in PROCESSES))}
    rows.update({key(line): line for line in lines})
    heading = (
        "# Advice on tables of two published simulators, against the truth\n\n"
        f"Written by `python -m benchmarks.simulators`: at most {K} changes. What the columns are "
        "stands in `benchmarks/simulators.py`; possible is of the first episodes only, seconds are "
        "of one processor, to learn and to answer.\n"
    )
    RESULTS.mkdir(exist_ok=True)
    text = "\n".join([heading, HEADING, *(rows[one] for one in sorted(rows))]) + "\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
