"""How much planners lose against the optimum: `python -m benchmarks.planning_quality` in the root.

Each planner plays the same futures with 1,000 simulations per decision. The futures' luck is taken
out: where the problem knows what each action loses in expectation (`loss`), these are added up;
elsewhere outcomes are penalised (`planning.control_variate`: the same mean, a fraction of the
variance). A last table compares clipping with no clipping in every configuration that has an exact
value. About fifteen minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
SIMULATIONS, SEED = 1000, 11
EPISODES = {"bunkering A, independent": 400, "option C": 400, "7 modes, E half": 120}
EPISODES_EVERYWHERE, CONFIGS = 60, "ABCDEF"


def main() -> int:
    """Measure, print and write."""
    import counterplan as cp

    problems = {
        "bunkering A, independent": cp.domains.Bunkering("A"),
        "option C": cp.domains.AmericanOption("C"),
        "7 modes, E half": cp.domains.HybridVehicle("E", modes=7, capacity="half"),
    }
    lines = [
        "# Quality of planning",
        "",
        "Written by `python -m benchmarks.planning_quality`.",
        "",
        f"{SIMULATIONS:,} simulations per decision; losses against V* on the same futures, without "
        "luck, standard errors in brackets. The last column compares clipped with unclipped.",
        "",
    ]
    for name, problem in problems.items():
        lines += [f"## {name}", "", *_table(problem, EPISODES[name]), ""]
        print("\n".join(lines[-20:]), flush=True)
    lines += _everywhere()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "planning_quality.md").write_text("\n".join(lines), encoding="utf-8")
    return 0


def _table(problem: Any, episodes: int) -> list[str]:
    import counterplan as cp

    optimum = cp.exact_value(problem)
    baseline = float(np.mean(_losses(problem, cp.policies.OpenLoop(), 20_000, None, optimum)))
    rows = [
        f"V* {optimum:,.2f}; executed open loop loses {baseline:,.2f}; {episodes} futures.",
        "",
        "| player | loss | % of V* | % of the open loop's loss closed | clipped - unclipped |",
        "| --- | --- | --- | --- | --- |",
        _row(
            "re-solve",
            _losses(problem, cp.policies.Resolve(), 20_000, None, optimum),
            (optimum, baseline),
        ),
    ]
    for planner in (cp.UCT, cp.MENTS, cp.BTS, cp.DENTS):
        found = {
            clip: _losses(problem, planner(SIMULATIONS), episodes, clip, optimum)
            for clip in (False, True)
        }
        difference = found[True] - found[False]
        rows.append(_row(planner.__name__, found[False], (optimum, baseline)))
        rows.append(
            _row(f"{planner.__name__}, clipped", found[True], (optimum, baseline), difference)
        )
    return rows


def _everywhere() -> list[str]:
    """What clipping changes in every configuration, in % of V*."""
    import counterplan as cp

    planners = (cp.UCT, cp.MENTS, cp.BTS, cp.DENTS)
    domains = cp.domains
    problems = {
        **{f"bunkering {key}": domains.Bunkering(key) for key in CONFIGS},
        **{f"bunkering {key}, global": domains.Bunkering(key, "global") for key in CONFIGS},
        **{f"3 modes {key}, tight": domains.HybridVehicle(key, 3, "tight") for key in CONFIGS},
        **{f"7 modes {key}, half": domains.HybridVehicle(key, 7, "half") for key in CONFIGS},
        **{f"option {key}": domains.AmericanOption(key) for key in CONFIGS},
    }
    lines = [
        "## Clipping, everywhere",
        "",
        f"Loss clipped minus loss unclipped, % of V*, {EPISODES_EVERYWHERE} futures; negative: "
        "clipping helps. * more than two standard errors from nothing.",
        "",
        "| problem | " + " | ".join(planner.__name__ for planner in planners) + " |",
        "| --- " * (len(planners) + 1) + "|",
    ]
    for name, problem in problems.items():
        optimum, cells = cp.exact_value(problem), []
        for planner in planners:
            off, on = (
                _losses(problem, planner(SIMULATIONS), EPISODES_EVERYWHERE, clip, optimum)
                for clip in (False, True)
            )
            change, error = np.mean(on - off) * 100 / optimum, _error(on - off) * 100 / optimum
            star = "*" if abs(change) > 2 * error else ""
            cells.append(f"{change:.3f} ({error:.3f}){star}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def _losses(problem: Any, player: Any, episodes: int, clip: Any, optimum: float) -> Any:
    """(n,) by how much each episode falls short of V*, luck apart."""
    import counterplan as cp
    from counterplan.core.validation import generator
    from counterplan.planning.policies import futures
    from experiments.control_variate import controlled_outcomes

    played = cp.evaluate(problem, player, episodes=episodes, clip=clip, seed=SEED)
    # The futures of `evaluate`, drawn again.
    paths = futures(problem, episodes, generator(SEED).spawn(2)[0])
    if hasattr(problem, "loss"):
        return _lost(problem, paths, played.actions)
    earned = controlled_outcomes(problem, paths, played.actions, seed=SEED)
    return optimum - earned if problem.sense == "max" else earned - optimum


def _lost(problem: Any, paths: Any, actions: Any) -> Any:
    """(n,) the sum of what each action loses in expectation."""
    resources = np.tile(problem.start.resource, (len(paths), 1))
    total = np.zeros(len(paths))
    for t in range(problem.horizon):
        now = np.ascontiguousarray(paths[:, t])
        total += problem.loss(t, now, resources, actions[:, t])
        resources = problem.step(t, now, resources, actions[:, t])[1]
    return total


def _row(name: str, losses: Any, scale: tuple[float, float], difference: Any = None) -> str:
    optimum, baseline = scale
    mean, error = float(np.mean(losses)), _error(losses)
    share, closed = 100 / optimum, 100 / baseline
    compared = ""
    if difference is not None:
        compared = f"{np.mean(difference):,.3g} ({_error(difference):,.2g})"
    return (
        f"| {name} | {mean:,.4g} ({error:,.2g}) | {mean * share:.2f} ({error * share:.2f}) "
        f"| {100 - mean * closed:.2f} ({error * closed:.2f}) | {compared} |"
    )


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    sys.exit(main())
