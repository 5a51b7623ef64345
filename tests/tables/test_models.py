"""Model files: what is saved is what is loaded, bit for bit, and no damage goes unseen."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from counterplan.core.tensors import METADATA, digest
from counterplan.domains import icu_sepsis
from counterplan.errors import FileError, InputError
from counterplan.scm.tabular import TabularMDP
from counterplan.tables import models
from counterplan.tables.models import load_model, save_model

ARRAYS = ("row_of", "rewards", "admissible", "initial", "final_rewards")


def assert_identical(one: TabularMDP, two: TabularMDP) -> None:
    pairs = [(getattr(one.rows, name), getattr(two.rows, name)) for name in vars(one.rows)]
    pairs += [(getattr(one, name), getattr(two, name)) for name in ARRAYS]
    for first, second in pairs:
        assert (first is None) == (second is None)
        if first is not None:
            assert first.dtype == second.dtype
            assert first.shape == second.shape
            assert first.tobytes() == second.tobytes()
    assert one.state_labels == two.state_labels
    assert one.action_labels == two.action_labels


def random_model(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Sparse rows with many digits, shared rows, barred pairs, and any choice of optional parts."""
    rows = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[..., 0] += 1e-3
    rows[-1] = rows[0]
    rows /= rows.sum(axis=2, keepdims=True)
    rewards = rng.normal(size=(n_states, n_actions))
    rewards[rng.random(rewards.shape) < 0.2] = -np.inf
    parts: dict[str, Any] = {
        "admissible": rng.random((n_states, n_actions)) < 0.5,
        "initial": rng.dirichlet(np.ones(n_states)),
        "final_rewards": rng.normal(size=n_states),
        "state_labels": [f'état {i}, "x"\n' for i in range(n_states)],
        "action_labels": [f"{i}" for i in range(n_actions)],
    }
    return TabularMDP(rows, rewards, **{k: v for k, v in parts.items() if rng.random() < 0.5})


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 4))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n_states: int, n_actions: int
) -> None:
    mdp = random_model(np.random.default_rng(seed), n_states, n_actions)
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    save_model(mdp, path)
    loaded = load_model(path)
    assert_identical(mdp, loaded)
    again = path.with_name("again.safetensors")
    save_model(loaded, again)
    assert again.read_bytes() == path.read_bytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rows = [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]]
    path = tmp_path / "model.safetensors"
    mdp = TabularMDP(
        rows, [[1.0, 2.0], [3.0, -np.inf]], initial=[0.1, 0.9], state_labels=["a", "b"]
    )
    save_model(mdp, path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        load_model(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(f"{path}")
    return text


def test_every_flipped_bit_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        saved.write_bytes(damaged)
        refusal(saved)


def test_every_truncation_is_noticed(saved: Path) -> None:
    content = saved.read_bytes()
    for length in range(len(content)):
        saved.write_bytes(content[:length])
        refusal(saved)
    saved.write_bytes(content + b"\0")
    refusal(saved)


def rewrite(path: Path, about: dict[str, Any] | str | None = None, **arrays: Any) -> None:
    """Change metadata or arrays of a model, with a checksum that matches: a crafted file."""
    stored = load(path.read_bytes())
    for name, array in arrays.items():
        if array is None:
            del stored[name]
        else:
            stored[name] = array
    form = models.TABULAR
    known: dict[str, Any] = {"format": form.name, "version": form.version}
    labels = {"state_labels": ["a", "b"], "action_labels": None}
    metadata = known | labels
    if isinstance(about, dict):
        metadata |= about
    used = {name: stored[name] for name in stored if name in form.arrays}
    metadata["sha256"] = digest(form, used, metadata)
    text = about if isinstance(about, str) else json.dumps(metadata)
    path.write_bytes(save(stored, metadata={METADATA: text}))


CRAFTED: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"about": {"format": "cat pictures"}}, "not a model saved by counterplan"),
    "row_of flat": ({"row_of": np.zeros(4, dtype=np.int32)}, "row_of must hold whole numbers"),
    "row negative": (
        {"row_of": np.array([[0, -1], [2, 3]], dtype=np.int32)},
        "row_of names row -1 for state 0, action 1",
    ),
    "rows shifted": (
        {"indptr": np.array([1, 2, 3, 5, 6], dtype=np.int64)},
        "indptr must run from 0",
    ),
    "row empty": ({"indptr": np.array([0, 2, 2, 4, 6], dtype=np.int64)}, "row 1 has no entries"),
    "rows running back": (
        {"indptr": np.array([0, 4, 2, 5, 6], dtype=np.int64)},
        "row 1 has no entries",
    ),
    "unequal lengths": ({"probabilities": np.ones(3)}, "6 indices but 3 probabilities"),
    "states not ascending": (
        {"indices": np.array([1, 0, 1, 0, 0, 1], dtype=np.int32)},
        "the next states of row 0 are not in ascending order",
    ),
    "probability zero": (
        {"probabilities": np.array([1.0, 0.0, 1.0, 1.0, 0.25, 0.75])},
        "P(state 1 | state 0, action 0) is 0.0",
    ),
    "row does not sum to 1": (
        {"probabilities": np.array([0.5, 0.5, 1.0, 1.0, 0.25, 0.5])},
        "transitions of state 1, action 1 sum to 0.75, not 1",
    ),
    "final rewards of another size": ({"final_rewards": np.zeros(3)}, "final_rewards have shape"),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_file(saved: Path, case: str) -> None:
    changes, message = CRAFTED[case]
    rewrite(saved, **changes)
    assert message in refusal(saved)


