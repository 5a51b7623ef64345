"""Real doses: `python -m benchmarks.doses` in the repository's root, one core.

Needs the published sepsis model (see `sepsis_model`); takes a minute or two. Seconds are processor
time; the ratio is to the search over the 25 listed levels of the same episodes. An answer below the
best of the levels, or above its own bound, fails the run.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

from benchmarks.discrete import ONE_THREAD

BUDGETS = (1, 2, 3)
EPISODES = 30


def main() -> int:
    """Measure and print."""
    os.environ.update(ONE_THREAD)
    from benchmarks import sepsis_model

    if not sepsis_model.available():
        print("doses: skipped, the published sepsis model is not here", file=sys.stderr)
        return 0
    _measure(sepsis_model.cases(12)[0], 2)  # loads the compiled code
    for k in BUDGETS:
        rows = [_measure(case, k) for case in sepsis_model.cases(12)[:EPISODES]]
        middle = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        largest = max(row["seconds"] for row in rows)
        better = sum(row["gain"] > 1e-9 for row in rows)
        print(
            f"k = {k}: median {middle['seconds']:.2f} s (largest {largest:.2f} s, "
            f"{middle['ratio']:.1f} times the 25 levels), gap {middle['gap']:.2%} of the "
            f"improvement (largest {max(row['gap'] for row in rows):.2%}), "
            f"nodes {middle['nodes']:.0f}, better than the levels in {better} of {len(rows)}, "
            f"by up to {max(row['gain'] for row in rows):.1%} of the improvement"
        )
    return 0


def _measure(case: Any, k: int) -> dict[str, float]:
    import numpy as np

    import counterplan as cp
    from benchmarks import sepsis_model

    model, reward, episode = sepsis_model.model(), sepsis_model.reward(), case.episode
    steps = np.arange(len(episode) - 1)
    given = cp.Episode(episode.states, case.actions[steps, episode.actions[: len(steps)]])
    doses = cp.Doses([-0.5, -0.5, None], [0.5, 0.5, None])
    started = time.process_time()
    listed = cp.explain(model, episode, k, actions=case.actions, reward=reward)
    middle = time.process_time()
    found = cp.explain(
        model, given, k, actions=doses, reward=reward, limits=cp.Limits(seconds=60.0)
    )
    ended = time.process_time()
    if not listed.value - 1e-9 <= found.value <= found.bound:
        raise SystemExit(f"k = {k}: {listed.value} by levels, {found.value} up to {found.bound}")
    return {
        "seconds": ended - middle,
        "ratio": (ended - middle) / (middle - started),
        "gap": found.gap / max(found.improvement, 1e-12),
        "nodes": found.stats["nodes_expanded"],
        "gain": (found.value - listed.value) / max(found.improvement, 1e-12),
    }


if __name__ == "__main__":
    sys.exit(main())
