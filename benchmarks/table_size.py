"""How many transitions a model of continuous states needs: `python -m benchmarks.table_size`.

A process with interactions (states pull each other, a dose acts above zero only); held-out loss in
nats per feature of models learned from n transitions with the default settings, beside that of
linear regression on the same data. Two seeds each; about ten minutes.
"""

from __future__ import annotations

import numpy as np

from counterplan.core.episode import Episode
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.training import Training, samples
from counterplan.scm.transitions import Transitions

STEPS = 10
FEATURES = (2, 5, 10, 20)
SIZES = (90, 180, 360, 720, 1440, 2880, 5760)


def simulate(transitions: int, features: int, seed: int) -> Transitions:
    """Episodes of ten steps under doses 0, 1, 2 at random."""
    rng, every = np.random.default_rng(seed), []
    for _ in range(transitions // (STEPS - 1)):
        states, doses = [rng.normal(size=features)], rng.integers(0, 3, (STEPS - 1, 1)) * 1.0
        for dose in doses:
            now = states[-1]
            pulled = 0.8 * now + 0.3 * np.tanh(2.0 * np.roll(now, 1)) + 0.4 * dose * (now > 0.0)
            states.append(pulled - 0.3 + rng.normal(0.0, 0.5, features))
        every.append(Episode(np.array(states), doses))
    return Transitions.collect(every)


def main() -> None:
    """Print the table."""
    from counterplan.scm.neural_training import reference_losses

    print("features  transitions  for each input  model  linear")
    for features in FEATURES:
        judged = simulate(3600, features, 999)
        for size in SIZES:
            found = []
            for seed in (0, 1):
                data = simulate(size, features, seed)
                scm = NeuralSCM.fit(data, seed=seed, training=Training(progress=False))
                assert scm.scaling is not None
                loss = -scm.log_likelihood(judged.before, judged.actions, judged.after).mean()
                both = (samples(one, scm.scaling, 0) for one in (data, judged))
                units = np.log(scm.scaling.state_range).sum()
                found.append((loss, reference_losses(*both)["linear"] + units))
            model, linear = np.mean(found, axis=0) / features
            each = size / (features + 1)
            print(
                f"{features:8}  {size:11,}  {each:14.0f}  {model:5.3f}  {linear:6.3f}", flush=True
            )


if __name__ == "__main__":
    main()
