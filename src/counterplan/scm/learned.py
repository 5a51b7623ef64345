"""Learned models of continuous states: what they have in common, whatever their networks are made
of, and the neural one of the 2023 paper, whose units are tanh.

    s' = [fixed features of s,  h(s, a) + phi(s, a) * u],      phi = softplus(o),   u ~ N(0, L L^T)

h and o are networks. Features that cannot leave a range are held in it: then s' is what is nearest
inside. Scaling belongs to the model: users pass and see physical units, networks see what `Scaling`
makes of them. How files are protected stands in `core.tensors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, Unpack

import numpy as np

from counterplan.core.files import suffix_of
from counterplan.core.shown import Drawn, takes
from counterplan.core.tensors import SUFFIX, TensorFormat, Tensors, read_tensors, write_tensors
from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import FileError, InputError, NotApplicableError, not_installed
from counterplan.scm.network import OUTWARD, Network, NetworkSlopes, NeuralReplay, held_slopes
from counterplan.scm.point import (
    LocationScaleSCM,
    Region,
    Regions,
    Replay,
    Scaling,
    Slopes,
    number_array,
)
from counterplan.scm.support import Seen

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.core.limits import ProgressCallback
    from counterplan.core.validation import Seed
    from counterplan.scm.curvature import Layers
    from counterplan.scm.training import Training
    from counterplan.scm.transitions import Transitions

NETWORKS = ("location", "scale")
SCALING = ("state_offset", "state_range", "action_offset", "action_range")
CATEGORIES = ("state_categories", "action_categories")
SEEN = {"seen_states": "F32", "seen_actions": "F32", "seen_distances": "F64"}


class FitSettings(TypedDict, total=False):
    """What `NeuralSCM.fit` takes besides the data."""

    hidden: int
    lipschitz: tuple[float, float] | None
    epochs: int
    seed: Seed
    fixed: int
    training: Training | None
    progress: ProgressCallback | None


def learned_format(name: str, network: type[Network], **more: str) -> TensorFormat:
    """Of files of models with such networks, and with more arrays that may be there."""
    weights = {f"{part}_{key}": "F64" for part in NETWORKS for key in network.names()}
    scaling = {**dict.fromkeys(SCALING, "F64"), **dict.fromkeys(CATEGORIES, "I64")}
    return TensorFormat(
        name=name,
        version=1,
        required={**weights, "noise_cholesky": "F64"},
        entries=("fixed", "about"),
        optional={**scaling, **SEEN, "limits": "F64", **more},
    )


@dataclass(frozen=True, eq=False)
class LearnedSCM(Drawn, LocationScaleSCM):
    """A trained model.

    location, scale  networks from states and actions in the model's units to the features that move
    noise_cholesky   lower triangular L, as wide as what moves
    fixed            leading features that never change, in physical units
    scaling          from physical units to the model's, None where they are the same
    about            names of features and actions, training record
    seen             some of the data that it was learned from, which tells how far an explanation
                     leaves that data; None if unknown
    limits           (O, 2) the least and largest value that each feature which moves can have, in
                     physical units; None for any
    """

    kind: ClassVar[str]
    network: ClassVar[type[Network]]
    replays: ClassVar[Callable[..., Replay]]
    format: ClassVar[TensorFormat]
    # Fields that a file holds as they are, where there are any.
    extras: ClassVar[tuple[str, ...]] = ("limits",)

    location: Network
    scale: Network
    noise_cholesky: FloatArray
    fixed: int = 0
    scaling: Scaling | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    seen: Seen | None = None
    limits: FloatArray | None = None

    def __post_init__(self) -> None:
        whole_number(self.fixed, "fixed")
        moving, (D, d) = len(self.location.output_bias), self.location.widths
        features, components, fixed = D, d, self.fixed
        if self.scaling is not None:
            self.scaling.check(
                *(features, components) if self.scaling.is_plain else self.scaling.widths
            )
            features, components = self.scaling.widths
            *encoded, fixed = self.scaling.encoded_widths(self.fixed)
            if encoded != [D, d] or (np.asarray(self.scaling.state_categories)[self.fixed :]).any():
                raise InputError(
                    f"scaling: {encoded[0]} and {encoded[1]} columns of the model, but the "
                    f"networks take {D} and {d}; features that move cannot be categories"
                )
        if fixed + moving != D:
            raise InputError(
                f"the networks have {moving} outputs and {fixed} features are fixed, but "
                f"states have {D}: they must add up"
            )
        theirs = len(self.scale.output_bias), *self.scale.widths
        kinds = "outputs", "features", "action components"
        for what, our, their in zip(kinds, (moving, D, d), theirs, strict=True):
            if our != their:
                raise InputError(f"location and scale disagree: {what} {our} and {their}")
        factor = number_array(self.noise_cholesky, "noise_cholesky")
        object.__setattr__(self, "noise_cholesky", factor)
        if factor.shape != (moving, moving):
            raise InputError(
                f"noise_cholesky has shape {factor.shape}, expected ({moving}, {moving})"
            )
        if not np.isfinite(factor).all() or np.triu(factor, 1).any():
            raise InputError(
                "noise_cholesky must be lower triangular with finite entries, e.g. "
                "np.linalg.cholesky(covariance)"
            )
        if not np.diag(factor).all():
            raise InputError("noise_cholesky has a zero on its diagonal: every feature needs noise")
        if self.seen is not None:
            self.seen.check(D, d)
        if self.limits is not None:
            limits = number_array(self.limits, "limits")
            object.__setattr__(self, "limits", limits)
            if limits.shape != (moving, 2) or not (limits[:, 0] <= limits[:, 1]).all():
                raise InputError(f"limits: expected {moving} pairs, the lower end first")
        for key, count in (("features", features), ("actions", components)):
            given = self.about.get(key, ())
            if not isinstance(given or (), list | tuple) or not all(
                isinstance(name, str) for name in given or ()
            ):
                raise InputError(f"about: {key} must be a list of names")
            if given and not len(given) == len(set(given)) == count:
                known = len(set(given))
                raise InputError(f"about: {known} names of {key}, but the model has {count}")

    def _facts(self) -> dict[str, object]:
        features, components = self.location.widths
        found: dict[str, object] = {"features": features, "fixed": self.fixed}
        if members := len(getattr(self, "members", ())):
            found["members"] = members
        return {**found, "action_components": components}

    def save(self, path: str | Path) -> None:
        """Write the model to a .safetensors file; loaded again it is the same bit for bit."""
        arrays: dict[str, Any] = {
            f"{name}_{key}": getattr(getattr(self, name), key)
            for name in NETWORKS
            for key in self.network.names()
        }
        arrays["noise_cholesky"] = self.noise_cholesky
        arrays |= self._more_arrays()
        if self.scaling is not None:
            arrays |= {name: getattr(self.scaling, name) for name in SCALING}
        arrays = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
        if self.scaling is not None and not self.scaling.is_plain:
            arrays |= {name: getattr(self.scaling, name) for name in CATEGORIES}
        if self.seen is not None:
            distances = np.array([self.seen.typical, self.seen.far])
            arrays |= dict(zip(SEEN, (self.seen.states, self.seen.actions, distances), strict=True))
        entries = {"fixed": self.fixed, "about": dict(self.about)}
        write_tensors(path, Tensors(self.format, arrays, entries))

    def _more_arrays(self) -> dict[str, FloatArray]:
        """What else belongs into a file; `format` names it."""
        return {name: one for name in self.extras if (one := getattr(self, name)) is not None}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model in a file that `save` wrote."""
        suffix_of(path, (SUFFIX,), f"files of {cls.kind} models")
        return cls.from_tensors(path, read_tensors(path, (cls.format,)))

    @classmethod
    def from_tensors(cls, path: str | Path, tensors: Tensors) -> Self:
        """The model that the contents of the file `path` stand for, all of them checked."""
        try:
            return cls(**cls._parts(tensors.arrays, tensors.entries))
        except InputError as problem:
            raise FileError(f"{path}: {problem}; save the model anew") from None

    @classmethod
    def _parts(cls, arrays: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
        """What the model is made of."""
        given, seen = (
            array_group(arrays, SCALING, "scaling"),
            array_group(arrays, tuple(SEEN), "seen data"),
        )
        given += array_group(arrays, CATEGORIES, "categories")
        if seen and seen[-1].shape != (2,):
            shape = seen[-1].shape
            raise InputError(f"the array 'seen_distances' has shape {shape}, expected (2,)")
        if not isinstance(entries["about"], dict):
            raise InputError("about is not a mapping")
        networks = {
            name: cls.network.from_weights(
                {key: arrays[f"{name}_{key}"] for key in cls.network.names()}, name
            )
            for name in NETWORKS
        }
        return {
            **networks,
            "noise_cholesky": arrays["noise_cholesky"],
            "fixed": entries["fixed"],
            "scaling": Scaling(*given) if given else None,
            "about": entries["about"],
            "seen": Seen(*seen[:2], *map(float, seen[2])) if seen else None,
            **{name: arrays[name] for name in cls.extras if name in arrays},
        }

    @property
    def held_out_loss(self) -> float:
        """Nats per transition of episodes held out, in the model's units, by its record."""
        record = self.about["training"]
        return float(record["validation_nll"][record.get("best_epoch", 1) - 1])

    def check_schema(self, features: Sequence[str], actions: Sequence[str]) -> None:
        """Raise unless data with these columns, in this order, is what the model was made for."""
        widths = self.location.widths if self.scaling is None else self.scaling.widths
        for what, given, count in zip(
            ("features", "actions"), (features, actions), widths, strict=True
        ):
            _check_columns(self.about.get(what), count, given, what)

    def internal(self) -> tuple[Self, Scaling | None]:
        """The model in its own units, and what leads there."""
        return self._inner, self.scaling

    @cached_property
    def _inner(self) -> Self:
        if self.scaling is None:
            return self
        fixed = self.scaling.encoded_widths(self.fixed)[2]
        limits = self.limits
        if limits is not None:
            offset, spread = self.scaling.state_offset, self.scaling.state_range
            limits = (limits - offset[self.fixed :, None]) / spread[self.fixed :, None]
        return replace(self, scaling=None, fixed=fixed, about={}, limits=limits)

    def admitting(self, states: FloatArray) -> Self:
        """What was observed is possible, whatever limits say."""
        if self.limits is None:
            return self
        seen = np.stack([states.min(axis=0), states.max(axis=0)], axis=1)[-len(self.limits) :]
        low, high = np.minimum(self.limits, seen)[:, 0], np.maximum(self.limits, seen)[:, 1]
        return replace(self, limits=np.column_stack([low, high]))

    @property
    def constants(self) -> tuple[float, float] | None:  # type: ignore[override]
        """Certified constants of location and scale; in the model's own units alone."""
        if self.scaling is not None:
            return None
        return self.location.lipschitz, self.scale.lipschitz

    def slopes(self, region: Region, actions: FloatArray, noise: FloatArray) -> Slopes | None:
        return self.slopes_over(Regions.only(region, len(actions)), actions, noise)

    def slopes_over(
        self, regions: Regions, actions: FloatArray, noise: FloatArray
    ) -> Slopes | None:
        """Slopes of many regions at once; in state and dose, (n, D, D + d), where regions are of
        both."""
        if self.scaling is not None:
            return None
        networks, D = (self.location, self.scale), self.location.widths[0]
        if len(regions.centre) > D:
            networks = self.location.of_doses, self.scale.of_doses
        free = NetworkSlopes(networks, self.fixed, regions, actions, noise)
        if self.limits is None:
            return free
        centre = np.repeat(regions.centre[None, :D], len(actions), axis=0)
        after = super().step(centre, actions, noise)[regions.action, self.fixed :]
        return held_slopes(free, after, self.limits, regions, self.fixed)

    def replay(self, vectors: FloatArray, noise: FloatArray, start: FloatArray) -> Replay:
        if self.scaling is not None:
            return super().replay(vectors, noise, start)
        networks = self.location, self.scale
        return type(self).replays(networks, self.fixed, vectors, noise, self.within)

    @cached_property
    def within(self) -> FloatArray:
        """(O, 2) the limits, infinite where there are none."""
        every = np.full((len(self.noise_cholesky), 2), (-np.inf, np.inf))
        return every if self.limits is None else np.asarray(self.limits, dtype=np.float64)

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        actions, states, after = self._encoded(actions, states, after)
        return super(LearnedSCM, self._inner).infer(states, actions, after)

    def surprises(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(T-1, O) what is left of each step of an episode of states (T, D) and action vectors
        (T-1, d), in units of the scale, that its earlier steps do not tell."""
        return self.infer(states[:-1], actions, states[1:])

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        actions, states = self._encoded(actions, states)
        after = super(LearnedSCM, self._inner).step(states, actions, noise)
        return self.held(after if self.scaling is None else self.scaling.decode_states(after))

    def held(self, states: FloatArray) -> FloatArray:
        """States with every feature that moves inside its limits."""
        if self.limits is None:
            return states
        moving = np.clip(states[..., self.fixed :], *self.within.T)
        return np.concatenate([states[..., : self.fixed], moving], axis=-1)

    def log_likelihood(
        self, states: FloatArray, actions: FloatArray, after: FloatArray
    ) -> FloatArray:
        """(n,) log densities of the moving features of `after`, in the units of the states."""
        white = np.linalg.solve(self.noise_cholesky, self.infer(states, actions, after).T)
        actions, states = self._encoded(actions, states)
        volume = np.log(self._inner._scale(states, actions)).sum(axis=1)
        volume += np.log(np.abs(np.diag(self.noise_cholesky))).sum()
        if self.scaling is not None:
            volume += np.log(self.scaling.state_range[self.fixed :]).sum()
        constant = 0.5 * len(white) * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * (white**2).sum(axis=0) - volume - constant)

    def _encoded(self, actions: FloatArray, *states: FloatArray) -> list[FloatArray]:
        """Action vectors and tables of states in the model's own units, their widths checked."""
        D, d = self.location.widths if self.scaling is None else self.scaling.widths
        expected = [("action vectors", actions, d), *(("states", table, D) for table in states)]
        for what, table, width in expected[::-1]:
            if table.ndim != 2 or table.shape[1] != width:
                raise InputError(f"{what} have shape {table.shape}, the model takes (n, {width})")
        if self.scaling is None:
            return [actions, *states]
        return [self.scaling.encode_actions(actions), *map(self.scaling.encode_states, states)]

    def _spread(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, self.scale(states, actions))

    def ranges(self, noise: FloatArray) -> FloatArray:
        """(n, O, 2) where the features that move are after steps under noise (n, O), from any state
        by any action: units of tanh have ends, and so have limits."""
        place, scale = self.location.ends, np.logaddexp(0.0, self.scale.ends)
        after = place + np.sort(noise[:, :, None] * scale, axis=-1)
        after += OUTWARD * (1.0 + np.abs(place) + np.abs(after)) * [-1.0, 1.0]
        return np.clip(after, self.within[:, :1], self.within[:, 1:])

    @property
    def dose_layers(self) -> Layers | None:
        """What expansions in states and doses need, None in physical units."""
        from counterplan.scm.curvature import Layers, dense_units

        if self.scaling is not None:
            return None
        networks = dense_units(self.location), dense_units(self.scale)
        return Layers(*networks, self.fixed, self.within, is_tanh=True, least=0.0)


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
    @takes(FitSettings)
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


def array_group(arrays: dict[str, Any], names: tuple[str, ...], what: str) -> list[Any]:
    """Arrays that belong together: all of them, or none."""
    given = [name for name in names if name in arrays]
    if given and len(given) < len(names):
        raise InputError(f"of the {what} only {', '.join(given)} are there")
    return [arrays[name] for name in given]


def _check_columns(
    expected: Sequence[str] | None, count: int, given: Sequence[str], what: str
) -> None:
    """Raise unless the columns are the model's, in its order; only their number is compared if
    the model does not know their names (expected None)."""
    if expected is None:
        if len(given) != count:
            raise InputError(
                f"the model has {count} {what}, but the data has {len(given)}: "
                f"{', '.join(given)}; choose the columns the model was made for"
            )
        return
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(unknown)}, which the model does not know"] if unknown else []
        raise InputError(
            f"the data's {what} are not the model's: it {' and '.join(parts)}; "
            f"the model was made for {', '.join(expected)}"
        )
    if list(given) != list(expected):
        raise InputError(
            f"the data's {what} are in another order than the model's: reorder the columns to "
            f"{', '.join(expected)}"
        )
