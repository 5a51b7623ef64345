"""The page's own files, the document about the API, and faults of the program."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from counterplan.errors import FileError
from counterplan.explorer.app import Service, Settings
from counterplan.runs.task import TaskSpec

from ..viz.report.runs import solved
from .serving import Explorer

PAGE = files("counterplan.explorer") / "page"
NAMES = sorted(entry.name for entry in PAGE.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_the_page(discrete: Explorer, name: str) -> None:
    found = discrete.client.get(f"/page/{name}")
    assert found.status_code == 200
    assert found.content == (PAGE / name).read_bytes()
    kinds = {"js": "text/javascript", "svg": "image/svg+xml"}
    ending = name.rpartition(".")[2]
    assert found.headers["content-type"].startswith(kinds.get(ending, f"text/{ending}"))


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert "index.html" in NAMES
    for name in NAMES:
        text = (PAGE / name).read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'`)>]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        # Markup is only ever built as elements, and styles only ever by classes.
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert banned not in text, name
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.search(r"<script(?![^>]*\bsrc=)", index) is None
    assert "style=" not in index
    assert not re.search(r"\son\w+=", index)


def test_every_module_that_is_imported_is_there() -> None:
    for name in NAMES:
        if name.endswith(".js"):
            text = (PAGE / name).read_text(encoding="utf-8")
            for module, wanted in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', text):
                source = (PAGE / wanted).read_text(encoding="utf-8")
                for one in (part.strip() for part in module.split(",")):
                    exported = rf"export (async )?(function|class|const|let) {one}\b"
                    assert re.search(exported, source), f"{name}: {one} of {wanted}"


def test_the_document_about_the_api(discrete: Explorer) -> None:
    document = discrete.client.get("/api/openapi.json").json()
    assert set(document["paths"]) == {
        f"/api/{name}"
        for name in (
            *("run", "overview", "cases", "case", "what-if"),
            *("scenarios", "scenario", "jobs", "jobs/{job}"),
        )
    }
    for path in document["paths"].values():
        for operation in path.values():
            assert {"400", "401", "404", "413", "422", "429"} <= set(operation["responses"])
    assert discrete.client.get("/docs").status_code == 404


def test_a_fault_is_told_without_its_details(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("secret details")

    monkeypatch.setattr(discrete.service, "about", broken)
    found = discrete.client.get("/api/run")
    assert found.status_code == 500
    assert found.json() == {"error": "the server failed: this is its fault, see its log"}
    assert "secret details" in caplog.text


def test_runs_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        Service(tmp_path / "out", Settings())
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"it has no manifest\.json"):
        Service(tmp_path / "empty", Settings())


def test_a_run_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "runs" / "modules"))
    solved(TaskSpec("own_tasks.reversing", {}, {"suffix": b"!"}), [b"x"], tmp_path / "out")
    with pytest.raises(FileError, match="which the explorer does not know"):
        Service(tmp_path / "out", Settings())


def test_a_damaged_run_is_refused(discrete_out: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(discrete_out, tmp_path / "out")
    (copy / "results" / "part-00000.parquet").write_bytes(b"damaged")
    with pytest.raises(FileError, match="is damaged"):
        Service(copy, Settings())
