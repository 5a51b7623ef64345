"""The neural location-scale model of the 2023 paper: networks with tanh units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from counterplan.core.tensors import TensorFormat
from counterplan.core.validation import whole_number
from counterplan.errors import NotApplicableError, not_installed
from counterplan.scm.learned import LearnedSCM, learned_format
from counterplan.scm.network import Network, NeuralReplay
from counterplan.scm.point import Scaling

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.scm.training import FitSettings
    from counterplan.scm.transitions import Transitions

NEURAL = learned_format("counterplan neural model", Network)


@dataclass(frozen=True, eq=False)
class NeuralSCM(LearnedSCM):
    """A location-scale model whose location and scale are networks with one hidden layer."""

    kind: ClassVar[str] = "neural"
    network: ClassVar[type[Network]] = Network
    replays = NeuralReplay
    format: ClassVar[TensorFormat] = NEURAL

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
        cls, episodes: Iterable[Episode] | Transitions, **settings: Unpack[FitSettings]
    ) -> NeuralSCM:
        """Learn a model from episodes with states (T, D) and action vectors, in physical units.

        episodes   where actions are indices or columns have names, `Transitions.collect(...)`
        hidden     units of each network (200)
        lipschitz  constants of location and scale in the model's units, which the result never
                   exceeds; None for networks without constraint ((1.0, 0.1))
        epochs     at most; `training` says when to stop before (100)
        seed       of all that is drawn (0)
        fixed      leading features that never change (0)
        training   how to train, a `Training`
        progress   called with a `Progress` after each epoch; False ends the training, and the best
                   epoch so far counts

        The same data and seed give the same model, bit for bit, on the same machine with the same
        versions and number of cores.
        """
        from counterplan.scm.transitions import Transitions

        try:
            from counterplan.scm.neural_training import Request, fit_neural
        except ModuleNotFoundError:
            raise NotApplicableError(not_installed("networks need jax", "neural")) from None

        given = episodes if isinstance(episodes, Transitions) else Transitions.collect(episodes)
        return cls(*fit_neural(given, Request(**settings)))
