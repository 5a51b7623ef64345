"""Simulations per second of the tree search: `python -m benchmarks.planning` in the root.

A round times counterplan and the object tree (`tree_baseline`) on the same problem, one after the
other: UCT and MENTS, 1,000 simulations from the start, leaves valued by random rollouts, 32
quantiles where chance is continuous. A ratio compares neighbours in time. The object tree runs
twice:

    methods  on the problem's own Python methods, as one would write it for any model
    scalars  on the three problems rewritten by hand in plain numbers and lists (`scalar_models`)

Below, what other leaves cost: the model's own rollout policy, clipped by its bounds, and the bounds
alone; what becomes of the speed as the tree grows; how long advice takes, wall clock and processor
time; how much memory 1,000 open advisors take; and how long the first plan takes that anyone makes,
compiling included, and one by a program that comes after. Exits with 1 if the models or the values
disagree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "planning.md"
SIMULATIONS = 1000
QUANTILES = 32
ROUNDS = 7
CALLS = 20
SEEDS = 30
TARGET_RATIO = 100.0
# Both searches converge to the same values; after 1,000 simulations they may be this far apart.
CLOSE = 0.05
SIZES = (1_000, 20_000, 200_000)
SEASONS, ADVISORS = 60, 1_000
FIRST = """
import time, counterplan as cp
began, cpu = time.perf_counter(), time.process_time()
cp.plan(cp.domains.Bunkering(), cp.UCT(1000))
print(time.perf_counter() - began, time.process_time() - cpu)
"""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def main() -> int:
    # Libraries read these when they are loaded, so nothing that needs NumPy is imported before.
    os.environ.update(ONE_THREAD)
    from rich.console import Console

    from benchmarks.measure import machine

    console = Console(width=130, record=True)
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    console.print(
        f"load average {os.getloadavg()[0]:.1f}: above the number of cores, all is slower"
    )
    agreed = [_report(console, *case) for case in _cases()]
    _report_sizes(console)
    _report_advice(console)
    _report_first(console)
    head = "# Speed of planning\n\nWritten by `python -m benchmarks.planning`.\n"
    RESULTS.write_text(f"{head}\n```text\n{console.export_text()}```\n", encoding="utf-8")
    return 0 if all(agreed) else 1


def _cases() -> list[tuple[str, Any, Any]]:
    from benchmarks.scalar_models import ScalarBunkering, ScalarHybrid, ScalarOption
    from counterplan.domains.bunkering import Bunkering
    from counterplan.domains.hybrid import HybridVehicle
    from counterplan.domains.options import AmericanOption

    problems = [
        ("bunkering A", Bunkering("A"), ScalarBunkering),
        ("hybrid A, 3 modes", HybridVehicle("A"), ScalarHybrid),
        ("option C", AmericanOption("C"), ScalarOption),
    ]
    return [(name, problem, scalar(problem, QUANTILES)) for name, problem, scalar in problems]


def _report(console: Any, name: str, problem: Any, scalar: Any) -> bool:
    from rich.table import Table

    from benchmarks.scalar_models import disagreement
    from counterplan.planning.search.planners import MENTS, UCT

    same = disagreement(problem, scalar)
    agreed = same < 1e-9
    table = Table(title=f"{name}: simulations per second, {SIMULATIONS} a decision")
    for column in ("search", "wall clock", "processor", "methods", "ratio", "scalars", "ratio "):
        table.add_column(column, justify="left" if column == "search" else "right")
    for planner in (UCT, MENTS):
        cells, distance = _against_baselines(problem, scalar, planner)
        agreed = agreed and distance < CLOSE
        table.add_row(f"{planner.__name__}, random rollouts", *cells)
    for words, planner, clip in (
        ("the model's rollouts", UCT(SIMULATIONS), False),
        ("the model's rollouts, clipped", UCT(SIMULATIONS), True),
        ("bounds alone", UCT(SIMULATIONS, leaf="bounds"), False),
        ("the model's rollouts, clipped", MENTS(SIMULATIONS), True),
        ("bounds alone", MENTS(SIMULATIONS, leaf="bounds"), False),
    ):
        table.add_row(f"{planner.name}, {words}", *_speeds(_timing(_call(problem, planner, clip))))
    console.print(table)
    if not agreed:
        console.print(f"THE ANSWERS DIFFER (models by {same:.1e})", style="bold red")
    return agreed


def _call(problem: Any, planner: Any, clip: bool) -> Callable[[], Any]:
    """One decision at the start, everything prepared."""
    decide, start = planner.begin(problem, clip, 0), problem.start
    return lambda: decide(start)


def _timing(call: Callable[[], Any]) -> Any:
    from benchmarks.measure import timed, timing

    call()
    return timing([timed(call, CALLS) for _ in range(ROUNDS)])


def _speeds(taken: Any) -> tuple[str, str]:
    return (
        f"{SIMULATIONS / taken.wall.median:,.0f}",
        f"{SIMULATIONS / taken.cpu.median:,.0f}",
    )


def _against_baselines(problem: Any, scalar: Any, planner: Any) -> tuple[list[str], float]:
    """The cells of a row, and how far the values of the best action are apart, relatively."""
    import numpy as np

    from benchmarks.measure import ratio, timed, timing
    from benchmarks.scalar_models import MethodModel
    from benchmarks.tree_baseline import ObjectMENTS, ObjectUCT

    decide = planner(SIMULATIONS, leaf="uniform").begin(problem, False, 0)
    start = problem.start
    temperature = decide(start).stats["temperature"]
    methods = MethodModel(problem, QUANTILES)

    def baseline(model: Any, seed: int) -> Any:
        if planner.__name__ == "UCT":
            return ObjectUCT(model, seed)
        return ObjectMENTS(model, temperature, seed)

    rounds: dict[str, list[Any]] = {"fast": [], "methods": [], "scalars": []}
    for seed in range(ROUNDS):
        rounds["fast"].append(timed(lambda: decide(start), CALLS))
        for name, model in (("methods", methods), ("scalars", scalar)):
            tree = baseline(model, seed)
            rounds[name].append(timed(lambda tree=tree: tree.plan(SIMULATIONS)))
    taken = {name: timing(pairs) for name, pairs in rounds.items()}
    cells = list(_speeds(taken["fast"]))
    for name in ("methods", "scalars"):
        times, _ = ratio(taken[name], taken["fast"])
        verdict = (
            "" if name == "scalars" else (" met" if times.median >= TARGET_RATIO else " MISSED")
        )
        cells.append(f"{SIMULATIONS / taken[name].wall.median:,.0f}")
        cells.append(f"{times.median:,.0f} ({times.low:,.0f}-{times.high:,.0f}){verdict}")
    sign = -1.0 if problem.sense == "min" else 1.0
    ours = [np.nanmax(sign * decide(start).values) for _ in range(SEEDS)]
    theirs = [max(baseline(scalar, 100 + seed).plan(SIMULATIONS)) for seed in range(SEEDS)]
    return cells, float(abs(np.mean(ours) - np.mean(theirs)) / abs(np.mean(theirs)))


def _report_sizes(console: Any) -> None:
    """Simulations per second of processor time by the number of simulations."""
    from rich.table import Table

    from counterplan.domains.bunkering import Bunkering
    from counterplan.domains.options import AmericanOption
    from counterplan.planning.search.planners import UCT

    table = Table(title="UCT, the model's rollouts, clipped: simulations per second of processor")
    for column in ("problem", *(f"{size:,} simulations" for size in SIZES)):
        table.add_column(column, justify="left" if column == "problem" else "right")
    for name, problem in (("bunkering A", Bunkering("A")), ("option C", AmericanOption("C"))):
        cells = []
        for size in SIZES:
            decide: Any = UCT(size).begin(problem, True, 0)
            decide(problem.start)
            taken = []
            for _ in range(max(3, 100_000 // size)):
                began = time.process_time()
                decide(problem.start)
                taken.append(time.process_time() - began)
            cells.append(f"{size / sorted(taken)[len(taken) // 2]:,.0f}")
        table.add_row(name, *cells)
    console.print(table)


def _report_advice(console: Any) -> None:
    """Seasons played by an advisor, and what many advisors take."""
    import numpy as np

    import counterplan as cp
    from counterplan.planning.model import State

    problems = {
        "bunkering A": cp.domains.Bunkering("A"),
        "hybrid A, 3 modes": cp.domains.HybridVehicle("A"),
        "option C, binomial": cp.domains.AmericanOption("C", prices="binomial"),
    }
    for name, problem in problems.items():
        advisor, rng = cp.Advisor(problem, cp.UCT(SIMULATIONS)), np.random.default_rng(0)
        wall, cpu, kept = [], [], []
        for _ in range(SEASONS):
            state = problem.start
            while state.t < problem.horizon:
                clocks = time.perf_counter(), time.process_time()
                found = advisor.advise(state)
                wall.append(1e3 * (time.perf_counter() - clocks[0]))
                cpu.append(1e3 * (time.process_time() - clocks[1]))
                kept.append(found.stats["reused"])
                t, x, d = state.t, state.exogenous[None], state.resource[None]
                after = problem.step(t, x, d, found.action[None])[1][0]
                last = t + 1 == problem.horizon
                state = State(t + 1, x[0] if last else problem.draw(t, x, rng)[0], after)
        warm = slice(2 * problem.horizon, None)
        times = [np.quantile(one[warm], share) for one in (wall, cpu) for share in (0.5, 0.99)]
        console.print(
            f"advice, {name}: wall clock median {times[0]:.2f} ms, 99 % {times[1]:.2f} ms; "
            f"processor {times[2]:.2f} and {times[3]:.2f} ms; {np.mean(kept):.0f} visits kept"
        )
    before = _resident()
    advisors = [cp.Advisor(problems["bunkering A"], cp.UCT(SIMULATIONS)) for _ in range(ADVISORS)]
    for advisor in advisors:
        advisor.advise()
    console.print(f"{ADVISORS:,} advisors, each asked once: {_resident() - before:.0f} MB")


def _resident() -> float:
    """Memory in use, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _report_first(console: Any) -> None:
    """A plan in a new program, with nothing compiled yet, and again."""
    with tempfile.TemporaryDirectory() as folder:
        for words in ("the first plan, compiling", "the first plan of the next program"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            wall, cpu = (float(one) for one in done.stdout.split())
            console.print(f"{words}: {wall:.1f} s, {cpu:.1f} s of processor time")


if __name__ == "__main__":
    sys.exit(main())
