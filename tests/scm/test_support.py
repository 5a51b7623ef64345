"""What a model keeps of its data, and that files without it are read as before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import counterplan as cp
from counterplan.core.tensors import METADATA, digest
from counterplan.errors import FileError, InputError
from counterplan.scm import Scaling
from counterplan.scm import support as module
from counterplan.scm.neural import NEURAL
from counterplan.scm.support import Seen, collect_seen

from .test_neural import model


def transitions(rng: np.random.Generator, episodes: int, length: int, D: int = 3) -> cp.Transitions:
    """Slow random walks, so that a state's own episode is nearest."""
    starts = rng.normal(size=(episodes, 1, D))
    walks = starts + 0.01 * rng.normal(size=(episodes, length, D)).cumsum(axis=1)
    before, after = walks[:, :-1].reshape(-1, D), walks[:, 1:].reshape(-1, D)
    actions = rng.integers(0, 3, size=(len(before), 2)) * 1.0
    return cp.Transitions(before, actions, after, np.repeat(np.arange(episodes), length - 1))


def nearest_of_others(states: np.ndarray, episode: np.ndarray) -> np.ndarray:
    apart = np.sqrt(((states[:, None] - states[None]) ** 2).sum(axis=2))
    apart[episode[:, None] == episode[None]] = np.inf
    return np.asarray(apart.min(axis=1))


@pytest.mark.parametrize(("episodes", "length"), [(30, 4), (3, 60), (2, 2)])
def test_distances_to_other_episodes(episodes: int, length: int) -> None:
    data = transitions(np.random.default_rng(0), episodes, length)
    scaling = Scaling([1.0, 2.0, 3.0], [2.0, 1.0, 4.0], [0.0, 1.0], [1.0, 2.0])
    found = collect_seen(data, scaling)
    states = scaling.encode_states(data.before).astype(np.float32)
    assert (found.states == states).all()
    assert (found.actions == scaling.encode_actions(data.actions).astype(np.float32)).all()
    expected = nearest_of_others(states.astype(np.float64), data.episode)
    assert found.typical == pytest.approx(np.median(expected))
    assert found.far == pytest.approx(np.quantile(expected, 0.99, method="higher"))


def test_a_single_episode_has_no_others() -> None:
    found = collect_seen(transitions(np.random.default_rng(0), 1, 5), None)
    assert (found.typical, found.far) == (np.inf, np.inf)


def test_much_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 50)
    monkeypatch.setattr(module, "COMPARED", 20)
    data = transitions(np.random.default_rng(0), 40, 6)
    found, again, other = (collect_seen(data, None, seed) for seed in (1, 1, 2))
    assert len(found.states) == 50
    assert found.states.tobytes() == again.states.tobytes()
    assert found.states.tobytes() != other.states.tobytes()
    known = {row.tobytes() for row in data.before.astype(np.float32)}
    rows = [row.tobytes() for row in found.states]
    assert set(rows) <= known
    assert len(set(rows)) == 50
    states = found.states.astype(np.float64)
    pairs = zip(data.before.astype(np.float32), data.episode, strict=True)
    owner = {row.tobytes(): number for row, number in pairs}
    every = nearest_of_others(states, np.array([owner[row] for row in rows]))
    assert every.min() <= found.typical <= every.max()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"states": np.full((4, 3), np.nan, dtype=np.float32)}, "finite numbers"),
        ({"actions": np.zeros((3, 2), dtype=np.float32)}, "4 states but 3 actions"),
        ({"typical": -1.0}, "not in order"),
        ({"typical": 3.0}, "not in order"),
        ({"far": np.nan}, "not in order"),
    ],
)
def test_bad_data(changes: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {
        "states": np.zeros((4, 3), dtype=np.float32),
        "actions": np.zeros((4, 2), dtype=np.float32),
        "typical": 1.0,
        "far": 2.0,
    }
    with pytest.raises(InputError, match=words):
        Seen(**usual | changes)


def test_data_of_another_width() -> None:
    seen = Seen(np.zeros((4, 2), dtype=np.float32), np.zeros((4, 2), dtype=np.float32), 1.0, 2.0)
    with pytest.raises(InputError, match="seen: 2 features and 2 action components, but the model"):
        replace(model(), seen=seen)


def test_files_keep_it(tmp_path: Path) -> None:
    data = transitions(np.random.default_rng(0), 5, 5)
    scm = replace(model(), seen=collect_seen(data, None))
    scm.save(tmp_path / "with.safetensors")
    model().save(tmp_path / "without.safetensors")
    found = cp.NeuralSCM.load(tmp_path / "with.safetensors")
    assert found.seen is not None
    assert scm.seen is not None
    for name in ("states", "actions"):
        one, two = getattr(found.seen, name), getattr(scm.seen, name)
        assert one.dtype == np.float32
        assert one.tobytes() == two.tobytes()
    assert (found.seen.typical, found.seen.far) == (scm.seen.typical, scm.seen.far)
    found.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (
        tmp_path / "with.safetensors"
    ).read_bytes()
    assert cp.NeuralSCM.load(tmp_path / "without.safetensors").seen is None


def test_files_with_half_of_it(tmp_path: Path) -> None:
    """Cut out of the middle, with a checksum that matches."""
    path = tmp_path / "m.safetensors"
    data = transitions(np.random.default_rng(0), 5, 5)
    replace(model(), seen=collect_seen(data, None)).save(path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    about = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][METADATA])
    for changes, words in (
        ({"seen_actions": None}, "of the seen data only seen_states, seen_distances are there"),
        ({"seen_distances": np.ones(3)}, "'seen_distances' has shape"),
        ({"seen_states": np.zeros((3, 3), dtype=np.float32)}, "3 states but 20 actions"),
    ):
        arrays = {**load(content), **changes}
        stored = {name: array for name, array in arrays.items() if array is not None}
        about["sha256"] = digest(NEURAL, stored, about)
        path.write_bytes(save(stored, metadata={METADATA: json.dumps(about)}))
        with pytest.raises(FileError, match=words):
            cp.NeuralSCM.load(path)
