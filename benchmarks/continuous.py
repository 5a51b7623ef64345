"""The continuous search: `python -m benchmarks.continuous` in the repository's root, one core.

Needs the published sepsis model (see `sepsis_model`); takes about twenty minutes, most of them for
the paper's search and for trying everything: `--short` measures the rest, in a few minutes, and
leaves those tables as they are. Seconds are processor time. Answers that differ between methods
fail the run; a missed target does not.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

RESULTS = Path(__file__).parent / "results"
HORIZONS = (12, 16, 20)
BUDGETS = (1, 2, 3, 4, 5)
# Steps, budget, gap as a share of the outcome, the longest time and how many episodes.
LONG = ((20, 5, 0.0, 60.0, 30), (50, 5, 0.01, 10.0, 5), (200, 10, 0.05, 60.0, 1))
COMPARED = 3
LIMIT_SECONDS = 60.0
COMPARED_LIMIT_SECONDS = 900.0  # the paper's search is let run to its end
AGREE = 1e-6


def main() -> int:
    """Measure, print and write everything."""
    os.environ.update(ONE_THREAD)
    from benchmarks import sepsis_model
    from benchmarks.measure import machine

    if not sepsis_model.available():
        print("continuous search: skipped, the published sepsis model is not here", file=sys.stderr)
        return 0
    _solve(sepsis_model.cases(12)[0], 1)  # loads the compiled code
    load, earlier = os.getloadavg()[0], dict[str, Any]()
    stored, sections = (
        RESULTS / "continuous.json",
        {
            "Every budget and length": growth_table(),
            "Long episodes (simulated), stopped at a gap": long_table(),
            "Memory after all of these": memory_table(),
        },
    )
    slow = {
        "Against the paper's search and against trying everything (T = 12)": comparison_table,
        "What each part contributes (T = 12, k = 3)": partial(parts_table, 12, 3),
        "What each part contributes (T = 20, k = 4)": partial(parts_table, 20, 4),
        "Where greedy is not optimal": interacting_table,
    }
    if "--short" in sys.argv[1:]:
        before = json.loads(stored.read_text(encoding="utf-8"))
        sections |= {name: before[name] for name in slow}
        # Another machine, and another state of the search: not to be compared with what is new.
        earlier = before.get("earlier") or {key: before[key] for key in ("machine", "load")}
    else:
        sections |= {name: measure() for name, measure in slow.items()}
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = ["# Continuous search", "", "Written by `python -m benchmarks.continuous`.", ""]
    lines += [f"One core of: {facts}. Load average {load:.1f} to {os.getloadavg()[0]:.1f}.", ""]
    for title, rows in sections.items():
        lines += [f"## {title}", ""]
        if earlier and title in slow:
            where = ", ".join(f"{name} {value}" for name, value in earlier["machine"].items())
            lines += [f"From an earlier run, by the search as it was then, on: {where}.", ""]
        lines += [*_markdown(rows), ""]
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "continuous.md").write_text("\n".join(lines), encoding="utf-8")
    about = {"machine": machine(), "load": load, "earlier": earlier}
    data = json.dumps({**about, **sections}, indent=1)
    (RESULTS / "continuous.json").write_text(data + "\n", encoding="utf-8")
    return 0


def growth_table() -> list[dict[str, Any]]:
    """Medians over episodes of what a proof of optimality costs."""
    from benchmarks import sepsis_model

    rows = []
    for horizon in HORIZONS:
        for k in BUDGETS:
            found = [_solve(case, k) for case in sepsis_model.cases(horizon)]
            seconds = [one["seconds"] for one in found]
            rows.append(
                {
                    "T": horizon,
                    "k": k,
                    "episodes": len(found),
                    "median s": _round(statistics.median(seconds)),
                    "largest s": _round(max(seconds)),
                    "nodes expanded": statistics.median(one["expanded"] for one in found),
                    "nodes added": statistics.median(one["added"] for one in found),
                    "EBF": round(statistics.median(one["ebf"] for one in found), 3),
                    "proved optimal": sum(one["status"] == "optimal" for one in found),
                }
            )
    return rows


def long_table() -> list[dict[str, Any]]:
    """What it takes to come within a share of the outcome."""
    from benchmarks import sepsis_model

    rows = []
    for horizon, k, share, seconds, count in LONG:
        found = [
            _solve(case, k, seconds=seconds, share=share)
            for case in sepsis_model.simulated(horizon, count)
        ]
        taken = [one["seconds"] for one in found]
        rows.append(
            {
                "T": horizon,
                "k": k,
                "episodes": count,
                "asked for": f"{share:.0%}" if share else "proof",
                "median s": _round(statistics.median(taken)),
                "largest s": _round(max(taken)),
                "largest gap": f"{max(one['gap'] / abs(one['value']) for one in found):.2%}",
                "nodes expanded": statistics.median(one["expanded"] for one in found),
            }
        )
    return rows


def memory_table() -> list[dict[str, Any]]:
    """The most memory this process has held so far, libraries and model included."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [{"peak MB": round(kilobytes / 1024), "allowed MB": 2048}]


