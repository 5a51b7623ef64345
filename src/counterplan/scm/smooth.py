"""A location-scale model by Bayesian smooth regression: cosine units, a linear part, and members
drawn from its posterior.

How it is learned stands in `scm.smooth_training`, how it steps and what slopes it vouches for in
`scm.cosine`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from counterplan.core.tensors import TensorFormat
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError
from counterplan.scm.cosine import CosineNetwork, CosineReplay, spread_of
from counterplan.scm.curvature import Layers
from counterplan.scm.effects import Effects
from counterplan.scm.learned import LearnedSCM, array_group, learned_format
from counterplan.scm.network import Network
from counterplan.scm.point import Scaling

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.scm.transitions import Transitions

EFFECTS = tuple(f"effects_{name}" for name in Effects._fields)
MORE = dict.fromkeys(("draws", "form", *EFFECTS), "F64")
SMOOTH = learned_format("counterplan smooth model", CosineNetwork, **MORE)


@dataclass(frozen=True, eq=False)
class SmoothSCM(LearnedSCM):
    """The posterior mean of a smooth model.

    draws    (B, O, H + D + d + 1) weights of B draws from the posterior, in the order of units,
             features, action components and constant; None in a member
    form     (O,) by what share of itself an effect on a feature may be off, whatever the posterior
             says (`scm.second_opinion`); None if unknown
    effects  what stays with an episode, None where nothing is known to
    """

    kind: ClassVar[str] = "smooth"
    network: ClassVar[type[Network]] = CosineNetwork
    replays = CosineReplay
    format: ClassVar[TensorFormat] = SMOOTH
    extras: ClassVar[tuple[str, ...]] = ("limits", "draws", "form")

    location: CosineNetwork
    scale: CosineNetwork
    draws: FloatArray | None = None
    form: FloatArray | None = None
    effects: Effects | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = self._weights.shape
        if self.form is not None and (
            np.shape(self.form) != expected[:1] or not (np.asarray(self.form) >= 0.0).all()
        ):
            raise InputError(f"form: expected {expected[0]} shares from 0 on, got {self.form}")
        if self.draws is None or not len(self.draws):
            object.__setattr__(self, "draws", None)
            object.__setattr__(self, "effects", None)
            return
        if np.shape(self.draws)[1:] != expected or not np.isfinite(self.draws).all():
            raise InputError(
                f"draws: expected finite numbers of shape (members, {expected[0]}, {expected[1]}), "
                f"got shape {np.shape(self.draws)}"
            )
        if self.effects is not None:
            self.effects.check(len(self.draws), expected[0], self.location.widths[1])

    @classmethod
    def fit(
        cls,
        episodes: Iterable[Episode] | Transitions,
        members: int = 16,
        fixed: int = 0,
        seed: Seed = 0,
        scaling: Scaling | None = None,
        validation: float = 0.1,
    ) -> Self:
        """Learn a model from episodes with states (T, D) and action vectors, in physical units.

        episodes    where actions are indices or columns have names, `Transitions.collect(...)`
        members     how many draws from the posterior to keep (16), so far apart as halves of the
                    data and another form show to be right (`scm.second_opinion`)
        fixed       leading features that never change (0)
        seed        of all that is drawn (0)
        scaling     physical units, None to scale every column of the data to [-0.5, 0.5]
        validation  share of the episodes held out to tell how well it predicts; in the end it
                    learns from them too (0.1)

        The same data and seed give the same model, bit for bit, on the same machine with the same
        versions.
        """
        from counterplan.core.validation import generator
        from counterplan.scm.smooth_training import fit_smooth
        from counterplan.scm.transitions import Transitions

        given = episodes if isinstance(episodes, Transitions) else Transitions.collect(episodes)
        found = cls(**fit_smooth(given, members, fixed, seed, scaling, validation))
        if found.draws is None:
            return found
        from counterplan.scm.second_opinion import second_opinion

        assert found.scaling is not None
        rng = generator(seed)

        def learn(some: Transitions, members: int, scaling: Scaling) -> SmoothSCM:
            return cls(**fit_smooth(some, members, found.fixed, rng, scaling, validation=0.0))

        widen, form = second_opinion(learn, given, found.scaling, found.fixed, rng)
        draws = found._weights + widen[:, None] * (found.draws - found._weights)
        doubts = {"widened": widen.tolist(), "form": form.tolist()}
        about = {**found.about, "training": {**found.about["training"], **doubts}}
        return replace(found, draws=draws, form=form, about=about)

    @cached_property
    def members(self) -> tuple[Self, ...]:
        """Draws from the posterior: models that the data leave possible, each with its own idea of
        the noise behind an episode."""
        return tuple(
            replace(self, location=replace(self.location, **_by_name(draw, *self.location.widths)),
                    draws=None)
            for draw in (() if self.draws is None else self.draws)
        )  # fmt: skip

    def members_of(self, states: FloatArray, actions: FloatArray) -> tuple[Self, ...]:
        """The members, each with what it believes to stay with the episode of states (T, D) and
        action vectors (T-1, d)."""
        if self.effects is None or self.draws is None:
            return self.members
        inner, O = self._inner, len(self.noise_cholesky)  # noqa: E741
        taken, seen = self._encoded(actions, states)
        before, after = seen[:-1], seen[1:, -O:]
        locations = [one.location for one in inner.members]
        rests = np.stack([after - location(before, taken) for location in locations])
        inputs = np.concatenate([before[:, -O:], taken], axis=1)
        found = self.effects.drawn(inputs, rests, inner._spread(before, taken))
        # Behind the constant: slopes on what moves, then on the action.
        d, draws = self.location.widths[1], self.draws.copy()
        draws[:, :, -1 - d - O : -1] += found[:, :, 1:]
        draws[:, :, -1] += found[:, :, 0]
        return replace(self, draws=draws, effects=None).members

    def surprises(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        found = super().surprises(states, actions)
        if self.effects is None:
            return found
        taken, before = self._encoded(actions, states[:-1])
        inputs = np.concatenate([before[:, -found.shape[1] :], taken], axis=1)
        return self.effects.surprises(inputs, found, self._inner._spread(before, taken))

    @property
    def _weights(self) -> FloatArray:
        """(O, H + D + d + 1) of the location."""
        one = self.location
        return np.concatenate([one.output, one.skip, one.action_skip, one.output_bias[:, None]], 1)

    def _more_arrays(self) -> dict[str, FloatArray]:
        more = () if self.effects is None else zip(EFFECTS, self.effects, strict=True)
        return super()._more_arrays() | dict(more)

    @classmethod
    def _parts(cls, arrays: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
        given = array_group(arrays, EFFECTS, "effects")
        parts = super()._parts(arrays, entries)
        return parts | {"effects": Effects(*given) if given else None}

    def ranges(self, noise: FloatArray) -> FloatArray:
        """Linear parts have no ends: no more than the limits."""
        return np.broadcast_to(self.within, (len(noise), *self.within.shape))

    @property
    def dose_layers(self) -> Layers | None:
        """What second-order bounds need, None in physical units."""
        if self.scaling is not None:
            return None
        return Layers(self.location.sparse, self.scale.sparse, self.fixed, self.within)

    def _spread(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return spread_of(self.scale(states, actions))


def _by_name(weights: FloatArray, D: int, d: int) -> dict[str, Any]:
    """Weights (O, H + D + d + 1) by their names in a network."""
    H = weights.shape[1] - D - d - 1
    output, skip, action_skip, bias = np.split(weights, [H, H + D, H + D + d], axis=1)
    return {"output": output, "skip": skip, "action_skip": action_skip, "output_bias": bias[:, 0]}
