"""Episodes on which one change at a time cannot find the best alternative.

A patient has a burden y and a preparation p. Three drugs, one at a time, d = 1 where given:

    preparing   raises p, which then fades; raises the burden a little
    main        lowers the burden a lot if p is above a threshold; raises it a little
    relief      lowers the burden a little, at once

With the dose response f(d) = tanh(1.5 d) / tanh(1.5), e = 1/4 and additive noise u

    p' = rho tanh(e p) / e + f(d_preparing) + u_p,                            |u_p| <= 0.01
    y' = lambda tanh(e y) / e + drive + tau f(d_preparing) + tau f(d_main) - r f(d_relief)
         - G gate + u_y,        gate = (1 + tanh(kappa (p + beta d_main - theta))) / 2

and the outcome is minus the sum of y: a tanh network of six hidden units, Lipschitz continuous in
(y, p) with the norm of [[lambda, G kappa / 2], [0, rho]] (its largest slopes). theta - beta lies
halfway between no preparation and that of one dose, and beta is so large that the gate is shut
without the main drug whatever p is.

Why greedy and top-k fail. In the observed episode only relief is ever given. Preparing alone adds
tau to the next burden, and so does the main drug alone, whose gate stays below 0.01 without
preparation; relief lowers it. So the best single change is relief, in every round and for top-k,
and k = 2 reliefs gain less than k r / (1 - lambda) = k / 16. But the preparing drug and then the
main one gain more than 0.98 G (1 + 0.7 + 0.7^2 + 0.7^3) > 1.2 in the first four states after, at a
price below 2 (tau + r) / (1 - lambda) = 3/8: better by more than 0.2. Either of the two changes
alone loses, so local search fails too unless it makes both at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.shown import module_tells
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.scm.network import OUTWARD, Network
from counterplan.scm.point import AdditiveNoiseSCM, PointSCM, Region

FEATURES = ("burden", "preparation")
DRUGS = ("preparing", "main", "relief")
BURDEN_CARRY, PREPARATION_CARRY = 0.8, 0.7
CURVATURE = 0.25
DOSE_RESPONSE = 1.5
TOXICITY, RELIEF, BENEFIT = 0.025, 0.0125, 0.5
DRIVE = 0.15
BURDEN_NOISE, PREPARATION_NOISE = 0.05, 0.01
RELIEF_SHARE = 0.3
# States needed after the main drug, so that its benefit pays.
AFTERMATH = 4
# How far the gate's pre-activation is from its threshold: by what is reached, and without the drug.
OPEN, SHUT = 3.0, 10.0


class InteractingEpisode(NamedTuple):
    """One problem: model, episode, action vectors (N, 3) and reward."""

    scm: PointSCM
    episode: Episode
    actions: FloatArray
    reward: LinearReward


def interacting_episode(seed: Seed, horizon: int = 12) -> InteractingEpisode:
    """A random episode of the family; the optimum needs k = 2 changes to show.

    horizon  number of states, at least 6
    """
    T = whole_number(horizon, "horizon", minimum=2 + AFTERMATH)
    network = Network.from_weights(mechanism_weights(), "interacting")
    # Nothing, or one of the drugs.
    actions = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    rng = generator(seed)
    relief = 1 + DRUGS.index("relief")
    observed = np.where(rng.random(T - 1) < RELIEF_SHARE, relief, 0)
    states = _simulate(network, actions[observed], rng)
    reward = LinearReward([-1.0, 0.0])
    return InteractingEpisode(_additive(network), Episode(states, observed), actions, reward)


def mechanism_weights() -> dict[str, Any]:
    """The location as a tanh network; hidden units: burden, preparation, three drugs, gate."""
    # Halfway to what one dose reaches, which is 1.
    distance = 0.5
    steepness = OPEN / distance
    # Even the highest preparation stays this far below the threshold without the main drug.
    beta = _highest_preparation() + SHUT / steepness
    theta = beta + distance
    response = 1.0 / np.tanh(DOSE_RESPONSE)
    state = np.zeros((6, 2))
    state[0, 0] = state[1, 1] = CURVATURE
    state[5, 1] = steepness
    action = np.zeros((6, 3))
    action[2:5] = DOSE_RESPONSE * np.eye(3)
    action[5, 1] = steepness * beta
    output = np.zeros((2, 6))
    output[0, 0] = BURDEN_CARRY / CURVATURE
    output[1, 1] = PREPARATION_CARRY / CURVATURE
    output[0, 2:5] = np.array([TOXICITY, TOXICITY, -RELIEF]) * response
    output[1, 2] = response
    output[0, 5] = -BENEFIT / 2
    return {
        "state": state,
        "bias": np.array([0.0, 0.0, 0.0, 0.0, 0.0, -steepness * theta]),
        "action": action,
        "output": output,
        "output_bias": np.array([DRIVE - BENEFIT / 2, 0.0]),
    }


def _highest_preparation() -> float:
    """The preparation that doses at every step come to, without noise."""
    reached = 0.0
    for _ in range(1000):
        reached = float(PREPARATION_CARRY * np.tanh(CURVATURE * reached) / CURVATURE) + 1.0
    return reached


def _additive(network: Network) -> AdditiveNoiseSCM:
    """With entrywise slopes: each unit's gate 1 - tanh^2 has an interval over a region."""

    def slopes(region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        gates = network.gates(region, actions)
        return network.slopes(gates.slope), network.widest(gates) * (1.0 + OUTWARD) + OUTWARD

    largest = np.abs(network.output) @ np.abs(network.state)
    constant = float(np.linalg.norm(largest, 2)) * (1.0 + OUTWARD)
    return AdditiveNoiseSCM(network, lipschitz=constant, slopes=slopes)


def _simulate(network: Network, taken: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(T, 2) states from a burden between 0.5 and 1 and no preparation."""
    path = [np.array([rng.uniform(0.5, 1.0), 0.0])]
    widest = np.array([BURDEN_NOISE, PREPARATION_NOISE])
    for vector in taken:
        location = network(path[-1][None], vector[None])[0]
        path.append(location + rng.uniform(-widest, widest))
    return np.stack(path)


module_tells(globals())
