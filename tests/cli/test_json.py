"""What `--json` prints, against docs/schemas: it is valid, has no key that its file lacks, and no
file promises a key that nothing prints. The files, and the tables of docs/json.md, are as the
code's own models make them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from counterplan.cli import serve as cli_serve
from counterplan.domains import sepsis
from counterplan.domains.storage_file import read_storage
from counterplan.errors import CounterplanError
from counterplan.tables.events import read_config
from counterplan.tables.schema import schema_problems
from tests.runs.dose_tables import SCHEMA as DOSES
from tests.runs.dose_tables import stays
from tests.tables.test_events import CONFIG, events, write_meds
from tests.tables.test_rewards import ROOMS, rooms
from tools import json_schemas

from .conftest import MODEL, Run

# What takes more than a small table: tests/tables/test_rewards.py has it.
ELSEWHERE = {("Explanation", "at_end_only")}
ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "src/counterplan/domains/schemas").glob("*.toml"))
SCHEMA = """
[table]
episode = "patient"
time = "visit"
step = 4
unit = "h"
[columns.pressure]
role = "state"
better = "lower"
[columns.dose]
role = "action"
levels = [0, 1, 2]
[columns.status]
role = "outcome"
"""


# --- The files --------------------------------------------------------------------------------


def strict(schema: Any) -> Any:
    """The same without room for other keys: files leave it for those to come."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(one) for key, one in schema.items()}
    return {"additionalProperties": False, **closed} if "properties" in schema else closed


