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
Writes results/simulators.md; `--only` and `--sizes` measure a part and print it.
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
SIZES = {"tumour": (250, 1000, 4000), "glucose": (250, 1000)}
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
        ratio = self.claimed.mean() / self.true.mean()
        best = possible.mean()
        share = self.true[: len(possible)].sum() / possible.sum()
        return (
            f"| {process} | {size:,} | {learner} | {self.error:.2f} | {self.claimed.mean():.2f} | "
            f"{self.true.mean():.2f} | {ratio:.2f} | {best:.2f} | {100 * share:.0f} % | "
            f"{100 * held:.0f} % | {np.mean(self.high - self.low):.2f} | "
            f"{100 * self.held_random:.0f} % | {100 * np.mean(self.true < -1e-9):.0f} % | "
            f"{np.mean(self.low > 0.0):.0%} | {self.seconds:.0f} |"
        )


HEADING = (
    "| process | episodes | learner | error | claimed | true | claimed / true | possible | "
    "true / possible | held | width | held, random | worse | established | seconds |\n"
    "| --- | ---: | --- | " + " | ".join(["---:"] * 12) + " |"
)


def ask_product(process: str, folder: Path, cases: list[Case]) -> Measured:
    """Fit and explain by the command line; the model itself is asked about alternatives."""
    started = time.process_time() + sum(os.times()[2:4])
    command(
        folder, "fit", "train.csv", "--schema", "schema.toml", "--learner", "smooth",
        "-o", "m.safetensors",
    )  # fmt: skip
    asked = [part for one in cases for part in ("--episode", one.name)]
    command(
        folder, "explain", "fresh.csv", "-m", "m.safetensors", "--k", str(K), "--seconds", "5",
        "-o", "out.json", *asked,
    )  # fmt: skip
    seconds = time.process_time() + sum(os.times()[2:4]) - started
    document = json.loads((folder / "out.json").read_text())
    found = {str(one["episode_id"]): one for one in document["explanations"]}
    model = cp.load_model(folder / "m.safetensors")
    layout = cp.tables.SchemaLayout(cp.tables.read_schema(folder / "schema.toml"))
    rng, parts, wrong, moved, held = np.random.default_rng(0), [], 0.0, 0.0, []
    for case in cases:
        observed = outcomes(process, case.simulated, case.observed[None])[0]
        record, plan = found[case.name], case.observed.copy()
        for change in record["changes"]:
            plan[change["t"]] = _action(layout, case, change)
        true = outcomes(process, case.simulated, plan[None])[0] - observed
        parts.append([record["improvement"] or 0.0, true, *_interval(model, layout, case, record)])
        for other in alternatives(case, rng):
            said = _replayed(model, layout, case, other)
            is_true = outcomes(process, case.simulated, other[None])[0] - observed
            wrong, moved = wrong + (said.improvement - is_true) ** 2, moved + is_true**2
            held.append(said.interval.low <= is_true <= said.interval.high)
    claimed, gained, low, high = np.array(parts).T
    error = float(np.sqrt(wrong / moved))
    return Measured(error, claimed, gained, low, high, float(np.mean(held)), seconds)


def _action(layout: Any, case: Case, change: dict[str, Any]) -> int:
    """The number of an action by its values."""
    names = layout.actions
    wanted = [float(change["alternative"][name]) for name in names if name in change["alternative"]]
    same = (case.vectors[change["t"]][:, : len(wanted)] == wanted).all(axis=1)
    return int(np.flatnonzero(same)[0])


def _replayed(model: Any, layout: Any, case: Case, plan: NDArray[np.int64]) -> Any:
    changes = {int(t): int(plan[t]) for t in np.flatnonzero(plan != case.observed)}
    return cp.replay(model, case.episode, changes, actions=case.vectors, reward=layout.reward())


def _interval(model: Any, layout: Any, case: Case, record: dict[str, Any]) -> tuple[float, float]:
    """As the answer has it; where it has none, that of the same plan made by hand."""
    given = record.get("interval") or record.get("improvement_interval")
    if given:
        low, high = given.values() if isinstance(given, dict) else given
        return float(low), float(high)
    plan = case.observed.copy()
    for change in record["changes"]:
        plan[change["t"]] = _action(layout, case, change)
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


def measure(process: str, sizes: list[int], fresh: int, enumerated: int) -> list[str]:
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
            for learner, ask in (("smooth", ask_product), ("forecaster", ask_forecaster)):
                found = ask(process, folder, cases)
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
    parser.add_argument("--fresh", type=int, default=100)
    parser.add_argument("--enumerated", type=int, default=40)
    given = parser.parse_args()
    started, lines = time.process_time() + sum(os.times()[2:4]), []
    for process in [given.only] if given.only else PROCESSES:
        sizes = given.sizes or list(SIZES[process])
        lines += measure(process, sizes, given.fresh, given.enumerated)
    seconds = time.process_time() + sum(os.times()[2:4]) - started
    if not (given.only or given.sizes):
        heading = (
            "# Advice on tables of two published simulators, against the truth\n\n"
            f"Written by `python -m benchmarks.simulators` in {seconds:.0f} s of processor time: "
            f"{given.fresh} fresh episodes, at most {K} changes; possible: of the first "
            f"{given.enumerated}. What the columns are stands in `benchmarks/simulators.py`.\n"
        )
        RESULTS.mkdir(exist_ok=True)
        text = "\n".join([heading, HEADING, *lines]) + "\n"
        (RESULTS / "simulators.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
