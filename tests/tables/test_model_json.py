"""Models written by hand as JSON, and every mistake in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplan.errors import FileError
from counterplan.tables.models import load_model

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
    "not an object": ([1], ': holds no object; expected a model as JSON with "transitions"'),
    "no transitions": ({"rewards": REWARDS}, ": has no 'transitions'; expected a model as JSON"),
    "no rewards": ({"transitions": TRANSITIONS}, ": has no 'rewards'; expected"),
    "unknown key": ({"reward": REWARDS}, ": unknown key 'reward'; known are transitions, rewards"),
    "transitions no list": ({"transitions": 3}, ", transitions: expected a list with one entry"),
    "no states": ({"transitions": []}, ", transitions: expected a list with one entry for each st"),
    "no actions": ({"transitions": [[]]}, ", transitions[0]: expected a list with one entry for"),
    "ragged actions": (
        {"transitions": [TRANSITIONS[0], TRANSITIONS[1][:1]]},
        ", transitions[1]: has 1 entries; expected 2",
    ),
    "ragged row": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [1.0]]]},
        ", transitions[1][1]: has 1 entries; expected 2",
    ),
    "not square": (
        {"transitions": [[[0.5, 0.25, 0.25]], [[1, 0, 0]]]},
        ", transitions[0][0]: has 3 entries; expected 2",
    ),
    "too flat": (
        {"transitions": [[0.5, 0.5], [0.5, 0.5]]},
        ", transitions[0][0]: is 0.5; expected a list of 2 entries",
    ),
    "probability is text": (
        {"transitions": [[["x", 0.1], [0.2, 0.8]], TRANSITIONS[1]]},
        ", transitions[0][0][0]: is 'x'; expected a number",
    ),
    "probability null": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [None, 1]]]},
        ", transitions[1][1][0]: is None; expected a number",
    ),
    "probability true": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [True, 0]]]},
        ", transitions[1][1][0]: is True; expected a number",
    ),
    "probability negative": (
        {"transitions": [TRANSITIONS[0], [[1.5, -0.5], [0, 1]]]},
        ": transitions: P(state 1 | state 1, action 0) is -0.5: probabilities must be finite",
    ),
    "probability nan": (
        {"transitions": [TRANSITIONS[0], [[float("nan"), 0.5], [0, 1]]]},
        ": transitions: P(state 0 | state 1, action 0) is nan",
    ),
    "row does not sum to 1": (
        {"transitions": [TRANSITIONS[0], [[0.5, 0.5], [0.5, 0.6]]]},
        ": transitions of state 1, action 1 sum to 1.1, not 1: normalise the rows",
    ),
    "rewards of another size": ({"rewards": [[1, 2]]}, ", rewards: has 1 entries; expected 2"),
    "reward is text": (
        {"rewards": [[1, 2], [3, "much"]]},
        ", rewards[1][1]: is 'much'; expected a number, or null or \"-inf\" for -inf",
    ),
    "reward nan": (
        {"rewards": [[1, 2], [3, float("nan")]]},
        ": reward of state 1, action 1 is nan",
    ),
    "reward infinite": (
        {"rewards": [[1, 2], [3, float("inf")]]},
        ": reward of state 1, action 1 is inf",
    ),
    "reward too large": ({"rewards": [[1, 2], [3, 10**400]]}, "expected a number below 1e308"),
    "admissible numbers": (
        {"admissible": [[1, 0], [1, 1]]},
        ", admissible[0][0]: is 1; expected t",
    ),
    "admissible of another size": ({"admissible": [[True, True]]}, ", admissible: has 1 entries"),
    "initial no distribution": ({"initial": [0.5, 0.6]}, ": initial is not a distribution"),
    "initial of another size": ({"initial": [1]}, ", initial: has 1 entries; expected 2"),
    "too many labels": ({"state_labels": list("abc")}, ", state_labels: has 3 entries; expected 2"),
    "label is a number": ({"action_labels": ["a", 1]}, ", action_labels[1]: is 1; expected a text"),
    "label empty": ({"action_labels": ["a", " "]}, ", action_labels[1]: is ' '; expected a text"),
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


def test_malformed(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"transitions": [[[1.0]]],\n "rewards": [[1]')
    with pytest.raises(FileError, match=r"line 2, column 17: is not JSON"):
        load_model(path)
