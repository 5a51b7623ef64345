"""The neural location-scale model of the 2023 paper.

    s' = [fixed features of s,  h(s, a) + phi(s, a) * u],      u ~ N(0, L L^T)

h is a `Network`, phi the softplus of another. Scaling belongs to the model: users pass and see
physical units, networks see (s - offset) / range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.errors import InputError
from counterplan.scm.model_schema import check_about, check_columns
from counterplan.scm.network import Network
from counterplan.scm.number_arrays import number_array
from counterplan.scm.point import ElementwiseSCM, Region, Replay, Slopes
from counterplan.scm.scaling import Scaling

if TYPE_CHECKING:
    from pathlib import Path

    from counterplan.core.episode import Episode
    from counterplan.scm.seen import Seen
    from counterplan.scm.training import Training
    from counterplan.scm.transitions import Transitions


@dataclass(frozen=True, eq=False)
class NeuralSCM(ElementwiseSCM):
    """A trained model.

    location, scale  networks from (D, d) to the D - fixed moving features
    noise_cholesky   (D - fixed, D - fixed) lower triangular L
    fixed            leading features that never change
    scaling          physical units of states and actions
    about            names of features and actions, training record
    seen             some of the data that it was learned from, which tells how far an explanation
                     leaves that data; None if unknown
    """

    location: Network
    scale: Network
    noise_cholesky: FloatArray
    fixed: int = 0
    scaling: Scaling | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    seen: Seen | None = None

    def __post_init__(self) -> None:
        whole_number(self.fixed, "fixed")
        moving, D = len(self.location.output_bias), self.location.state.shape[1]
        if self.fixed + moving != D:
            raise InputError(
                f"the networks have {moving} outputs and {self.fixed} features are fixed, but "
                f"states have {D}: they must add up"
            )
        for what, ours, theirs in (
            ("outputs", moving, len(self.scale.output_bias)),
            ("features", D, self.scale.state.shape[1]),
            ("action components", self.location.action.shape[1], self.scale.action.shape[1]),
        ):
            if ours != theirs:
                raise InputError(f"location and scale disagree: {what} {ours} and {theirs}")
        cholesky = number_array(self.noise_cholesky, "noise_cholesky")
        object.__setattr__(self, "noise_cholesky", cholesky)
        if cholesky.shape != (moving, moving):
            raise InputError(
                f"noise_cholesky has shape {cholesky.shape}, expected ({moving}, {moving})"
            )
        if not np.isfinite(cholesky).all() or np.triu(cholesky, 1).any():
            raise InputError(
                "noise_cholesky must be lower triangular with finite entries, e.g. "
                "np.linalg.cholesky(covariance)"
            )
        if not np.diag(cholesky).all():
            raise InputError("noise_cholesky has a zero on its diagonal: every feature needs noise")
        if self.scaling is not None:
            self.scaling.check(D, self.location.action.shape[1])
        if self.seen is not None:
            self.seen.check(D, self.location.action.shape[1])
        check_about(self.about, D, self.location.action.shape[1])

    @classmethod
    def from_weights(
        cls,
        location: Mapping[str, Any],
        scale: Mapping[str, Any],
        noise_cholesky: Any,
        fixed: int = 0,
        scaling: Scaling | None = None,
    ) -> NeuralSCM:
        """From trained weights: each network a mapping with the keys state (H, D), bias (H,),
        action (H, d), output (O, H), output_bias (O,) and multiplier (1 if not given)."""
        return cls(
            Network.from_weights(location, "location"),
            Network.from_weights(scale, "scale"),
            noise_cholesky,
            whole_number(fixed, "fixed"),
            scaling,
        )

    @classmethod
    def fit(
        cls,
        episodes: Iterable[Episode] | Transitions,
        *,
        hidden: int = 200,
        lipschitz: tuple[float, float] | None = (1.0, 0.1),
        epochs: int = 100,
        seed: Seed = 0,
        fixed: int = 0,
        training: Training | None = None,
    ) -> NeuralSCM:
        """Learn a model from episodes with states (T, D) and action vectors, in physical units.

        episodes   where actions are indices or columns have names, `Transitions.collect(...)`
        hidden     units of each network
        lipschitz  constants of location and scale in the model's units, which the result never
                   exceeds; None for networks without constraint
        epochs     at most; `training` says when to stop before
        fixed      leading features that never change

        The same data and seed give the same model, bit for bit, on the same machine with the same
        versions and number of cores.
        """
        from counterplan.scm.neural_training import Request, fit_neural
        from counterplan.scm.training import Training
        from counterplan.scm.transitions import Transitions

        given = episodes if isinstance(episodes, Transitions) else Transitions.collect(episodes)
        request = Request(hidden, lipschitz, epochs, seed, fixed, training or Training())
        return cls(*fit_neural(given, request))

    def save(self, path: str | Path) -> None:
        """Write the model to a .safetensors file; loaded again it is the same bit for bit."""
        from counterplan.scm.neural_file import save_neural

        save_neural(self, path)

    @classmethod
    def load(cls, path: str | Path) -> NeuralSCM:
        """The model in a file that `save` wrote."""
        from counterplan.scm.neural_file import load_neural

        return load_neural(path, cls)

    def check_schema(self, features: Sequence[str], actions: Sequence[str]) -> None:
        """Raise unless data with these columns, in this order, is what the model was made for."""
        D, d = self.location.state.shape[1], self.location.action.shape[1]
        check_columns(self.about.get("features"), D, features, "features")
        check_columns(self.about.get("actions"), d, actions, "actions")

    def internal(self) -> tuple[NeuralSCM, Scaling | None]:
        """The model in its own units, and what leads there."""
        return replace(self, scaling=None), self.scaling

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        self._check_widths(actions, states, after)
        if self.scaling is not None:
            states, after = (self.scaling.encode_states(part) for part in (states, after))
            actions = self.scaling.encode_actions(actions)
        moving = after[:, self.fixed :] - self.location(states, actions)
        spread = self._spread(states, actions)
        if not (spread > 0.0).all():
            row, column = (int(i) for i in np.argwhere(~(spread > 0.0))[0])
            raise InputError(
                f"the scale of feature {column + self.fixed} is {spread[row, column]} for state "
                f"{states[row].tolist()}: no noise can explain what happened"
            )
        return np.asarray(moving / spread)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        self._check_widths(actions, states)
        if self.scaling is not None:
            inner, scaling = self.internal()
            encoded = scaling.encode_states(states), scaling.encode_actions(actions)  # type: ignore[union-attr]
            return scaling.decode_states(inner.step(*encoded, noise))  # type: ignore[union-attr]
        moved = self.location(states, actions) + self._spread(states, actions) * noise
        return np.concatenate([states[:, : self.fixed], moved], axis=1)

    def log_likelihood(
        self, states: FloatArray, actions: FloatArray, after: FloatArray
    ) -> FloatArray:
        """(n,) log densities of the moving features of `after`, in the units of the states."""
        self._check_widths(actions, states, after)
        if self.scaling is not None:
            inner, scaling = replace(self, scaling=None), self.scaling
            encoded = scaling.encode_states(states), scaling.encode_actions(actions)
            result = inner.log_likelihood(*encoded, scaling.encode_states(after))
            return np.asarray(result - np.log(scaling.state_range[self.fixed :]).sum())
        white = np.linalg.solve(self.noise_cholesky, self.infer(states, actions, after).T)
        determinant = np.log(np.abs(np.diag(self.noise_cholesky))).sum()
        spread = np.log(self._spread(states, actions)).sum(axis=1)
        constant = 0.5 * len(white) * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * (white**2).sum(axis=0) - determinant - spread - constant)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """K_t = L_h + L_phi max_i |u_i|, certified, in the model's own units."""
        if self.scaling is not None:
            return None
        return np.asarray(
            self.location.lipschitz + self.scale.lipschitz * np.abs(noise).max(axis=1)
        )

    def slopes(self, region: Region, actions: FloatArray, noise: FloatArray) -> Slopes | None:
        from counterplan.scm.neural_slopes import NeuralSlopes

        if self.scaling is not None:
            return None
        return NeuralSlopes((self.location, self.scale), self.fixed, region, actions, noise)

    def replay(self, vectors: FloatArray, noise: FloatArray, start: FloatArray) -> Replay:
        from counterplan.scm.neural_replay import NeuralReplay

        if self.scaling is not None:
            return super().replay(vectors, noise, start)
        return NeuralReplay(self, vectors, noise, start)

    def _check_widths(self, actions: FloatArray, *tables: FloatArray) -> None:
        features, components = self.location.state.shape[1], self.location.action.shape[1]
        expected = [("states", table, features) for table in tables]
        for what, table, width in (*expected, ("action vectors", actions, components)):
            if table.ndim != 2 or table.shape[1] != width:
                raise InputError(f"{what} have shape {table.shape}, the model takes (n, {width})")

    def _spread(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, self.scale(states, actions))
