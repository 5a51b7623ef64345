"""Cases played: commands run as `python -m counterplan`, and what they print and write."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .masks import masked, masked_text, page_texts, without_training

WIDTH = "120"
MOST_ROWS = 200
# What a step of a case has found, ready to be compared.
Step = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """Inputs made in an empty folder, then steps under their names."""

    make: Callable[[], None]
    steps: dict[str, Step]


def play(case: Case, folder: Path) -> dict[str, Any]:
    """What all steps of a case have found."""
    with contextlib.chdir(folder), _environment():
        case.make()
        return {name: step(folder) for name, step in case.steps.items()}


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Terminals of the same width, without colours."""
    before = dict(os.environ)
    os.environ.update({"COLUMNS": WIDTH, "NO_COLOR": "1", "MPLBACKEND": "Agg"})
    for name in ("COUNTERPLAN_TOKEN", "FORCE_COLOR"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# --- Commands ---------------------------------------------------------------------------------


def _call(line: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command; in this process, which has loaded everything."""
    given, said, noted = sys.argv, io.StringIO(), io.StringIO()
    own = "python -m experiments "
    module = "experiments" if line.startswith(own) else "counterplan"
    sys.argv = [module, *shlex.split(line.removeprefix(own))]
    code: Any = 0
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(noted),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = given
    return code, said.getvalue(), noted.getvalue()


def command(line: str, *, trained: bool = False) -> Step:
    """A command as it is: exit code and all that it prints, parsed if that is JSON."""

    def step(folder: Path) -> dict[str, Any]:
        code, said, noted = _call(line)
        found: dict[str, Any] = {"code": code}
        if "--json" in line.split() and code == 0:
            document = json.loads(said)
            found["json"] = masked(without_training(document) if trained else document, folder)
        elif said:
            found["stdout"] = masked_text(said, folder).splitlines()
        if noted and not trained:
            found["stderr"] = masked_text(noted, folder).splitlines()
        return found

    return step


def commands(*lines: str, trained: bool = False) -> dict[str, Step]:
    """Several of them, each under its own line."""
    return {line: command(line, trained=trained) for line in lines}


def then(make: Callable[[], None]) -> Step:
    """Something to be made between two commands."""

    def step(folder: Path) -> None:
        make()

    return step


# --- Files ------------------------------------------------------------------------------------


def listing(name: str) -> Step:
    """The names of all files in a folder."""

    def step(folder: Path) -> list[str]:
        paths = Path(name).rglob("*")
        return sorted(path.relative_to(name).as_posix() for path in paths if path.is_file())

    return step


def text_file(name: str) -> Step:
    """Lines of a text."""
    return lambda folder: masked_text(Path(name).read_text("utf-8"), folder).splitlines()


def json_file(name: str) -> Step:
    """A JSON document."""
    return lambda folder: masked(json.loads(Path(name).read_text("utf-8")), folder)


def table_file(name: str) -> Step:
    """A table of Parquet or CSV: its columns, and its rows but for those beyond the first."""

    def step(folder: Path) -> dict[str, Any]:
        import polars as pl

        path = Path(name)
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        rows = frame.head(MOST_ROWS)
        return {
            "columns": {column: str(kind) for column, kind in frame.schema.items()},
            "rows": frame.height,
            "values": {one: masked(rows[one].to_list(), folder) for one in rows.columns},
        }

    return step


def tables(name: str, *parts: str) -> dict[str, Step]:
    """The tables of a run."""
    return {f"{name}/{part}": table_file(f"{name}/{part}/part-00000.parquet") for part in parts}


def tensors(name: str, *, trained: bool = False) -> Step:
    """A model file: what it says of itself, and its arrays."""

    def step(folder: Path) -> dict[str, Any]:
        from safetensors import safe_open

        found: dict[str, Any] = {}
        with safe_open(name, framework="numpy") as file:
            about = {key: _parsed(value) for key, value in sorted(file.metadata().items())}
            for key in sorted(file.keys()):
                array = file.get_tensor(key)
                found[key] = {"shape": list(array.shape), "dtype": str(array.dtype)}
                if not trained and array.size <= MOST_ROWS:
                    found[key]["values"] = masked(array.tolist(), folder)
        told = _shape(about) if trained else masked(about, folder)
        return {"about": told, "arrays": found}

    return step


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _shape(value: Any) -> Any:
    """The keys of a document whose numbers hang on trained weights."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return type(value).__name__


def page(name: str) -> Step:
    """The visible text of a report, and the table that it searches and sorts."""

    def step(folder: Path) -> dict[str, Any]:
        texts, documents = page_texts(Path(name).read_text("utf-8"))
        return {
            "text": [masked_text(text, folder) for text in texts],
            "data": [masked(json.loads(text), folder) for text in documents],
        }

    return step


# --- The explorer -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """A question to the explorer: an address, and what is posted there if anything is."""

    address: str
    body: dict[str, Any] | None = None
    is_job: bool = False


def explorer(run: str, *questions: Ask) -> Step:
    """What `counterplan serve` answers, one question after the other."""

    def step(folder: Path) -> dict[str, Any]:
        with _served(run) as url:
            return {_words(one): masked(_answered(url, one), folder) for one in questions}

    return step


def _words(question: Ask) -> str:
    if question.body is None:
        return question.address
    return f"{question.address} {json.dumps(question.body)}"


@contextlib.contextmanager
def _served(run: str) -> Iterator[str]:
    arguments = ["serve", run, "--port", "0", "--json", "--workers", "1"]
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-m", "counterplan", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            while not said.endswith("}\n"):
                line = process.stdout.readline()
                assert line, f"the explorer has ended after {said!r}"
                said += line
            yield json.loads(said)["url"]
        finally:
            process.terminate()


def _answered(url: str, question: Ask) -> dict[str, Any]:
    found = _asked(url, question.address, question.body)
    if not question.is_job:
        return found
    end = time.monotonic() + 60.0
    name = found["json"]["job"]
    while True:
        job = _asked(url, f"api/jobs/{name}", None)
        if job["json"]["state"] in ("done", "failed", "cancelled"):
            return job
        assert time.monotonic() < end, job
        time.sleep(0.02)


def _asked(url: str, address: str, body: dict[str, Any] | None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + address, content, {"content-type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return {"status": answer.status, "json": json.load(answer)}
    except urllib.error.HTTPError as problem:
        with problem:
            return {"status": problem.code, "json": json.load(problem)}
