"""Claimed and true gains under Lipschitz constants: `python -m benchmarks.lipschitz_truth`.

Models are learned from simulated cohorts of growing size. For fresh patients the best two changes
are found under each model and replayed in the simulator with the patients' own noise, which tells
what they would truly have brought. Takes about ten minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
COHORTS = (1000, 4000, 16000)
MODELS = {
    "(1, 0.1), 200 hidden": {"lipschitz": (1.0, 0.1), "hidden": 200},
    "(2, 1), 200 hidden": {"lipschitz": (2.0, 1.0), "hidden": 200},
    "unconstrained, 64 hidden": {"lipschitz": None, "hidden": 64},
}
FRESH, K, SECONDS = 40, 2, 5.0


def main() -> int:
    """Measure, print and write."""
    rows = [
        "# Claimed and true gains under Lipschitz constants",
        "",
        "Written by `python -m benchmarks.lipschitz_truth`.",
        "",
        f"Decrease of the summed SOFA score by the best k = {K} changes, means over fresh "
        f"simulated patients with standard errors; each search limited to {SECONDS:g} s.",
        "",
        "| patients | constants | claimed | true | proved optimal | NLL | fit s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for patients in COHORTS:
        for name, settings in MODELS.items():
            rows.append(_row(patients, name, settings))
            print(rows[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "lipschitz_truth.md").write_text("\n".join(rows) + "\n", encoding="utf-8")
    print("\n".join(rows))
    return 0


def _row(patients: int, name: str, settings: dict[str, Any]) -> str:
    import counterplan as cp
    from counterplan.domains import sepsis
    from counterplan.scm import Training

    cohort, fresh = _cohort(patients, 0), _cohort(FRESH, 99)
    started = time.perf_counter()
    training = Training(scaling=sepsis.scaling(cohort), progress=False)
    model = cp.NeuralSCM.fit(
        cp.Transitions.collect(cohort.episodes), fixed=3, training=training, **settings
    )
    seconds = time.perf_counter() - started
    claimed, true, proved = [], [], 0
    for episode in fresh.episodes:
        actions = sepsis.action_set(episode)
        found = cp.explain(
            model,
            episode,
            K,
            actions=actions,
            reward=sepsis.reward(),
            limits=cp.Limits(seconds=SECONDS),
        )
        claimed.append(found.improvement)
        true.append(true_gain(episode, actions, found.actions))
        proved += found.status == "optimal"
    record: Any = model.about["training"]
    best = record["validation_nll"][record["best_epoch"] - 1]
    return (
        f"| {patients:,} | {name} | {_mean(claimed)} | {_mean(true)} | {proved} of {len(true)} "
        f"| {best:.2f} | {seconds:.0f} |"
    )


def true_gain(episode: Any, actions: Any, chosen: Any) -> float:
    """What the sequence would have brought, by the simulator with the patient's own noise."""
    from counterplan.domains import sepsis

    truth, sofa = sepsis.SimulatedSepsis(), sepsis.FEATURES.index("SOFA")
    noise = truth.infer(episode.states[:-1], episode.actions, episode.states[1:])
    state, total = episode.states[:1], float(episode.states[0, sofa])
    for t, action in enumerate(chosen):
        state = truth.step(state, actions[t, action][None], noise[t : t + 1])
        total += float(state[0, sofa])
    return float(episode.states[:, sofa].sum()) - total


def _cohort(patients: int, seed: int) -> Any:
    from counterplan.domains import sepsis

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        sepsis.write_cohort(path, patients, seed)
        return sepsis.read_cohort(path, edges=sepsis.EDGES)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f} +- {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


if __name__ == "__main__":
    sys.exit(main())
