"""Compiled counterfactual steps of the neural location-scale model.

The first layer splits into a state half, common to all actions of a node, and an action half,
common to all nodes. tanh of their sum needs no new tanh:

    tanh(x + y) = (tanh x + tanh y) / (1 + tanh x tanh y)

so a node costs one tanh per hidden unit and a child one division. Near saturation with opposite
signs the denominator vanishes; those few units are computed directly, as tanh(x + y).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray
from counterplan.scm.network import Network

if TYPE_CHECKING:
    from counterplan.scm.neural import NeuralSCM

# Below this denominator the addition formula loses digits. With arguments of opposite signs, one of
# them at most SAFE in size, it is at least 1 - tanh(SAFE), which is above.
CANCELS = 1e-3
SAFE = 3.75


class NeuralReplay:
    """F_t(s, a) for the actions of each step of one episode."""

    def __init__(
        self, scm: NeuralSCM, vectors: FloatArray, noise: FloatArray, start: FloatArray
    ) -> None:
        self._scm, self._noise, self._fixed = scm, noise, scm.fixed
        self._location = _Half(scm.location, vectors)
        self._scale = _Half(scm.scale, vectors)

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D)."""
        n, D, N = len(states), states.shape[1], self._location.n_actions
        everyone = np.broadcast_to(np.arange(N), (n, N))
        return self._moved(t, states, everyone, np.empty((n, N, D)))

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, D)."""
        shape = (len(states), 1, states.shape[1])
        return self._moved(t, states, actions[:, None], np.empty(shape))[:, 0]

    def _moved(
        self, t: int, states: FloatArray, actions: NDArray[np.int64], result: FloatArray
    ) -> FloatArray:
        location, scale = self._scm.location, self._scm.scale
        result[:, :, : self._fixed] = states[:, None, : self._fixed]
        _children(
            (*self._location.of_states(states), *self._location.of_actions(t), location.output),
            (*self._scale.of_states(states), *self._scale.of_actions(t), scale.output),
            (location.output_bias, scale.output_bias, self._noise[t]),
            actions,
            result[:, :, self._fixed :],
        )
        return result


class _Half:
    """The two halves of a first layer, each as it is and as its tanh."""

    def __init__(self, network: Network, vectors: FloatArray) -> None:
        self._network = network
        self._actions = vectors @ network.action.T
        self._tanh_actions = np.tanh(self._actions)
        self.n_actions = vectors.shape[1]

    def of_states(self, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        plain = states @ self._network.state.T + self._network.bias
        return plain, np.tanh(plain)

    def of_actions(self, t: int) -> tuple[FloatArray, FloatArray]:
        return self._actions[t], self._tanh_actions[t]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _children(location: Any, scale: Any, rest: Any, actions: Any, result: Any) -> None:
    """Write h + phi u for each node and each of its actions into result (n, N, O)."""
    state_l, tanh_state_l, action_l, tanh_action_l, output_l = location
    state_s, tanh_state_s, action_s, tanh_action_s, output_s = scale
    bias_l, bias_s, noise = rest
    H, O = state_l.shape[1], output_l.shape[0]  # noqa: E741
    hidden_l, hidden_s = np.empty(H), np.empty(state_s.shape[1])
    for node in range(actions.shape[0]):
        for child in range(actions.shape[1]):
            action = actions[node, child]
            least = _add_tanh(tanh_state_l[node], tanh_action_l[action], hidden_l)
            if least < CANCELS:
                _repair(state_l[node], action_l[action], hidden_l)
            least = _add_tanh(tanh_state_s[node], tanh_action_s[action], hidden_s)
            if least < CANCELS:
                _repair(state_s[node], action_s[action], hidden_s)
            for feature in range(O):
                place, spread = bias_l[feature], bias_s[feature]
                for h in range(H):
                    place += output_l[feature, h] * hidden_l[h]
                for h in range(hidden_s.shape[0]):
                    spread += output_s[feature, h] * hidden_s[h]
                # softplus without overflow
                softplus = max(spread, 0.0) + np.log1p(np.exp(-abs(spread)))
                result[node, child, feature] = place + softplus * noise[feature]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _add_tanh(x: Any, y: Any, result: Any) -> float:
    """The addition formula for tanh values, and its least denominator."""
    least = 1.0
    for h in range(x.shape[0]):
        denominator = 1.0 + x[h] * y[h]
        least = min(least, denominator)
        result[h] = (x[h] + y[h]) / denominator
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def _repair(x: Any, y: Any, result: Any) -> None:
    """Units where the formula may have lost digits: large arguments of opposite signs."""
    for h in range(x.shape[0]):
        if x[h] * y[h] < 0.0 and min(abs(x[h]), abs(y[h])) > SAFE:
            result[h] = np.tanh(x[h] + y[h])
