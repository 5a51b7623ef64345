"""What `--json` prints, against docs/json.md: no key that the page lacks, none that it invents.

The page has a section for each command with tables of keys. `[]` stands for every element of a
list, capital letters for any name, `*` for anything below; a row that links to "An explanation" has
that section's keys below its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counterplan.cli import serve as cli_serve
from counterplan.domains import sepsis
from tests.tables.test_events import events, write_meds

from .conftest import MODEL, Run

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
EXPLANATION = "An explanation"
ROW = re.compile(r"^\| (?P<keys>`[^|]+`) \| (?P<meaning>.+) \|$", flags=re.MULTILINE)

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


# --- The page ---------------------------------------------------------------------------------


def documented(section: str) -> set[str]:
    """The paths of keys that a section names."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found, f"docs/json.md has no section {section!r}"
    paths = set()
    for row in ROW.finditer(found[1]):
        for path in re.findall("`([^`]+)`", row["keys"]):
            if path.endswith("[]") and "(#an-explanation)" in row["meaning"]:
                paths |= {f"{path}.{key}" for key in documented(EXPLANATION)}
            else:
                paths.add(path)
    return paths


def pattern(path: str) -> re.Pattern[str]:
    """What a documented path stands for."""
    text = re.escape(path).replace(r"\*", ".+")
    return re.compile(re.sub(r"\b[A-Z]{2,}\b", r"[^.\\[]+", text))


def paths_of(value: Any, above: str = "") -> Iterator[str]:
    """Every key of a document with what leads to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            path = f"{above}.{key}" if above else key
            yield path
            yield from paths_of(item, path)
    elif isinstance(value, list):
        for item in value:
            yield from paths_of(item, f"{above}[]")


def compare(section: str, documents: list[Any]) -> None:
    """Keys of the documents and of the page are the same."""
    known = {path: pattern(path) for path in documented(section)}
    seen = {path for document in documents for path in paths_of(document)}
    unknown = {path for path in seen if not any(one.fullmatch(path) for one in known.values())}
    assert unknown == set(), "add these keys to docs/json.md"
    stale = {path for path, one in known.items() if not any(map(one.fullmatch, seen))}
    assert stale == set(), "docs/json.md promises these keys, but nothing prints them"


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
    found.append(asked("explain dated.csv --model dated.safetensors --k 1 -o dated --workers 1"))
    kept = found[2]["explanations"][0]
    assert kept["status"] == "optimal"
    assert kept["outcome:status"] in {"lost", "kept"}
    robust = "explain ward.csv --model ward.safetensors --k 1 --robust --unsupported -o robust"
    found.append(asked(robust))
    compare("counterplan explain", found)
    lists = [asked(f"cases {run}") for run in ("wards", "out", "robust", "dated")]
    never = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [1.0, 0.0]]]
    (visits / "other.json").write_text(json.dumps(MODEL | {"transitions": never}))
    (visits / "zoe.csv").write_text("episode_id,t,state,action\nzoe,0,1,1\nzoe,1,1,1\n")
    asked("explain zoe.csv --model other.json --k 1 -o failed --workers 1")
    lists.append(asked("cases failed --status failed"))
    compare("counterplan cases", lists)


def test_fit(asked: Any, visits: Path) -> None:
    sepsis.write_cohort("cohort.csv", patients=20, seed=0)
    found = [
        asked("fit ward.csv -o ward.safetensors"),
        asked(FIT_VISITS),
        asked("fit visits.csv --schema schema.toml -o m.safetensors --learner auto"),
        asked("fit visits.csv --schema schema.toml -o s.safetensors --learner smooth --members 2"),
        asked("fit cohort.csv -o cohort.safetensors --hidden 4 --epochs 2"),
    ]
    compare("counterplan fit", found)


def test_episodes(asked: Any, ward: Path) -> None:
    write_meds(ward / "meds", events())
    (ward / "events.toml").write_text(
        '[episodes]\nwindow = "4h"\nstart = ["ADMIT"]\nend = ["LEAVE"]\n'
        '[features.rate]\ncodes = ["HR"]\nmissing = "mean"\n'
        '[actions.fluid]\ncodes = ["DRUG//fluid"]\nbins = 2\n',
        encoding="utf-8",
    )
    made = asked("episodes meds --config events.toml -o stays.csv --json")
    compare("counterplan episodes", [asked("episodes meds --json"), made])


def test_schema(asked: Any, visits: Path) -> None:
    compare("counterplan schema", [asked("schema visits.csv")])


def test_report(asked: Any) -> None:
    asked("explain ward.csv --model model.json --k 1 -o out --workers 1")
    compare("counterplan report", [asked("report out --cases 0")])


def test_plan(asked: Any, ward: Path) -> None:
    found = [
        plain := asked("plan bunkering --simulations 20"),
        averse := asked("plan bunkering --simulations 20 --risk 0.25"),
        asked("plan bunkering --scenarios-template voyages.csv"),
        asked("plan bunkering --scenarios voyages.csv --simulations 20 --k 2"),
    ]
    compare("counterplan plan", found)
    assert "optimum_of" not in plain
    assert averse["optimum_of"] == "the mean"  # of bounds and exact; value is of the worst quarter


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it tells before it serves; tests/cli/test_serve.py starts it."""
    printed: list[Any] = []
    monkeypatch.setattr(cli_serve.cli, "print_json", printed.append)
    cli_serve._tell(cli_serve.ServeOptions(run=Path("out"), as_json=True), 8765, None)
    compare("counterplan serve", printed)


class TestTheCheckItself:
    """A check that cannot fail is no check."""

    def test_new_key_fails(self) -> None:
        with pytest.raises(AssertionError, match="add these keys"):
            compare("counterplan report", [{"report": "", "bytes": 0, "figures": 0, "new": 0}])

    def test_missing_key_fails(self) -> None:
        with pytest.raises(AssertionError, match="nothing prints them"):
            compare("counterplan report", [{"report": "", "bytes": 0}])

    def test_names_stand_for_one_key(self) -> None:
        assert pattern("changes[].observed.NAME").fullmatch("changes[].observed.dose")
        assert not pattern("changes[].observed.NAME").fullmatch("changes[].observed.dose.more")
        assert not pattern("k").fullmatch("j")
