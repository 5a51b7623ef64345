"""Re-encode the ICU-Sepsis v2 MDP (PyPI package icu-sepsis 2.0.1, MIT licence) small and exactly.

    python tools/encode_icu_sepsis.py dynamics.npz src/counterplan/domains/data/icu_sepsis.npz

The original holds 716 x 25 x 716 floats. Its admissible rows are relative frequencies: integer
counts over their sum. The rows of inadmissible actions are the plain average of the state's
admissible rows, so they need not be stored. `admissible_actions.txt` is expected next to
`dynamics.npz`, as in the package. The arrays written (read by counterplan.domains.icu_sepsis):

    admissible   (S, A) bool
    row_lengths  (rows,) next states of each admissible pair, pairs in (state, action) order
    state_gaps   (entries,) each row's next states, ascending, as differences from the one before
    counts       (entries,) how often each next state followed
    expert       (S, A) counts of the actions the clinicians took
    initial      (S,) counts of first states
    sofa         (S,) mean SOFA scores
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LARGEST_TOTAL = 40_000
TOLERANCE = 1e-15


def as_counts(frequencies: NDArray[np.float64], what: str) -> NDArray[np.uint16]:
    """The smallest integer counts whose relative frequencies are the given ones."""
    if not frequencies.any():
        return np.zeros(frequencies.shape, dtype=np.uint16)
    positive = frequencies[frequencies > 0]
    for total in range(1, LARGEST_TOTAL):
        counts = np.rint(positive * total)
        if np.abs(counts / total - positive).max() <= TOLERANCE and counts.sum() == total:
            result = np.zeros(frequencies.shape, dtype=np.uint16)
            result[frequencies > 0] = counts
            return result
    raise SystemExit(f"{what}: not relative frequencies of at most {LARGEST_TOTAL} observations")


def read_admissible(path: Path, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The first line has the numbers of actions, each further line the actions of one state."""
    lines = path.read_text().splitlines()[1:]
    admissible = np.zeros(shape, dtype=np.bool_)
    for state, line in enumerate(lines):
        admissible[state, [int(action) for action in line.split()]] = True
    return admissible


def encode(source: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays of the small file."""
    with np.load(source, allow_pickle=False) as original:
        transitions = original["tx_mat"]
        expert = original["expert_policy"]
        initial = original["d_0"]
        sofa = original["sofa_scores"]
    admissible = read_admissible(source.with_name("admissible_actions.txt"), expert.shape)
    expert_counts = [as_counts(row, f"expert, state {s}") for s, row in enumerate(expert)]
    lengths, gaps, counts = [], [], []
    for state, action in np.argwhere(admissible):
        row = as_counts(transitions[state, action], f"state {state}, action {action}")
        next_states = np.flatnonzero(row)
        lengths.append(len(next_states))
        gaps.append(np.diff(next_states, prepend=0))
        counts.append(row[next_states])
    return {
        "admissible": admissible,
        "row_lengths": np.array(lengths, dtype=np.uint16),
        "state_gaps": np.concatenate(gaps).astype(np.uint16),
        "counts": np.concatenate(counts),
        "expert": np.stack(expert_counts),
        "initial": as_counts(initial, "initial"),
        "sofa": sofa,
    }


def main() -> None:
    """Read the paths, write the file, say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="dynamics.npz of the package icu-sepsis 2.0.1")
    parser.add_argument("target", type=Path, help="where to write the small file")
    arguments = parser.parse_args()
    np.savez_compressed(arguments.target, allow_pickle=False, **encode(arguments.source))
    print(f"{arguments.target}: {arguments.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
