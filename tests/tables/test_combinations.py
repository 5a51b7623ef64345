"""Only combinations of action columns that exist are advised, unless the schema says otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.tables.fit import FitSettings, fit_continuous, fit_discrete
from counterplan.tables.layout import ACTIONS, SchemaLayout, counts_of_model, layout_of_model
from counterplan.tables.schema import Schema, read_schema, schema_from_dict, schema_toml

# What a visit with each pair does to the pain. Others do not exist, but for two slips of the pen;
# by the parts alone "dolan, 400" should be best.
PAIRS = {("none", 0.0): 0.0, ("cedin", 200.0): -0.4, ("cedin", 400.0): -0.9, ("dolan", 200.0): -1.2}
SLIP = ("none", 400.0)
DRUGS, DOSES = ["none", "cedin", "dolan"], [0, 200, 400]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, rows = np.random.default_rng(0), []
    for patient in range(100):
        pain = rng.normal(6.0, 1.0)
        for t in range(5):
            pair = SLIP if (patient, t) in ((3, 1), (70, 2)) else [*PAIRS][rng.integers(len(PAIRS))]
            rows.append((f"p{patient}", t, pain, round(pain), *pair))
            pain = 0.8 * pain + 1.2 + PAIRS.get(pair, 0.0) + rng.normal(0.0, 0.3)
    path = tmp_path_factory.mktemp("combinations") / "pain.csv"
    names = ["episode_id", "t", "pain", "score", "drug", "dose"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(path)
    return path


def schema_of(kind: str = "continuous", **table: Any) -> Schema:
    pain: dict[str, Any] = {"pain": {"role": "state", "better": "lower"}}
    if kind == "discrete":
        # A pair that never occurs may lead anywhere, so to good states too.
        levels = list(range(-20, 13))
        pain = {"score": {"role": "state", "levels": levels, "better": "lower"}}
    drug = {"role": "action", "labels": DRUGS}
    dose = {"role": "action", "levels": DOSES, "unit": "mg"}
    return schema_from_dict({"table": table, "columns": {**pain, "drug": drug, "dose": dose}})


@pytest.fixture(scope="module")
def models(table: Path) -> dict[str, Any]:
    settings: Any = {"epochs": 8, "hidden": 8}
    return {
        "continuous": fit_continuous(table, schema_of(), settings).model,
        "discrete": fit_discrete(
            table, schema_of("discrete"), FitSettings(bar_unobserved=False)
        ).model,
    }


def advised(table: Path, model: Any, schema: Schema | None = None) -> set[tuple[str, float]]:
    """The pairs that answers change to, wherever the data is."""
    answers: Any = cp.explain_table(table, model, k=2, schema=schema, supported=False)
    grid = SchemaLayout(schema_of()).choices
    alternatives = {change.alternative for answer in answers for change in answer.changes}
    return {(DRUGS[one // 3], float(grid.vectors[one][1])) for one in alternatives}


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_no_pair_is_advised_that_nobody_had(kind: str, table: Path, models: dict[str, Any]) -> None:
    found = advised(table, models[kind])
    assert found
    assert found <= PAIRS.keys()


@pytest.mark.parametrize("solver", ["greedy", "noisy-greedy", "top-k", "random"])
def test_nor_by_simple_methods(solver: str, table: Path, models: dict[str, Any]) -> None:
    some: Any = {"solver": solver, "episodes": [f"p{number}" for number in range(10)]}
    answers: Any = cp.explain_table(table, models["continuous"], k=2, supported=False, **some)
    offered = layout(models["continuous"], schema_of()).offer.actions
    alternatives = {change.alternative for answer in answers for change in answer.changes}
    assert alternatives
    assert all(offered[one] for one in alternatives)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_the_grid_and_a_list_are_for_the_schema_to_choose(
    kind: str, table: Path, models: dict[str, Any]
) -> None:
    every = advised(table, models[kind], schema_of(kind, combinations="grid"))
    assert not every <= PAIRS.keys()
    listed = schema_of(kind, combinations=[["cedin", 200], ["dolan", "400 mg"]])
    assert advised(table, models[kind], listed) <= {("cedin", 200.0), ("dolan", 400.0)}
    # What occurs at least once: slips too.
    offer = layout(models[kind], schema_of(kind, min_count=1)).offer
    assert offer.actions.sum() == len(PAIRS) + 1


def layout(model: Any, schema: Schema) -> SchemaLayout:
    made = SchemaLayout(schema)
    made.counts = counts_of_model(model, made.choices)
    return made


def test_models_remember_how_often_each_pair_occurred(table: Path, models: dict[str, Any]) -> None:
    rows = pl.read_csv(table)
    # In the last row of an episode with measurements nothing is decided any more.
    for kind, deciding in (("discrete", rows), ("continuous", rows.filter(pl.col("t") < 4))):
        counted = deciding.group_by("drug", "dose").len().rows()
        expected = sorted([float(DRUGS.index(drug)), dose, count] for drug, dose, count in counted)
        assert sorted(models[kind].about[ACTIONS]) == expected


def test_where_nothing_is_left_it_says_what_to_do(table: Path, models: dict[str, Any]) -> None:
    def refused(allow: str, forbid: tuple[str, ...] = (), schema: Schema | None = None) -> str:
        asked: Any = {"k": 1, "schema": schema, "allow": [allow], "forbid": forbid}
        with pytest.raises(InputError) as problem:
            cp.explain_table(table, models["continuous"], **asked)
        return str(problem.value)

    words = "allow: leaves nothing to advise: allow other actions, or forbid fewer."
    assert f"{words} Advises only the 4 of 9 comb" in refused("drug=none & dose=400")
    assert words in refused("drug=cedin", ("drug=cedin",), schema_of(combinations="grid"))


def test_what_is_said_about_it(models: dict[str, Any]) -> None:
    def note(**table: Any) -> str:
        return layout(models["continuous"], schema_of(**table)).offer.note

    pairs = "9 combinations of drug and dose"
    assert note() == f"Advises only the 4 of {pairs} that occur at least 5 times."
    assert note(combinations="grid") == (
        f"Advises any combination, as the schema says; 4 of {pairs} occur at least 5 times."
    )
    assert note(combinations=[["cedin", 200]]) == (
        f"Advises only the 1 that the schema lists; 4 of {pairs} occur at least 5 times."
    )
    rare = layout(models["continuous"], schema_of(min_count=1_000)).offer
    assert rare.note == (
        f"Advises only what occurs at all: none of {pairs} occurs 1,000 times; 5 occur at all "
        "(min_count in [table] of the schema)."
    )
    assert rare.actions.sum() == 5


def test_a_single_column_and_one_whose_values_all_occur() -> None:
    columns = {
        "x": {"role": "state", "better": "lower"},
        "drug": {"role": "action", "labels": DRUGS},
    }
    made = SchemaLayout(schema_from_dict({"columns": columns}))
    made.counts = np.array([20, 7, 4])
    assert made.offer.note == "Advises only the 2 of 3 values of drug that occur at least 5 times."
    made = SchemaLayout(schema_from_dict({"columns": columns}))
    made.counts = np.array([20, 7, 5])
    assert made.offer.note == ""
    assert made.offer.actions.all()


def test_a_model_of_an_earlier_version_says_that_nothing_is_known(
    table: Path, models: dict[str, Any]
) -> None:
    model = models["continuous"]
    old = replace(model, about={name: v for name, v in model.about.items() if name != ACTIONS})
    found = layout_of_model(old)
    assert found is not None
    assert found.offer.actions.all()
    assert found.offer.note.startswith("Nothing is known of which of the 9 combinations of drug")
    damaged = replace(model, about={**model.about, ACTIONS: [["x", 1.0, 3]]})
    with pytest.raises(InputError, match="counts of actions in the model are damaged: fit it anew"):
        layout_of_model(damaged)


def test_schemas_with_combinations_are_written_and_read_back(tmp_path: Path) -> None:
    schema = schema_of(combinations=[["cedin", 200], ["dolan", 400]], min_count=12)
    assert schema.min_count == 12
    path = tmp_path / "schema.toml"
    path.write_text(schema_toml(schema))
    assert 'combinations = [["cedin", 200], ["dolan", 400]]\nmin_count = 12\n' in path.read_text()
    assert read_schema(path) == schema
    given: Any = [["cedin", 200], ["dolan", 400]]
    assert replace(schema, combinations=given) == schema
    assert schema_from_dict(json.loads(json.dumps(schema.as_dict()))) == schema
