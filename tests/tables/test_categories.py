"""Names are not numbers: categories in models of continuous states."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan import draft_schema
from counterplan.counterfactual.oracle import best_sequence
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.tables.fit import fit_continuous
from counterplan.tables.layout import SchemaLayout, layout_of_model
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.reader import read_table
from counterplan.tables.schema import read_schema, schema_from_dict, schema_toml
from counterplan.testing import check_scm

# What a day with each drug does to the pain: the best one is in the middle of every order below.
DRUGS = {"abacor": -0.2, "belmex": 0.4, "cedin": -0.3, "dolan": -1.6, "ferrox": 0.5, "gamol": -0.1}
WARDS = {"north": 0.0, "south": 0.5, "west": -0.3}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, rows = np.random.default_rng(0), []
    for patient in range(120):
        pain, ward = rng.normal(6.0, 1.0), list(WARDS)[patient % 3]
        for t in range(6):
            drug = list(DRUGS)[rng.integers(len(DRUGS))]
            rows.append((f"p{patient}", t, pain, ward, drug))
            pain = 0.8 * pain + 1.0 + DRUGS[drug] + WARDS[ward] + rng.normal(0.0, 0.3)
    path = tmp_path_factory.mktemp("categories") / "pain.csv"
    names = ["episode_id", "t", "pain", "ward", "drug"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(path)
    return path


def schema_of(drugs: list[str], **more: Any) -> dict[str, Any]:
    return {
        "columns": {
            "pain": {"role": "state", "better": "lower"},
            "ward": {"role": "fixed", "labels": list(WARDS)},
            "drug": {"role": "action", "labels": drugs, **more},
        }
    }


def learned(table: Path, drugs: list[str]) -> cp.NeuralSCM:
    settings: Any = {"epochs": 25, "hidden": 16}
    return fit_continuous(table, schema_from_dict(schema_of(drugs)), settings).model


@pytest.fixture(scope="module")
def model(table: Path) -> cp.NeuralSCM:
    return learned(table, sorted(DRUGS))


def advice(table: Path, model: cp.NeuralSCM) -> set[str]:
    answers: Any = cp.explain_table(table, model, k=1, supported=False)
    return {change.alternative_label for answer in answers for change in answer.changes}


def test_the_best_drug_is_found_in_whatever_order_the_schema_lists_them(
    table: Path, model: cp.NeuralSCM
) -> None:
    assert advice(table, model) == {"dolan"}
    shuffled = random.Random(1).sample(sorted(DRUGS), len(DRUGS))
    assert advice(table, learned(table, shuffled)) == {"dolan"}


def test_such_a_model_is_checked_searched_and_saved_like_any_other(
    table: Path, model: cp.NeuralSCM, tmp_path: Path
) -> None:
    layout = layout_of_model(model)
    assert layout is not None
    episode = read_table(table, layout.schema)[0].episode
    vectors = layout.action_set(episode)
    check_scm(model, episodes=[episode], actions=vectors)
    found: Any = cp.explain(model, episode, k=2, actions=vectors, reward=layout.reward())
    best = best_sequence(model, episode, 2, actions=vectors, reward=layout.reward())
    assert found.value == pytest.approx(best.value, abs=1e-9)
    assert (found.states[:, 0] == episode.states[:, 0]).all()  # the ward
    model.save(tmp_path / "m.safetensors")
    again = cp.NeuralSCM.load(tmp_path / "m.safetensors")
    same: Any = cp.explain(again, episode, k=2, actions=vectors, reward=layout.reward())
    assert same.value == found.value
    assert model.log_likelihood(
        episode.states[:-1], episode.actions, episode.states[1:]
    ) == pytest.approx(
        again.log_likelihood(episode.states[:-1], episode.actions, episode.states[1:])
    )


def test_categories_are_equally_far_apart_and_decoded_as_they_were() -> None:
    scaling = Scaling([0.0, 5.0], [1.0, 2.0], [0.0], [1.0], [3, 0], [4])  # type: ignore[arg-type]
    states = np.array([[0.0, 4.0], [1.0, 4.0], [2.0, 6.0]])
    coded = scaling.encode_states(states)
    assert coded.shape == (3, 4)
    assert np.linalg.norm(coded[0] - coded[1]) == pytest.approx(1.0)
    assert np.linalg.norm(coded[0, :3] - coded[2, :3]) == pytest.approx(1.0)
    assert np.allclose(scaling.decode_states(coded), states)
    assert scaling.encode_actions(np.array([[[3.0]]])).shape == (1, 1, 4)
    reward = cp.LinearReward([10.0, 1.0], 3.0)
    assert np.allclose(scaling.encode_reward(reward, 1)(coded), reward(states))
    with pytest.raises(InputError, match=r"column 0 holds 3: its categories are 0\.\.2"):
        scaling.encode_states(np.array([[3.0, 4.0]]))


def test_a_scale_stays_a_number_and_doses_alone_have_a_distance() -> None:
    plain = SchemaLayout(schema_from_dict(schema_of(["low", "middle", "high"])))
    scale = SchemaLayout(schema_from_dict(schema_of(["low", "middle", "high"], ordered=True)))
    assert plain.max_move(1.0) == [np.inf]
    assert scale.max_move(1.0) == [1.0]
    episodes = [cp.Episode(np.array([[0.0, 1.0], [0.0, 2.0]]), [[2.0]])] * 2
    episodes.append(cp.Episode(np.array([[2.0, 1.0], [2.0, 2.0]]), [[2.0]]))
    scaling = scale.scaling(Rows([Recorded(one, np.arange(2.0)) for one in episodes]))
    assert scaling.encoded_widths(1) == (4, 1, 3)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"labels": ["a", "b", "c"], "ordered": "yes"}, "'yes' is not true or false"),
        ({"levels": [0, 1, 2], "ordered": True}, "is said of labels without levels only"),
        ({"role": "state", "labels": ["a", "b", "c"]}, "3 labels without an order cannot move"),
    ],
)
def test_mistakes(column: dict[str, Any], message: str) -> None:
    given = schema_of(["a", "b"])
    given["columns"]["mood"] = {"role": "fixed", **column}
    with pytest.raises(InputError, match=message):
        schema_from_dict(given)


def test_an_order_is_written_and_read_back(tmp_path: Path) -> None:
    schema = schema_from_dict(schema_of(["low", "middle", "high"], ordered=True))
    path = tmp_path / "schema.toml"
    path.write_text(schema_toml(schema))
    assert read_schema(path) == schema
    assert json.loads(json.dumps(schema.as_dict())) == schema.as_dict()


def test_a_draft_leaves_out_names_that_change(tmp_path: Path) -> None:
    rows = [(p, t, p + t / 7, "abc"[(p + t) % 3], t % 2) for p in range(5) for t in range(4)]
    names = ["episode_id", "t", "pain", "mood", "action"]
    path = tmp_path / "mood.csv"
    pl.DataFrame(rows, schema=names, orient="row").write_csv(path)
    schema = draft_schema(path)
    assert {one.name: one.role for one in schema.columns}["mood"] == "ignore"
