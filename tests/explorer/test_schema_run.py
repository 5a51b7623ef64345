"""A run on a table with a schema: states and actions of several columns, and a last row without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from counterplan.runs.explain import explain_spec
from counterplan.runs.question import Question
from counterplan.tables.fit import FitSettings, fit_discrete
from counterplan.tables.models import save_model
from counterplan.tables.parts import episodes_to_bytes
from counterplan.tables.schema import schema_from_dict

from ..viz.report.runs import solved
from .serving import Explorer, serving

# The columns are in no order of the alphabet: their own is that of the model.
SCHEMA = {
    "table": {"unit": "d"},
    "columns": {
        "pain": {"role": "state", "levels": [0, 1, 2], "better": "lower", "unit": "points"},
        "bed": {"role": "state", "labels": ["home", "ward"]},
        "dose": {"role": "action", "levels": [0, 5], "unit": "mg"},
        "bath": {"role": "action", "labels": ["no", "yes"]},
    },
}
STEPS = 5


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    folder = tmp_path_factory.mktemp("schema")
    rng, lines = np.random.default_rng(1), ["episode_id,t,pain,bed,dose,bath"]
    for number in range(60):
        pain = int(rng.integers(3))
        for t in range(STEPS):
            dose, walk = int(rng.choice([0, 5])), str(rng.choice(["no", "yes"]))
            place = str(rng.choice(["home", "ward"]))
            is_last = t == STEPS - 1
            lines.append(f"n{number},{t},{pain},{place}," + ("," if is_last else f"{dose},{walk}"))
            step = -int(rng.random() < (0.3 + 0.1 * dose)) + int(rng.random() < 0.4)
            pain = int(np.clip(pain + step, 0, 2))
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    yield from _served(folder, table)


def _served(folder: Path, table: Path) -> Iterator[Explorer]:
    schema = schema_from_dict(SCHEMA)
    model = fit_discrete(table, schema, FitSettings(bar_unobserved=False)).model
    save_model(model, folder / "model.safetensors")
    about = {"kind": "schema", "schema": schema.as_dict()}
    content = (folder / "model.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", about, Question((1, 2)), [])
    recorded = list(cp.read_table(table, schema))[:20]
    solved(spec, [episodes_to_bytes(recorded)], folder / "out")
    with serving(folder / "out") as explorer:
        yield explorer


def test_columns_have_names_and_units(explorer: Explorer) -> None:
    about = explorer.get("run")
    assert [one["title"] for one in about["features"]] == ["pain (points)", "bed"]
    assert about["features"][1]["labels"] == ["home", "ward"]
    assert [one["title"] for one in about["doses"]] == ["dose (mg)", "bath"]
    assert about["actions"] == [[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0]]
    assert about["names"][3] == "dose 5 mg, bath yes"
    assert (about["noun"], about["unit"], about["discrete"]) == ("episode", "d", True)


def test_states_are_told_column_by_column(explorer: Explorer) -> None:
    case = explorer.get("case", id="n3")
    episode = explorer.service.cases.recorded("n3").episode
    grid = explorer.service.cases.run.explainer.layout.states.vectors
    assert case["observed"]["states"] == grid[episode.states].tolist()
    assert case["observed"]["actions"][-1] is None
    assert case["answer"]["course"]["actions"][-1] is None
    assert case["fixed"] == [STEPS - 1]
    assert case["names"][1].items() <= {("0", "home"), ("1", "ward")}
    assert case["order"] == [[], []]


def test_where_nothing_was_done_nothing_can_change(explorer: Explorer) -> None:
    question = {"id": "n3", "edits": [{"t": STEPS - 1, "action": 0}]}
    found = explorer.client.post("/api/what-if", json=question)
    assert found.status_code == 400
    assert "nothing was done at step 4" in found.json()["error"]
    # The number that stands for no action is no action to choose.
    question = {"id": "n3", "edits": [{"t": 0, "action": 4}]}
    assert explorer.client.post("/api/what-if", json=question).status_code == 400


def test_solved_again(explorer: Explorer) -> None:
    cases = explorer.service.cases
    episode = cases.recorded("n3").episode
    allowed = np.array([True, False, True, True, True])
    found = cp.explain(
        **cases.run.explainer.problem(episode),
        episode=episode,
        k=3,
        constraints=cp.Constraints(allowed=allowed, fixed_steps=[-1, 1]),
    )
    question = {"kind": "solve", "id": "n3", "k": 3, "forbidden": [1], "fixed": [1]}
    answer = explorer.finished(question)["solved"]["answer"]
    assert (answer["value"], answer["bound"]) == (found.value, found.bound)
    edits = [{"t": 1, "action": (int(episode.actions[1]) + 1) % 4}]
    plan = explorer.post("what-if", {"id": "n3", "edits": edits})["answer"]
    assert plan["factual"] == answer["factual"]
    assert plan["value"] <= explorer.finished(
        {"kind": "solve", "id": "n3", "k": 1}
    )["solved"]["answer"]["value"] + 1e-12  # fmt: skip
