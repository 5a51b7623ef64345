"""What a schema makes of a table: features, actions, rewards and words."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import CounterplanError, InputError, MistakesError
from counterplan.tables.layout import SchemaLayout, layout_of_model, means_of_model
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.reader import read_table
from counterplan.tables.schema import Column, Schema, read_schema

from .schema_support import DISCRETE, SCHEMA_TOML, WARD, measured, write


@pytest.fixture
def layout(tmp_path: Path) -> SchemaLayout:
    return SchemaLayout(read_schema(write(tmp_path / "schema.toml", SCHEMA_TOML)))


@pytest.fixture
def ann(tmp_path: Path, layout: SchemaLayout) -> cp.Episode:
    return read_table(write(tmp_path / "ward.csv", WARD), layout.schema)[0].episode


def test_columns(layout: SchemaLayout) -> None:
    assert layout.features == ("age", "sex", "sofa", "map")
    assert layout.fixed == 2
    assert layout.actions == ("vaso", "fluids", "vent")
    assert layout.states is None


def test_action_set_replays_what_is_not_chosen(layout: SchemaLayout, ann: cp.Episode) -> None:
    vectors = layout.action_set(ann)
    assert vectors.shape == (2, 6, 3)
    assert vectors[0, :, :2].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert (vectors[0, :, 2] == 0.0).all()
    assert (vectors[1, :, 2] == 1.0).all()
    with pytest.raises(InputError, match=r"expected \(T-1, 3\): vaso, fluids, vent"):
        layout.action_set(cp.Episode(np.ones((2, 4)), [[1.0]]))


def test_words(layout: SchemaLayout) -> None:
    assert layout.action_name(5) == "vaso 2 µg/kg/min, fluids high"
    assert layout.change_in_words(0, 4) == "vaso 0 -> 2 µg/kg/min"
    assert layout.change_in_words(0, 5) == "vaso 0 -> 2 µg/kg/min, fluids low -> high"


def test_words_of_one_column() -> None:
    layout = SchemaLayout(DISCRETE)
    assert layout.action_name(1) == "walk"
    assert layout.change_in_words(0, 1) == "action rest -> walk"
    assert layout.action_name(2) == "(no action)"


def test_reward_follows_from_what_is_better(layout: SchemaLayout) -> None:
    assert layout.reward().weights.tolist() == [0.0, 0.0, -1.0, 0.0]
    weighted = Schema(
        (
            Column("x", "state", better="higher", weight=2.0),
            Column("y", "state", better="lower", weight=0.5),
            Column("a", "action", levels=(0.0, 1.0)),
        )
    )
    assert SchemaLayout(weighted).reward().weights.tolist() == [2.0, -0.5]


def test_reward_must_come_from_somewhere() -> None:
    schema = Schema((Column("x", "state"), Column("a", "action", levels=(0.0, 1.0))))
    with pytest.raises(InputError, match="does not say what is good: give a state column better"):
        SchemaLayout(schema).reward()
    learned = cp.LinearReward([3.0])
    assert SchemaLayout(schema, learned).reward().weights.tolist() == [3.0]


def test_scaling(layout: SchemaLayout, tmp_path: Path) -> None:
    path = write(tmp_path / "ward.csv", WARD)
    every = Rows(read_table(path, layout.schema))
    scaling = layout.scaling(every)
    encoded = scaling.encode_states(every.states)
    assert np.allclose([encoded.min(axis=0), encoded.max(axis=0)], [[-0.5] * 4, [0.5] * 4])
    # Of actions the levels count, not what was given.
    assert scaling.action_range.tolist() == [2.0, 1.0, 1.0]
    same = Rows([Recorded(cp.Episode(np.ones((3, 4)), np.ones((2, 3))), np.arange(3.0))])
    with pytest.raises(InputError, match="column 'age' is 1 in every row"):
        layout.scaling(same)


def test_last_row_without_action_cannot_change() -> None:
    layout = SchemaLayout(DISCRETE)
    assert layout.constraints(cp.Episode([0, 1], [1, 2])).fixed_steps == (-1,)
    assert layout.constraints(cp.Episode([0, 1], [1, 1])).fixed_steps == ()
    assert (
        SchemaLayout(measured()).constraints(cp.Episode([[1.0], [2.0]], [[0.0]])).fixed_steps == ()
    )


def test_merits_of_discrete_states() -> None:
    schema = Schema(
        (
            Column("x", "state", levels=(1.0, 2.0), better="higher", weight=10.0),
            Column("y", "state", levels=(0.0, 1.0), better="lower"),
            Column("a", "action", levels=(0.0, 1.0)),
        )
    )
    assert SchemaLayout(schema).merits.tolist() == [10.0, 9.0, 20.0, 19.0]


def tabular(**about: object) -> cp.TabularMDP:
    return cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2))).with_data(about=about)


def test_a_model_remembers() -> None:
    assert layout_of_model(tabular()) is None
    stored = {"schema": measured().as_dict(), "means": {"x": 1.5}}
    reward = {"weights": [2.0], "constant": 1.0}
    found = layout_of_model(tabular(**stored, reward=reward))
    assert found is not None
    assert found.schema == measured()
    assert means_of_model(tabular(**stored)) == {"x": 1.5}
    assert means_of_model(tabular()) == {}


@pytest.mark.parametrize(
    "about",
    [
        {"schema": 3},
        {"schema": {"columns": {"x": {"role": "none"}}}},
        {"schema": measured().as_dict(), "reward": 3},
        {"schema": measured().as_dict(), "reward": {"weights": [1.0]}},
        {"schema": measured().as_dict(), "reward": {"weights": [1.0, 2.0], "constant": 0.0}},
        {"schema": measured().as_dict(), "reward": {"weights": ["x"], "constant": 0.0}},
    ],
)
def test_a_damaged_memory_is_refused(about: dict[str, object]) -> None:
    with pytest.raises(CounterplanError):
        layout_of_model(tabular(**about))


@pytest.mark.parametrize("means", [3, {"x": "1"}, {"x": None}, [1.0]])
def test_damaged_means_are_refused(means: object) -> None:
    with pytest.raises(InputError, match="means of columns in the model are damaged"):
        means_of_model(tabular(means=means))


def test_every_line_says_where_a_damaged_schema_is() -> None:
    with pytest.raises(MistakesError, match="the schema in the model, "):
        layout_of_model(tabular(schema={}))
    assert math.isfinite(SchemaLayout(measured()).reward()(np.ones((1, 1)))[0])


BOUNDED = Schema(
    (
        Column("share", "state", low=0.0, high=1.0, unit="l", better="lower"),
        Column("conc", "state"),
        Column("free", "state"),
        Column("scale", "state", levels=(0.0, 1.0, 2.5)),
        Column("a", "action", levels=(0.0, 1.0)),
    )
)


def test_ranges_are_those_of_the_schema_or_from_0_up() -> None:
    lowest = {"share": 0.1, "conc": 0.2, "free": -3.0, "scale": 0.0}
    found = SchemaLayout(BOUNDED).ranges({"lowest": lowest})
    assert found.tolist() == [[0.0, 1.0], [0.0, math.inf], [-math.inf, math.inf], [0.0, 2.5]]
    assert SchemaLayout(BOUNDED).ranges({})[1].tolist() == [-math.inf, math.inf]