def test_crafting_can_succeed(saved: Path) -> None:
    """The helper above writes files that load, so the refusals are due to what was changed."""
    rewrite(saved, rewards=np.full((2, 2), 7.0), unknown=np.zeros(3))
    assert load_model(saved).rewards.tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_saving_needs_the_native_extension(tmp_path: Path) -> None:
    mdp = TabularMDP([[[1.0]]], [[0.0]])
    with pytest.raises(FileError, match=r"saved models end in \.safetensors"):
        save_model(mdp, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_the_file_says_what_it_is_without_this_library(saved: Path) -> None:
    """The header is JSON after eight bytes: nothing of it is code."""
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    about = json.loads(header["__metadata__"]["counterplan"])
    assert about["format"] == "counterplan tabular model"
    assert about["version"] == 1
    assert about["state_labels"] == ["a", "b"]
    assert len(about["sha256"]) == hashlib.sha256().digest_size * 2


TRANSITIONS = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]]
REWARDS: list[list[Any]] = [[0, 1], [2, "-inf"]]


def test_all_parts(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    parts = {
        "admissible": [[True, False], [True, True]],
        "initial": [0.25, 0.75],
        "final_rewards": [1, None],
        "state_labels": ["ill", "well"],
        "action_labels": ["rest", "walk"],
    }
    path.write_text(json.dumps({"transitions": TRANSITIONS, "rewards": REWARDS, **parts}))
    mdp = load_model(path)
    assert mdp.row(0, 1).tolist() == [0.2, 0.8]
    assert mdp.rewards.tolist() == [[0.0, 1.0], [2.0, -np.inf]]
    assert mdp.admissible is not None
    assert mdp.initial is not None
    assert mdp.final_rewards is not None
    assert mdp.admissible.tolist() == parts["admissible"]
    assert mdp.initial.tolist() == [0.25, 0.75]
    assert mdp.final_rewards.tolist() == [1.0, -np.inf]
    assert mdp.state_labels == ("ill", "well")
    assert mdp.action_labels == ("rest", "walk")


@pytest.mark.parametrize("barred", ["null", '"-inf"', "-Infinity"])
def test_ways_to_bar_a_pair(tmp_path: Path, barred: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(
        f'{{"transitions": [[[1.0], [1.0]]], "rewards": [[1, {barred}]], "initial": null}}'
    )
    mdp = load_model(path)
    assert mdp.rewards.tolist() == [[1.0, -np.inf]]
    assert mdp.initial is None


MISTAKES: dict[str, tuple[Any, str]] = {
    "transitions no list": ({"transitions": 3}, ", transitions: expected a list with one entry"),
    "no states": ({"transitions": []}, ", transitions: expected a list with one entry for each st"),
    "no actions": ({"transitions": [[]]}, ", transitions[0]: expected a list with one entry for"),
    "too flat": (
        {"transitions": [[0.5, 0.5], [0.5, 0.5]]},
        ", transitions[0][0]: is 0.5; expected a list of 2 entries",
    ),
    "probability null": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [None, 1]]]},
        ", transitions[1][1][0]: is None; expected a number",
    ),
    "probability true": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [True, 0]]]},
        ", transitions[1][1][0]: is True; expected a number",
    ),
    "probability nan": (
        {"transitions": [TRANSITIONS[0], [[float("nan"), 0.5], [0, 1]]]},
        ": transitions: P(state 0 | state 1, action 0) is nan",
    ),
    "reward nan": (
        {"rewards": [[1, 2], [3, float("nan")]]},
        ": reward of state 1, action 1 is nan",
    ),
    "admissible numbers": (
        {"admissible": [[1, 0], [1, 1]]},
        ", admissible[0][0]: is 1; expected t",
    ),
    "admissible of another size": ({"admissible": [[True, True]]}, ", admissible: has 1 entries"),
    "label is a number": ({"action_labels": ["a", 1]}, ", action_labels[1]: is 1; expected a text"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake(tmp_path: Path, case: str) -> None:
    given, message = MISTAKES[case]
    if isinstance(given, dict) and not case.startswith("no "):
        given = {"transitions": TRANSITIONS, "rewards": REWARDS} | given
    if case in ("no states", "no actions"):
        given = {"rewards": REWARDS} | given
    path = tmp_path / "model.json"
    path.write_text(json.dumps(given))
    with pytest.raises(FileError) as caught:
        load_model(path)
    text = str(caught.value)
    assert text.startswith(f"{path}{message}" if message[0] in ":," else str(path))
    assert message in text
    assert len(text.splitlines()) == 1


def test_what_is_built_on_a_model_is_saved_as_it(tmp_path: Path) -> None:
    """A benchmark or causal model by its MDP; what has none is refused in one line."""
    path, sepsis = tmp_path / "icu.safetensors", icu_sepsis.load()
    save_model(sepsis, path)
    assert_identical(sepsis.mdp, load_model(path))
    with pytest.raises(InputError, match="str cannot be saved: give a TabularMDP, SmoothSCM or N"):
        save_model("model", path)
