"""How long it takes to say who contributed: `python -m benchmarks.contributors` in the repository's
root.

1,000 ICU-Sepsis episodes of ten steps, in which two actors decide in turn, against what clinicians
do most often in each state, and against all that they do.
"""

from __future__ import annotations

import sys
import time

import counterplan as cp
from counterplan.counterfactual.contributions import contributions
from counterplan.domains import icu_sepsis

EPISODES, STEPS = 1_000, 10


def main() -> int:
    icu = icu_sepsis.load()
    long = [one for one in icu.sample_episodes(10 * EPISODES, seed=0) if len(one) >= STEPS]
    episodes = [cp.Episode(one.states[:STEPS], one.actions[:STEPS]) for one in long[:EPISODES]]
    policies = {
        "one action for each state": icu.behaviour.argmax(axis=1),
        "the clinicians' shares of actions": icu.behaviour,
    }
    for name, policy in policies.items():
        contributions(icu.mdp, episodes[0], ["day", "night"] * (STEPS // 2), policy)
        began = time.process_time()
        for one in episodes:
            contributions(icu.mdp, one, ["day", "night"] * (STEPS // 2), policy)
        took = time.process_time() - began
        print(f"{len(episodes):,} episodes, {name}: {took:.0f} s of processor time", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