def used(schema: Any, value: Any, root: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Which keys of which part of a schema a document has."""
    if "$ref" in schema:
        place = schema["$ref"].rpartition("/")[2]
        schema = root["$defs"][place]
    for one in schema.get("anyOf", ()):
        if Draft202012Validator({"$defs": root.get("$defs", {}), **one}).is_valid(value):
            yield from used(one, value, root, place)
    for one in value if isinstance(value, list) and "items" in schema else ():
        yield from used(schema["items"], one, root, place)
    for key, one in value.items() if isinstance(value, dict) else ():
        if key in (known := schema.get("properties", {})):
            yield place, key
            yield from used(known[key], one, root, place)
        elif isinstance(rest := schema.get("additionalProperties"), dict):
            yield from used(rest, one, root, place)


def compare(command: str, documents: list[Any], schema: Any = None) -> None:
    """The documents are what the file says, and all that it says occurs in one of them."""
    root = strict(schema or json_schemas.printed(command))
    checker, seen = Draft202012Validator(root), set[tuple[str, str]]()
    for document in documents:
        best = best_match(checker.iter_errors(document))
        assert best is None, f"{best.json_path}: {best.message}"
        seen |= {*used(root, document, root)}
    parts = {"": root, **root.get("$defs", {})}
    known = {(name, key) for name, part in parts.items() for key in part.get("properties", ())}
    assert known - seen <= ELSEWHERE, "promised, but nothing prints them"


def test_files_are_as_the_code_makes_them() -> None:
    written = {path.name: path for path in json_schemas.FOLDER.iterdir()}
    made = json_schemas.every()
    assert made.keys() == written.keys()
    for name, document in made.items():
        text = written[name].read_text(encoding="utf-8")
        assert text == json_schemas.text_of(document), f"{name}: run python tools/json_schemas.py"
        if name != "openapi.json":
            Draft202012Validator.check_schema(document)
    assert json_schemas.PAGE.read_text(encoding="utf-8") == json_schemas.page()


# --- Files that people write ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        (SCHEMA, True),
        (SCHEMA.replace('"lower"', '"less"'), False),
        (SCHEMA.replace("step = 4", "steps = 4"), False),
        (SCHEMA.replace("levels = [0, 1, 2]", 'levels = [0, 1, 2]\nbetter = "lower"'), False),
        (SCHEMA.replace('role = "state"\n', ""), False),
        (SCHEMA.replace("step = 4", 'dates = "ymd"'), False),
        (SCHEMA.replace("step = 4", 'step = "4"'), False),
        *((path.read_text(encoding="utf-8"), True) for path in SHIPPED),
    ],
)
def test_schemas_of_tables(text: str, is_right: bool) -> None:
    """What the file accepts, the reader accepts, as far as keys and kinds of values go."""
    given = tomllib.loads(text)
    checker = Draft202012Validator(json_schemas.table_schema())
    assert checker.is_valid(given) == is_right == (not schema_problems(given))


BATTERY = (ROOT / "examples" / "battery.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("horizon = ", "hours = "), ("capacity", "size"), ('"max"', '"most"'),
     ('kind = "', 'kind = "x'), ("[flows.", "[flow.")],
)  # fmt: skip
def test_problems_of_storages(tmp_path: Path, old: str, new: str) -> None:
    assert old in BATTERY
    path = tmp_path / "battery.toml"
    path.write_text(BATTERY.replace(old, new), encoding="utf-8")
    checker = Draft202012Validator(json_schemas.problem())
    is_right = checker.is_valid(tomllib.loads(path.read_text(encoding="utf-8")))
    assert is_right == (not old)
    if is_right:
        read_storage(path)
    else:
        with pytest.raises(CounterplanError):
            read_storage(path)


@pytest.mark.parametrize(
    ("part", "change"),
    [("", {}), ("episodes", {"window": "4 hours"}), ("episodes", {"begin": ["ADMIT"]}),
     ("features", {"rate": {}}), ("actions", {"fluid": {"codes": ["F"], "bins": 99}})],
)  # fmt: skip
def test_configurations_of_events(part: str, change: dict[str, Any]) -> None:
    given = json.loads(json.dumps(CONFIG))
    if part:
        given[part] |= change
    is_right = Draft202012Validator(json_schemas.events()).is_valid(given)
    assert is_right == (not part)
    if is_right:
        read_config(given)
    else:
        with pytest.raises(CounterplanError):
            read_config(given)


# --- The commands -----------------------------------------------------------------------------


@pytest.fixture
def asked(ward: Path, run: Run) -> Any:
    """Run a command with --json and give what it prints."""

    def ask(line: str) -> Any:
        result = run(*line.split(), "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return ask


@pytest.fixture
def visits(ward: Path) -> Path:
    """A table of continuous states and its schema; its outcome has the name of a key."""
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(24):
        pressure = rng.normal(160, 10)
        for visit in range(5):
            dose = int(rng.integers(0, 3))
            rows.append((patient, visit, pressure, dose, "lost" if patient % 2 else "kept"))
            pressure = 0.7 * pressure + 48 - 5 * dose + rng.normal(0, 2)
    names = ["patient", "visit", "pressure", "dose", "status"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv("visits.csv")
    (ward / "schema.toml").write_text(SCHEMA)
    # The same by dates.
    dated = [(patient, f"2024-03-{1 + visit:02d}", *rest) for patient, visit, *rest in rows]
    pl.DataFrame(dated, schema=names, orient="row").write_csv("dated.csv")
    timed = 'dates = true\nunit = "d"\n[columns.pressure]'
    by_date = SCHEMA.replace("step = 4\n", "").replace('unit = "h"\n[columns.pressure]', timed)
    (ward / "dated.toml").write_text(by_date)
    # An episode far outside of what a model has seen.
    far = [("far", 0, 1e6, 0, "lost"), ("far", 1, 1e6, 0, "lost")]
    pl.DataFrame(far, schema=names, orient="row").write_csv("far.csv")
    # What is earned at the end only.
    rooms(ward / "rooms.csv")
    (ward / "rooms.json").write_text(json.dumps(ROOMS))
    return ward


FIT_VISITS = "fit visits.csv --schema schema.toml -o visits.safetensors --hidden 4 --epochs 2"


def test_explain_and_cases(asked: Any, visits: Path) -> None:
    asked("fit ward.csv -o ward.safetensors --value-unobserved")
    asked(FIT_VISITS)
    asked("fit dated.csv --schema dated.toml -o dated.safetensors --learner smooth --members 2")
    found = [
        asked("explain ward.csv --model ward.safetensors --k 1 --robust --unsupported"),
        asked("explain ward.csv --model ward.safetensors --k 0,1 -o wards --workers 1"),
        asked("explain visits.csv --model visits.safetensors --k 1"),
        asked("explain visits.csv --model visits.safetensors --k 1 -o out --workers 1"),
        asked("explain dated.csv --model dated.safetensors --k 1"),
    ]
    asked("fit rooms.csv --schema rooms.json -o rooms.safetensors")
    found.append(asked("explain rooms.csv --model rooms.safetensors --k 1"))
    found.append(asked("explain far.csv --model visits.safetensors --k 1"))
    found.append(asked("explain dated.csv --model dated.safetensors --k 1 -o dated --workers 1"))
    kept = found[2]["explanations"][0]
    assert kept["status"] == "optimal"
    assert kept["outcome:status"] in {"lost", "kept"}
    robust = "explain ward.csv --model ward.safetensors --k 1 --robust --unsupported -o robust"
    found.append(asked(robust))
    asked("explain rooms.csv --model rooms.safetensors --k 1 -o rooms")
    compare("explain", found)
    runs = ("wards", "out", "robust", "dated", "rooms")
    lists = [asked(f"cases {run}") for run in runs]
    never = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [1.0, 0.0]]]
    (visits / "other.json").write_text(json.dumps(MODEL | {"transitions": never}))
    (visits / "zoe.csv").write_text("episode_id,t,state,action\nzoe,0,1,1\nzoe,1,1,1\n")
    asked("explain zoe.csv --model other.json --k 1 -o failed --workers 1")
    lists.append(asked("cases failed --status failed"))
    compare("cases", lists)


def test_fit(asked: Any, visits: Path) -> None:
    sepsis.write_cohort("cohort.csv", patients=20, seed=0)
    prices = np.cumsum(np.random.default_rng(0).normal(size=150)) + 50
    pl.DataFrame({"price": prices}).write_csv("prices.csv")
    stays(30, 0).write_csv("doses.csv")
    Path("doses.json").write_text(json.dumps(DOSES), encoding="utf-8")
    found = [
        asked("fit ward.csv -o ward.safetensors"),
        asked(FIT_VISITS),
        asked("fit visits.csv --schema schema.toml -o m.safetensors --learner auto"),
        asked("fit visits.csv --schema schema.toml -o s.safetensors --learner smooth --members 2"),
        asked("fit cohort.csv -o cohort.safetensors --hidden 4 --epochs 2"),
        asked("fit rooms.csv --schema rooms.json -o rooms.safetensors"),
        asked("fit doses.csv --schema doses.json -o doses.safetensors --members 2"),
        asked("fit prices.csv --process -o prices.safetensors --families walk,ou"),
    ]
    compare("fit", found)


def test_episodes(asked: Any, ward: Path) -> None:
    write_meds(ward / "meds", events())
    (ward / "events.toml").write_text(
        '[episodes]\nwindow = "4h"\nstart = ["ADMIT"]\nend = ["LEAVE"]\n'
        '[features.rate]\ncodes = ["HR"]\nmissing = "mean"\n'
        '[actions.fluid]\ncodes = ["DRUG//fluid"]\nbins = 2\n',
        encoding="utf-8",
    )
    made = asked("episodes meds --config events.toml -o stays.csv --json")
    compare("episodes", [asked("episodes meds --json"), made])


def test_schema(asked: Any, visits: Path) -> None:
    compare("schema", [asked("schema visits.csv")])


def test_report(asked: Any) -> None:
    asked("explain ward.csv --model model.json --k 1 -o out --workers 1")
    compare("report", [asked("report out --cases 0")])


def test_plan(asked: Any, ward: Path) -> None:
    found = [
        plain := asked("plan bunkering --simulations 20"),
        averse := asked("plan bunkering --simulations 20 --risk 0.25"),
        asked("plan bunkering --scenarios-template voyages.csv"),
        asked("plan bunkering --scenarios voyages.csv --simulations 20 --k 2"),
    ]
    compare("plan", found)
    assert "optimum_of" not in plain
    assert averse["optimum_of"] == "the mean"  # of bounds and exact; value is of the worst quarter


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it tells before it serves; tests/cli/test_serve.py starts it."""
    printed: list[Any] = []
    monkeypatch.setattr(cli_serve.cli, "print_json", printed.append)
    cli_serve._tell(cli_serve.ServeOptions(run=Path("out"), as_json=True), 8765, None)
    compare("serve", printed)


class TestTheCheckItself:
    """A check that cannot fail is no check."""

    @pytest.mark.parametrize(
        ("document", "message"),
        [({"report": "", "bytes": 0, "figures": 0, "new": 0}, "'new' was unexpected"),
         ({"report": "", "bytes": 0}, "'figures' is a required"),
         ({"report": "", "bytes": 0, "figures": "3"}, "'3' is not of type 'integer'")],
    )  # fmt: skip
    def test_other_documents_fail(self, document: Any, message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            compare("report", [document])

    def test_keys_that_nothing_prints_fail(self) -> None:
        schema = json_schemas.printed("report")
        schema["properties"]["pages"] = {"type": "integer"}
        with pytest.raises(AssertionError, match="nothing prints them"):
            compare("report", [{"report": "", "bytes": 0, "figures": 0}], schema)
