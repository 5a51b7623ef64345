"""Claims about real doses against a process whose counterfactuals are known:
`python -m benchmarks.dose_tables` in the repository's root, one core.

A table of two drugs in real doses is made: propofol calms, less and less the more there is of it,
and lowers the blood pressure; iron does nothing that is measured. A model is fitted, held-out
episodes are explained, and what would have happened is computed by the process itself, with the
noise that it had. With --levels also the best of five listed levels of each drug is searched for,
anywhere: doses that are worse, or above their bound, fail the run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

from benchmarks.discrete import ONE_THREAD

ROWS, LEARNED, ASKED = 12, 300, 60
SCHEMA = """
[table]
episode = "stay"
time = "hour"
unit = "h"

[columns.agitation]
role = "state"
unit = "points"
better = "lower"

[columns.map]
role = "state"
unit = "mmHg"
better = "higher"
weight = 0.3

[columns.weight]
role = "fixed"
unit = "kg"

[columns.propofol]
role = "action"
unit = "mg/h"
{propofol}

[columns.iron]
role = "action"
unit = "mg"
{iron}
"""
BOUNDS = {"propofol": (0.0, 200.0), "iron": (0.0, 40.0)}


def step(states: Any, doses: Any, weights: Any) -> Any:
    """(n, 2) agitation and blood pressure an hour later, without noise."""
    import numpy as np

    agitation, pressure = states.T
    calms = doses[:, 0] / weights / (0.5 + doses[:, 0] / weights)  # saturates
    calmer = 0.85 * agitation + 6.0 - 10.0 * calms
    lower = 0.7 * pressure + 0.3 * 85.0 - 6.0 * (doses[:, 0] / weights / 2.0) ** 1.2
    return np.stack([calmer, lower], axis=1)


def table(episodes: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """The table, and by stay its states, doses, weight and noise."""
    import numpy as np
    import polars as pl

    rng, rows, truth = np.random.default_rng(seed), [], {}
    for number in range(episodes):
        weight = rng.uniform(50.0, 100.0)
        state = np.array([rng.uniform(10.0, 30.0), rng.normal(85.0, 6.0)])
        states, given, noises = [state], [], []
        for _ in range(ROWS - 1):
            wanted = 20.0 + 2.0 * state[0] + 0.5 * (state[1] - 80.0) + rng.normal(0.0, 25.0)
            dose = np.array([np.clip(wanted, 0.0, 200.0), rng.uniform(0.0, 40.0)])
            noise = rng.normal(size=2) * [1.2, 2.0]
            state = step(state[None], dose[None], weight)[0] + noise
            states.append(state)
            given.append(dose)
            noises.append(noise)
        name = f"s{number}"
        truth[name] = np.array(states), np.array(given), weight, np.array(noises)
        doses = [*given, [None, None]]
        rows += [
            (name, t, *map(float, s), weight, *d)
            for t, (s, d) in enumerate(zip(states, doses, strict=True))
        ]
    names = ["stay", "hour", "agitation", "map", "weight", "propofol", "iron"]
    return pl.DataFrame(rows, schema=names, orient="row"), truth


def worth(states: Any) -> float:
    """What a course is worth, as the schema says it."""
    return float(-states[:, 0].sum() + 0.3 * states[:, 1].sum())


def truly(known: Any, doses: Any) -> float:
    """What other doses would have brought."""
    states, _, weight, noises = known
    course = [states[0]]
    for dose, noise in zip(doses, noises, strict=True):
        course.append(step(course[-1][None], dose[None], weight)[0] + noise)
    import numpy as np

    return worth(np.array(course)) - worth(states)


def schema() -> str:
    ends = {name: f"low = {low:g}\nhigh = {high:g}" for name, (low, high) in BOUNDS.items()}
    return SCHEMA.format(**ends)


def measure(model: Any, seed: int, k: int, seconds: float | None) -> None:
    """Claimed beside true improvements of fresh episodes."""
    import numpy as np

    import counterplan as cp

    frame, truth = table(ASKED, seed)
    started = time.process_time()
    found = cp.explain_table(frame, model, k=k, seconds=seconds)
    spent = (time.process_time() - started) / len(found)
    gained, held, worse, iron, marked, gaps = [], 0, 0, 0, 0, []
    for one in found:
        real = truly(truth[one.episode_id], one.explanation.actions)
        gained.append((one.improvement, real))
        held += one.improvement_low <= real <= one.improvement_high
        worse += real < -1e-9
        iron += sum(any(part.name == "iron" for part in change.parts) for change in one.changes)
        marked += sum("iron: not established" in change.text for change in one.changes)
        gaps.append(one.gap / max(one.improvement, 1e-12))
    claimed, real = np.array(gained).mean(axis=0)
    by = statistics.mean(one.established for one in found)
    print(
        f"k = {k}: claimed {claimed:.2f}, true {real:.2f} ({claimed / real:.2f}), intervals hold "
        f"{held / len(found):.0%}, worse {worse / len(found):.1%}, established {by:.0%}; iron in "
        f"{iron} changes, {marked} marked; gap median {np.median(gaps):.2%}, largest "
        f"{max(gaps):.1%}, {np.mean(np.array(gaps) <= 0.0101):.0%} within 1 %; {spent:.2f} s each"
    )


def against_levels(model: Any, seed: int, k: int, episodes: int) -> None:
    """Doses beside the best of 25 listed combinations, in the model, anywhere."""
    import numpy as np

    import counterplan as cp
    from counterplan.core.constraints import Constraints
    from counterplan.runs.explain import open_cohort

    cohort = open_cohort(table(episodes, seed)[0], model)
    explainer: Any = cohort.explainer
    anywhere, gains = Constraints(supported=False), []
    lines = [np.linspace(*BOUNDS[name], 5) for name in BOUNDS]
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2)
    for recorded in cohort.episodes():
        episode = recorded.episode
        given = {"constraints": anywhere, "reward": explainer.layout.reward(episode)}
        doses = episode.actions[: len(episode) - 1]
        every = np.repeat(grid[None], len(doses), axis=0)
        listed = np.concatenate([doses[:, None], every], axis=1)
        best = cp.explain(model, episode, k, actions=listed, **given)
        found = cp.explain(
            model, episode, k, actions=explainer.problem(episode)["actions"], **given,
            limits=cp.Limits(nodes=300),
        )  # fmt: skip
        if not best.value - 1e-9 <= found.value <= found.bound:
            raise SystemExit(f"k = {k}: {best.value} by levels, {found.value} up to {found.bound}")
        gains.append((found.value - best.value) / found.improvement)
    print(
        f"k = {k}, anywhere: never below the levels in {len(gains)} episodes, better in "
        f"{sum(one > 1e-9 for one in gains)}, by {np.median(gains):.1%} of the improvement "
        f"(median), {max(gains):.1%} (most)"
    )


def main() -> int:
    """Fit once, and print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--k", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--levels", type=int, default=0, metavar="EPISODES")
    given = parser.parse_args()
    os.environ.update(ONE_THREAD)
    import counterplan as cp

    model = cp.fit(table(LEARNED, given.seed)[0], schema())
    for k in given.k:
        measure(model, 1_000 + given.seed, k, given.seconds)
        if given.levels:
            against_levels(model, 1_000 + given.seed, k, given.levels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
