"""Files of neural models; how they are protected stands in `counterplan.files.tensors`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from counterplan.errors import FileError, InputError
from counterplan.files.contents import suffix_of
from counterplan.files.tensors import SUFFIX, TensorFormat, Tensors, read_tensors, write_tensors
from counterplan.scm.network import KEYS, Network
from counterplan.scm.scaling import Scaling
from counterplan.scm.seen import Seen

if TYPE_CHECKING:
    from counterplan.scm.neural import NeuralSCM

Model = TypeVar("Model")

NETWORKS = ("location", "scale")
SCALING = ("state_offset", "state_range", "action_offset", "action_range")
SEEN = {"seen_states": "F32", "seen_actions": "F32", "seen_distances": "F64"}
NEURAL = TensorFormat(
    name="counterplan neural model",
    version=1,
    required={
        **{f"{network}_{key}": "F64" for network in NETWORKS for key in KEYS},
        "noise_cholesky": "F64",
    },
    entries=("fixed", "about"),
    optional={**dict.fromkeys(SCALING, "F64"), **SEEN},
)
MATRICES = ("state", "action", "output", "noise_cholesky", "seen_states", "seen_actions")


def save_neural(scm: NeuralSCM, path: str | Path) -> None:
    """Write a model to a .safetensors file."""
    arrays = {
        f"{network}_{key}": getattr(getattr(scm, network), key)
        for network in NETWORKS
        for key in KEYS
    }
    arrays["noise_cholesky"] = scm.noise_cholesky
    if scm.scaling is not None:
        arrays |= {name: getattr(scm.scaling, name) for name in SCALING}
    entries = {"fixed": scm.fixed, "about": dict(scm.about)}
    stored: dict[str, Any] = {
        name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()
    }
    if scm.seen is not None:
        distances = np.array([scm.seen.typical, scm.seen.far])
        stored |= dict(zip(SEEN, (scm.seen.states, scm.seen.actions, distances), strict=True))
    write_tensors(path, Tensors(NEURAL, stored, entries))


def load_neural(path: str | Path, make: Callable[..., Model]) -> Model:
    """The model in a file that `save_neural` wrote, made of its parts."""
    suffix_of(path, (SUFFIX,), "files of neural models")
    return neural_from_tensors(path, read_tensors(path, (NEURAL,)), make)


def neural_from_tensors(path: str | Path, tensors: Tensors, make: Callable[..., Model]) -> Model:
    """The model that arrays and entries stand for, every one of them checked."""
    try:
        return make(*_parts(tensors.arrays, tensors.entries))
    except InputError as problem:
        raise FileError(f"{path}: {problem}; save the model anew") from None


def _parts(arrays: dict[str, Any], entries: dict[str, Any]) -> tuple[Any, ...]:
    """What a `NeuralSCM` is made of."""
    for name, array in arrays.items():
        dimensions = 2 if name.removeprefix("location_").removeprefix("scale_") in MATRICES else 1
        if array.ndim != dimensions or 0 in array.shape:
            raise InputError(f"the array {name!r} has shape {array.shape}")
    given, seen = _group(arrays, SCALING, "scaling"), _group(arrays, tuple(SEEN), "seen data")
    if not isinstance(entries["about"], dict):
        raise InputError("about is not a mapping")
    location, scale = (
        Network.from_weights({key: arrays[f"{name}_{key}"] for key in KEYS}, name)
        for name in NETWORKS
    )
    return (
        location,
        scale,
        arrays["noise_cholesky"],
        entries["fixed"],
        Scaling(*given) if given else None,
        entries["about"],
        _seen(*seen) if seen else None,
    )


def _group(arrays: dict[str, Any], names: tuple[str, ...], what: str) -> list[Any]:
    """Arrays that belong together: all of them, or none."""
    given = [name for name in names if name in arrays]
    if given and len(given) < len(names):
        raise InputError(f"of the {what} only {', '.join(given)} are there")
    return [arrays[name] for name in given]


def _seen(states: Any, actions: Any, distances: Any) -> Seen:
    if distances.shape != (2,):
        raise InputError(f"the array 'seen_distances' has shape {distances.shape}, expected (2,)")
    return Seen(states, actions, *map(float, distances))
