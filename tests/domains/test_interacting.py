"""Episodes on which greedy and top-k provably fail: the proof's claims, the search's answers."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import Explanation
from counterplan.domains.interacting import (
    BENEFIT,
    PREPARATION_NOISE,
    TOXICITY,
    InteractingEpisode,
    interacting_episode,
    mechanism_weights,
)
from counterplan.errors import InputError
from counterplan.scm.network import Network
from counterplan.scm.point import Region

PREPARING, MAIN, RELIEF = 1, 2, 3
# What noise can add up to in the preparation, which keeps at most 0.7 of itself.
WORST_NOISE = PREPARATION_NOISE / 0.3


def outcomes(case: InteractingEpisode, sequences: np.ndarray) -> np.ndarray:
    """(n,) by the model's own steps."""
    noise = case.scm.abduct(case.episode, case.actions)
    states = np.repeat(case.episode.states[:1], len(sequences), axis=0)
    total = case.reward(states)
    for t in range(len(case.episode) - 1):
        repeated = np.broadcast_to(noise[t], (len(states), 2))
        states = case.scm.step(states, case.actions[sequences[:, t]], repeated)
        total = total + case.reward(states)
    return total


def every_sequence(case: InteractingEpisode, k: int) -> np.ndarray:
    observed = case.episode.actions
    found = [observed]
    for steps in combinations(range(len(observed)), k):
        for chosen in product(range(len(case.actions)), repeat=k):
            sequence = observed.copy()
            sequence[list(steps)] = chosen
            found.append(sequence)
    return np.array(found)


def solve(case: InteractingEpisode, k: int, **options: object) -> Explanation:
    return cp.explain(
        case.scm, case.episode, k, actions=case.actions, reward=case.reward, **options
    )


@pytest.mark.parametrize("seed", range(5))
def test_greedy_and_top_k_only_relieve_and_miss_the_optimum(seed: int) -> None:
    case = interacting_episode(seed, horizon=9)
    best = solve(case, 2)
    assert best.status == "optimal"
    for solver in (cp.baselines.Greedy(), cp.baselines.TopK()):
        poor = solve(case, 2, solver=solver)
        assert {change.alternative for change in poor.changes} <= {RELIEF}
        assert 0.0 <= poor.value - poor.factual_value < 2 / 16
        assert best.value > poor.value + 0.2
    assert [change.alternative for change in best.changes] == [PREPARING, MAIN]


def test_the_search_equals_trying_everything() -> None:
    case = interacting_episode(3, horizon=8)
    sequences = every_sequence(case, 3)
    values = outcomes(case, sequences)
    best = solve(case, 3)
    assert best.value == pytest.approx(values.max(), abs=1e-9)
    assert best.factual_value == pytest.approx(values[0], abs=1e-9)


def test_neither_of_the_optimal_changes_helps_alone() -> None:
    """Why local search fails."""
    case = interacting_episode(0, horizon=10)
    sequences = np.zeros((4, 9), dtype=np.int64)
    sequences[1, :2] = PREPARING, MAIN
    sequences[2, 0], sequences[3, 1] = PREPARING, MAIN
    values = outcomes(case, sequences)
    assert values[1] > values[0] + 0.2
    assert (values[2:] < values[0]).all()


def test_the_numbers_of_the_proof() -> None:
    network = Network.from_weights(mechanism_weights(), "test")

    def gate(preparation: float, dose: float) -> float:
        activation = network.state[5, 1] * preparation + network.action[5, 1] * dose
        return float(1.0 + np.tanh(activation + network.bias[5])) / 2

    reached = [0.0]
    for _ in range(1000):
        after = network(np.array([[0.0, reached[-1]]]), np.array([[1.0, 0.0, 0.0]]))
        reached.append(float(after[0, 1]))
    highest = reached[-1] + WORST_NOISE
    assert BENEFIT * gate(highest, 0.0) * 20 < TOXICITY / 1000
    assert gate(WORST_NOISE, 1.0) <= 0.01
    assert BENEFIT * gate(WORST_NOISE, 1.0) < TOXICITY
    assert gate(reached[1] - WORST_NOISE, 1.0) > 0.98
    # The burden rises in the burden, with a slope between 0.7 and 0.8.
    burdens = np.stack([np.linspace(-1.0, 1.2, 50), np.zeros(50)], axis=1)
    slopes = np.diff(network(burdens, np.zeros((50, 3)))[:, 0]) / np.diff(burdens[:, 0])
    assert slopes.min() > 0.7
    assert slopes.max() <= 0.8


def test_burdens_stay_where_the_proof_needs_them() -> None:
    for seed in range(200):
        case = interacting_episode(seed, horizon=20)
        assert np.abs(case.episode.states[:, 0]).max() < 1.2
        assert np.abs(case.episode.states[:, 1]).max() < WORST_NOISE


def test_constants_and_slopes_hold() -> None:
    rng = np.random.default_rng(1)
    case = interacting_episode(0)
    constant = case.scm.lipschitz(np.zeros((1, 2)))
    assert constant is not None
    for _ in range(200):
        centre, box = rng.normal(0.0, 1.5, 2), rng.uniform(0.0, 1.0, 2)
        region = Region(centre, float(np.linalg.norm(box)), box)
        slopes = case.scm.slopes(region, case.actions, np.zeros(2))
        assert slopes is not None
        away = rng.uniform(-box, box, size=(len(case.actions), 2))
        moved = case.scm.step(centre + away, case.actions, np.zeros_like(away))
        moved -= case.scm.step(np.tile(centre, (len(away), 1)), case.actions, np.zeros_like(away))
        linear = np.einsum("nij,nj->ni", slopes.jacobian, away)
        allowed = np.einsum("nij,nj->ni", slopes.deviation, np.abs(away))
        assert (np.abs(moved - linear) <= allowed + 1e-12).all()
        length = np.linalg.norm(away, axis=1)
        assert (np.linalg.norm(moved, axis=1) <= constant[0] * length + 1e-12).all()


def test_too_short_an_episode() -> None:
    with pytest.raises(InputError, match="horizon must be at least 6"):
        interacting_episode(0, horizon=5)
