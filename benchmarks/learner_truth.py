"""How far counterfactuals of both learners are from the truth: `python -m benchmarks.learner_truth`
in the repository's root.

Models are learned from simulated cohorts, three of each size (one for networks), and asked what
random alternatives with two changes would have brought 40 fresh patients (of sepsis, the 31 who
stay long enough), whom the simulators replay with their own noise (`experiments.ground_truth`). No
search is involved.
Writes results/learner_truth.md. `--smooth` leaves out networks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from counterplan.scm.learned import LearnedSCM
from experiments.ground_truth import NEURAL, SEPSIS, SMOOTH, learn, relative_error

RESULTS = Path(__file__).parent / "results"
COHORTS = {SEPSIS: (250, 1000, 4000, 16_000), "plain": (60, 240, 960)}
FRESH = 40
# Cohorts of each size.
SEEDS = {SMOOTH: 3, NEURAL: 1}


def main(arguments: list[str]) -> int:
    """Measure, print and write."""
    learners = (SMOOTH,) if "--smooth" in arguments else (SMOOTH, NEURAL)
    lines = [
        "# Counterfactuals of both learners against the truth",
        "",
        f"Written by `python -m benchmarks.learner_truth`: means over {SEEDS[SMOOTH]} "
        "cohorts (one for networks), least and most in brackets. Error: of the outcome of random "
        "alternatives with 2 changes, relative to "
        "their effect. Log-likelihood: of episodes held out, nats per transition in the model's "
        "units; that of networks chose their epoch. Seconds: of one processor, to learn.",
        "",
        "| process | patients | learner | error | log-likelihood | seconds |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for process, sizes in COHORTS.items():
        for patients in sizes:
            for learner in learners:
                lines.append(_row(process, patients, learner))
                print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "learner_truth.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def _row(process: str, patients: int, learner: str) -> str:
    errors, likelihoods, seconds = [], [], []
    for seed in range(SEEDS[learner]):
        started = time.process_time()
        learned = learn(process, patients, FRESH, learner, seed)
        seconds.append(time.process_time() - started)
        errors.append(relative_error(learned, np.random.default_rng(0)))
        assert isinstance(learned.model, LearnedSCM)
        likelihoods.append(-learned.model.held_out_loss)
    return (
        f"| {process} | {patients:,} | {learner} | {np.mean(errors):.2f} [{min(errors):.2f}, "
        f"{max(errors):.2f}] | {np.mean(likelihoods):.2f} | {np.mean(seconds):.0f} |"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