def comparison_table() -> list[dict[str, Any]]:
    """Our search, the paper's own and exhaustive search on the same episodes, one after another."""
    import counterplan as cp
    from benchmarks import sepsis_model
    from counterplan.counterfactual.oracle import Exhaustive

    paper = cp.AStar(
        cp.AnchorHeuristic("mc-lipschitz", samples=2000), batch=1, incumbent=False, rollout=False
    )
    rows = []
    for k in (1, 2, 3):
        for number, case in enumerate(sepsis_model.cases(12)[:COMPARED]):
            ours = _solve(case, k)
            theirs = _solve(case, k, paper, seconds=COMPARED_LIMIT_SECONDS)
            everything = _solve(case, k, Exhaustive(), seconds=COMPARED_LIMIT_SECONDS)
            for other in (theirs, everything):
                wrong = other["status"] == "optimal" and abs(other["value"] - ours["value"]) > AGREE
                if wrong:
                    raise SystemExit(f"answers differ at k={k}: {ours['value']} {other['value']}")
            rows.append(
                {
                    "k": k,
                    "episode": number,
                    "ours s": _round(ours["seconds"]),
                    "paper s": _round(theirs["seconds"]) + _mark(theirs),
                    "exhaustive s": _round(everything["seconds"]) + _mark(everything),
                    "paper / ours": round(theirs["seconds"] / ours["seconds"]),
                    "exhaustive / ours": round(everything["seconds"] / ours["seconds"]),
                    "nodes added: ours, paper": f"{ours['added']:.0f}, {theirs['added']:.0f}",
                }
            )
    return rows


def parts_table(horizon: int, k: int) -> list[dict[str, Any]]:
    """The whole search, and without each of its parts."""
    import counterplan as cp
    from benchmarks import sepsis_model
    from benchmarks.constants_only import ConstantsOnly

    whole = sepsis_model.model()
    variants = {
        "all parts": (whole, cp.AStar()),
        "one node at a time": (whole, cp.AStar(batch=1)),
        "no greedy start": (whole, cp.AStar(incumbent=False)),
        "spent budgets not followed at once": (whole, cp.AStar(rollout=False)),
        "constants instead of slopes": (ConstantsOnly(whole), cp.AStar()),
    }
    rows = []
    for name, (scm, solver) in variants.items():
        found = [_solve(case, k, solver, scm) for case in sepsis_model.cases(horizon)[:COMPARED]]
        rows.append(
            {
                "search": name,
                "median s": _round(statistics.median(one["seconds"] for one in found)),
                "nodes expanded": statistics.median(one["expanded"] for one in found),
                "proved optimal": sum(one["status"] == "optimal" for one in found),
                "largest gap": f"{max(one['gap'] for one in found):.2g}",
            }
        )
    return rows


def interacting_table() -> list[dict[str, Any]]:
    """Outcomes of greedy, top-k and the search where drugs only work together."""
    import counterplan as cp
    from counterplan.domains.interacting import interacting_episode

    rows = []
    for horizon in (8, 12):
        problem = interacting_episode(seed=0, horizon=horizon)
        options = {"actions": problem.actions, "reward": problem.reward}
        for k in (2, 3):
            best = cp.explain(problem.scm, problem.episode, k, **options)
            simple = {
                name: cp.explain(problem.scm, problem.episode, k, solver=solver, **options).value
                for name, solver in (
                    ("greedy", cp.baselines.Greedy()),
                    ("top-k", cp.baselines.TopK()),
                )
            }
            rows.append(
                {
                    "T": horizon,
                    "k": k,
                    "observed": round(best.factual_value, 4),
                    **{name: round(value, 4) for name, value in simple.items()},
                    "optimum": round(best.value, 4),
                    "s": _round(best.stats["seconds"]),
                }
            )
    return rows


def _solve(
    case: Any,
    k: int,
    solver: Any = None,
    scm: Any = None,
    seconds: float = LIMIT_SECONDS,
    share: float = 0.0,
) -> dict[str, Any]:
    """One question; its gap may be a share of the observed outcome."""
    import counterplan as cp
    from benchmarks import sepsis_model

    reward, gap = sepsis_model.reward(), 0.0
    if share:
        gap = share * abs(float(reward(case.episode.states).sum()))
    started = time.process_time()
    found = cp.explain(
        scm or sepsis_model.model(),
        case.episode,
        k,
        actions=case.actions,
        reward=reward,
        limits=cp.Limits(seconds=seconds, gap=gap),
        solver=solver,
    )
    return {
        "seconds": time.process_time() - started,
        "value": found.value,
        "gap": found.gap,
        "status": str(found.status),
        "expanded": found.stats.get("nodes_expanded", 0.0),
        "added": found.stats.get("nodes_added", 0.0),
        "ebf": found.stats.get("effective_branching_factor", 0.0),
    }


def _round(seconds: float) -> str:
    return f"{seconds:.3g}"


def _mark(found: dict[str, Any]) -> str:
    return "" if found["status"] == "optimal" else " (stopped)"


def _markdown(rows: list[dict[str, Any]]) -> list[str]:
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[str(value) for value in row.values()] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
