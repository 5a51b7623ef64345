"""The page's own files, the document about the API, faults of the program, and many clients."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from counterplan.errors import FileError
from counterplan.explorer.app import Service, Settings
from counterplan.runs.question import Question
from counterplan.runs.task import TaskSpec

from ..runs.models import small_scm
from ..viz.report.runs import explain_run, solved
from .long_episodes import long_episodes
from .serving import Explorer, serving

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
            for found in operation["responses"].values():
                assert "$ref" in found["content"]["application/json"]["schema"]
    told = document["components"]["schemas"]
    assert told["Case"]["properties"]["fixed"]["description"] == "steps at which nothing can change"
    assert told["Case"]["additionalProperties"] is False
    assert discrete.client.get("/docs").status_code == 404


def test_a_fault_is_told_without_its_details(
    discrete: Explorer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("secret details")

    monkeypatch.setattr(discrete.service.items, "about", broken)
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


CLIENTS = 8


def test_answers_are_not_mixed_up(continuous: Explorer, discrete: Explorer) -> None:
    for explorer in (continuous, discrete):
        lines = explorer.get("cases", limit=200)["lines"]
        names = [line["id"] for line in lines if line["steps"] > 2 and line["status"] != "failed"]
        questions = [
            {"id": name, "edits": [{"t": t, "action": action}]}
            for name in names[:3]
            for t in (0, 1)
            for action in (0, 2)
        ]
        alone = [_without_time(explorer.post("what-if", question)) for question in questions]

        def ask(
            number: int, explorer: Explorer = explorer, asked: list[Any] = questions
        ) -> list[Any]:
            client, found = explorer.another(), []
            for place in range(len(asked)):
                # Everyone begins elsewhere.
                question = asked[(place + 7 * number) % len(asked)]
                found.append(_without_time(client.post("/api/what-if", json=question).json()))
            shift = (7 * number) % len(asked)
            return found[-shift:] + found[:-shift] if shift else found

        with ThreadPoolExecutor(CLIENTS) as pool:
            for found in pool.map(ask, range(CLIENTS)):
                assert found == alone


def test_everyone_is_served(continuous: Explorer) -> None:
    """Each client solves something of its own, all at the same time."""
    lines = continuous.get("cases", limit=200)["lines"]
    name = next(line["id"] for line in lines if line["steps"] >= 5)
    clients = [continuous.another() for _ in range(6)]
    for client in clients:
        client.get("/api/run")

    def solve(number: int) -> Any:
        wish = {
            "kind": "solve",
            "id": name,
            "k": 2,
            "fixed": [number % 3],
            "forbidden": [number % 2],
        }
        return continuous.finished(wish, clients[number])

    with ThreadPoolExecutor(len(clients)) as pool:
        found = list(pool.map(solve, range(len(clients))))
    assert [job["state"] for job in found] == ["done"] * len(clients)
    for number, job in enumerate(found):
        changes = job["solved"]["answer"]["changes"]
        assert all(change["t"] != number % 3 for change in changes)
        assert all(change["alternative"] != number % 2 for change in changes)


def _without_time(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "milliseconds"}


@pytest.mark.slow  # searches run until their limits
def test_searches_of_a_thousand_steps_end_with_an_answer(tmp_path: Path) -> None:
    """A worker that does not keep to its limit is ended without one."""
    scm = small_scm()
    episodes = long_episodes(scm, 1, 1_000)
    out = explain_run(tmp_path, scm, episodes, Question((1,), nodes=10)).folder
    with serving(out) as explorer:
        for k in (2, 20):
            asked = {"kind": "solve", "id": "long 0", "k": k, "seconds": 2.0}
            found = explorer.finished(asked)
            assert (found["state"], found["error"]) == ("done", None)
            answer = found["solved"]["answer"]
            assert answer["status"] == "limit"
            assert float(answer["bound"]) >= float(answer["value"])
