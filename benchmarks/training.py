"""Training speed: `python -m benchmarks.training` in the repository's root, one core.

100,000 transitions of simulated patients, 10 epochs, networks and batches as in the 2023 paper.
Three loops take the very same steps (`neural_loss.step`):

    compiled epoch  one program for all batches of an epoch, as `NeuralSCM.fit` runs it
    compiled step   a Python loop over batches that calls a compiled step
    eager           a Python loop over batches without compilation, operation by operation

The eager loop is timed on EAGER_STEPS steps and scaled to all of them, the others run in full; a
round times all three, one after the other. All three must end with the same weights.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

RESULTS = Path(__file__).parent / "results"
TRANSITIONS = 100_000
PATIENTS = 12_000
EPOCHS = 10
ROUNDS = 3
EAGER_STEPS = 100
TARGET = 3.0
# Sums in another order, in single precision: far below what a step changes.
AGREE = 1e-4


def main() -> int:
    """Measure, print and write everything."""
    os.environ.update(ONE_THREAD)
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from benchmarks.measure import machine, ratio

    load = os.getloadavg()[0]
    problem = _problem()
    difference = _difference(problem)
    found = _rounds(problem)
    steps = EPOCHS * len(problem["order"])
    rows = []
    for name, taken in found.items():
        wall, cpu = ratio(taken, found["compiled epoch"])
        rows.append(
            {
                "loop": name,
                "ms per step": round(1000 * taken.wall.median / steps, 3),
                "processor ms": round(1000 * taken.cpu.median / steps, 3),
                "10 epochs s": round(taken.wall.median, 2),
                "times as long": round(wall.median, 1),
                "by processor": round(cpu.median, 1),
            }
        )
    whole = _whole_fit(problem["data"])
    met = rows[-1]["times as long"] >= TARGET
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    text = [
        "# Training",
        "",
        "Written by `python -m benchmarks.training`.",
        "",
        f"One core of: {facts}. Load average {load:.1f} to {os.getloadavg()[0]:.1f}.",
        "",
        f"{TRANSITIONS:,} transitions, {EPOCHS} epochs, {steps:,} steps of 256; medians of "
        f"{ROUNDS} rounds. "
        f"The eager loop is timed on {EAGER_STEPS} steps and scaled.",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "|" + " --- |" * len(rows[0]),
        *("| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows),
        "",
        f"Target: eager at least {TARGET:g} times as long: {'met' if met else 'MISSED'}. After "
        f"{EAGER_STEPS} steps the weights of all three differ by at most {difference:.1e}. "
        f"`NeuralSCM.fit` as a whole on {len(problem['data']):,} transitions, compilation "
        f"included: {whole:.1f} s. jax {version('jax')}, optax {version('optax')}.",
    ]
    print("\n".join(text))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "training.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    content = {"machine": machine(), "load": load, "loops": rows, "fit_seconds": whole}
    (RESULTS / "training.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0 if difference <= AGREE else 1


def _problem() -> dict[str, Any]:
    """Data of simulated patients, the state before the first step, and the batches of an epoch."""
    import jax.numpy as jnp
    import numpy as np

    from counterplan.domains.sepsis import write_cohort
    from counterplan.domains.sepsis_table import read_cohort
    from counterplan.scm.neural_training import Request, _batch, _start, begin
    from counterplan.scm.training import Training, min_max_scaling, samples
    from counterplan.scm.transitions import Transitions

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "cohort.csv"
        write_cohort(table, PATIENTS, seed=0)
        cohort = read_cohort(table)
    data = Transitions.collect(cohort.episodes)
    request = Request(200, (1.0, 0.1), EPOCHS, 0, 3, Training())
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data))[:TRANSITIONS]
    assert len(rows) == TRANSITIONS
    given = samples(data, min_max_scaling(data), 3)
    given = given._replace(inputs=given.inputs[rows], targets=given.targets[rows])
    order = rng.permutation(TRANSITIONS)[: TRANSITIONS // 256 * 256].reshape(-1, 256)
    return {
        "data": data,
        "arrays": _batch(given),
        "order": jnp.asarray(order.astype(np.int32)),
        "rates": request.rates,
        "start": begin(_start(given, request, rng)),
    }


def _compiled_epoch(problem: dict[str, Any], order: Any) -> Any:
    import jax

    from counterplan.scm.neural_training import epoch

    state, _ = epoch(problem["start"], problem["arrays"], order, problem["rates"])
    return jax.block_until_ready(state.parameters)


def _per_batch(step: Any, problem: dict[str, Any], order: Any) -> Any:
    import jax

    state, (inputs, targets) = problem["start"], problem["arrays"]
    for rows in order:
        state, _ = step(state, (inputs[rows], targets[rows]), problem["rates"])
    return jax.block_until_ready(state.parameters)


def _loops() -> dict[str, Any]:
    import jax

    from counterplan.scm.neural_training import step

    return {
        "compiled epoch": _compiled_epoch,
        "compiled step": partial(_per_batch, jax.jit(step)),
        "eager": partial(_per_batch, step),
    }


def _difference(problem: dict[str, Any]) -> float:
    """The largest difference of a weight between the three, after the same steps."""
    import jax
    import numpy as np

    ends = [loop(problem, problem["order"][:EAGER_STEPS]) for loop in _loops().values()]
    leaves = [[np.asarray(part) for part in jax.tree.leaves(end)] for end in ends]
    return max(
        float(np.abs(one - two).max())
        for other in leaves[1:]
        for one, two in zip(leaves[0], other, strict=True)
    )


def _rounds(problem: dict[str, Any]) -> dict[str, Any]:
    """Seconds that all steps of the epochs take, by loop."""
    from benchmarks.measure import timed, timing

    loops, order = _loops(), problem["order"]
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for name, loop in loops.items():
        loop(problem, order if name == "compiled epoch" else order[:2])  # compiles
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            eager = name == "eager"
            batches = order[:EAGER_STEPS] if eager else order
            wall, cpu = timed(partial(loop, problem, batches), 1 if eager else EPOCHS)
            scale = EPOCHS * len(order) / len(batches)
            taken[name].append((wall * scale, cpu * scale))
    return {name: timing(pairs) for name, pairs in taken.items()}


def _whole_fit(data: Any) -> float:
    from benchmarks.measure import timed
    from counterplan.scm.learned import NeuralSCM
    from counterplan.scm.training import Training

    settings = Training(patience=None, progress=False)
    wall, _ = timed(partial(NeuralSCM.fit, data, epochs=EPOCHS, fixed=3, training=settings))
    return wall


if __name__ == "__main__":
    sys.exit(main())
