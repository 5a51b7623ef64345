"""Documentation must run: every Python and console block of README.md, docs/ and
experiments/README.md, every example.

The blocks of one document share a namespace and a working directory, in the order a reader meets
them. A ``>>>`` block is compared with what it prints; in a console block each ``$ counterplan``
and ``$ python -m experiments`` line must succeed and, where output follows it, print that output
(``...`` matches anything); one that an ``error: `` follows must end with exit code 2 and just that.
``counterplan serve`` is started on a free port, asked for its page, and ended.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from sybil import Document, Example
from sybil.evaluators.doctest import OutputChecker
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from counterplan.cli.support import BAD_INPUT

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "experiments" / "README.md"]
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MATCHING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TIMEOUT_SECONDS = 600
# Pages that make whole runs, reports or figures, or learn several models.
SLOW = ("run-a-cohort", "measurements", "figures", "findings", "plan-my-problem", "send-a-report")
SLOW += ("start", "explain-my-table", "clinical-events", "icu-death", "messy-table", "own-storage")
PAGES = [
    pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in DOCUMENTS
]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def environment() -> dict[str, str]:
    """The test's own environment with its ``counterplan`` first, and output as in a plain file."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    modules = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    return {**os.environ, "PATH": path, "PYTHONPATH": modules, **plain}


def console_steps(source: str) -> Iterator[tuple[str, str]]:
    """A console block's ``$`` commands (continuation lines joined), each with what follows it."""
    for step in re.split(r"^\$ ", source.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        yield command, expected


def serve_once(command: str) -> str | None:
    """Open the page that a server shows, and end it; return what went wrong, if anything."""
    program = subprocess.Popen(
        [*command.split(), "--port", "0", "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    too_late = Timer(TIMEOUT_SECONDS, program.kill)
    too_late.start()
    try:
        lines = []
        for line in program.stdout or ():
            lines.append(line)
            if line == "}\n":
                break
        else:
            return f"$ {command}\n{program.communicate()[1]}"
        with urllib.request.urlopen(json.loads("".join(lines))["url"]) as page:
            return None if b"<html" in page.read() else f"$ {command}\nshows no page"
    finally:
        too_late.cancel()
        program.terminate()
        program.communicate()


def run_console(example: Example) -> str | None:
    """Run a console block's counterplan commands; return what went wrong, if anything."""
    for command, expected in console_steps(example.parsed):
        if not command.startswith(("counterplan ", "python -m experiments ")):
            continue
        if command.split()[1:2] == ["serve"]:
            if problem := serve_once(command):
                return problem
            continue
        finished = subprocess.run(
            command,
            shell=True,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        expected = expected.strip()
        is_mistake = expected.startswith("error: ")
        if finished.returncode != (BAD_INPUT if is_mistake else 0):
            return f"$ {command}\nexit code {finished.returncode}\n{finished.stderr}"
        printed = (finished.stderr if is_mistake else finished.stdout).strip()
        if expected and not OutputChecker().check_output(expected, printed, MATCHING):
            return f"$ {command}\nexpected:\n{expected}\nprinted:\n{printed}"
    return None


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_document_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = Document.parse(
        str(path),
        PythonCodeBlockParser(doctest_optionflags=MATCHING),
        CodeBlockParser("console", run_console),
    )
    document.namespace["__name__"] = "__main__"
    for example in document.examples():
        example.evaluate()


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_no_block_escapes_execution(path: Path) -> None:
    """A fence such as ``py``, ``python title=...`` or ``bash`` would be shown but never run."""
    fences = RawFencedCodeBlockLexer(re.compile(r"(?P<info>[^\n]*)\n"))
    escaped = []
    for region in fences(Document(path.read_text(encoding="utf-8"), str(path))):
        info, source = region.lexemes["info"].strip(), region.lexemes["source"]
        language = re.split(r"[\s{,]", info)[0].lower() if info else ""
        python = language in {"py", "python", "python3", "pycon", "doctest"} or ">>> " in source
        command = re.search(r"^(\$ )?counterplan ", source, flags=re.MULTILINE) is not None
        if (python and info != "python") or (command and info not in {"console", "text"}):
            escaped.append(f"```{info}: {source.strip().splitlines()[0]}")
    assert not escaped, "use ```python or ```console so that the tests run these blocks"


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip(), "an example shows something"


class TestTheCheckItself:
    """A check that cannot fail is no check."""

    def evaluate(self, text: str) -> None:
        document = Document(text, "page.md")
        for parser in (
            PythonCodeBlockParser(doctest_optionflags=MATCHING),
            CodeBlockParser("console", run_console),
        ):
            for region in parser(document):
                document.add(region)
        for example in document.examples():
            example.evaluate()

    def test_namespace_is_shared(self) -> None:
        self.evaluate("```python\nx = 1\n```\n\n```python\n>>> x + 1\n2\n```\n")

    def test_wrong_output_fails(self) -> None:
        with pytest.raises(AssertionError, match="Expected"):
            self.evaluate("```python\n>>> 1 + 1\n3\n```\n")

    def test_exception_fails(self) -> None:
        with pytest.raises(ZeroDivisionError):
            self.evaluate("```python\n1 / 0\n```\n")

    def test_failing_command_fails(self) -> None:
        with pytest.raises(AssertionError, match="exit code"):
            self.evaluate("```console\n$ counterplan no-such-command\n```\n")

    def test_another_mistake_fails(self) -> None:
        self.evaluate("```console\n$ counterplan cases nowhere\nerror: nowhere: ...\n```\n")
        with pytest.raises(AssertionError, match="printed"):
            self.evaluate("```console\n$ counterplan cases nowhere\nerror: here: ...\n```\n")
        with pytest.raises(AssertionError, match="exit code 0"):
            self.evaluate("```console\n$ counterplan --help\nerror: none\n```\n")

    def test_server_that_cannot_start_fails(self) -> None:
        with pytest.raises(AssertionError, match="no-such-run"):
            self.evaluate("```console\n$ counterplan serve no-such-run\n```\n")

    def test_wrong_console_output_fails(self) -> None:
        with pytest.raises(AssertionError, match="printed"):
            self.evaluate("```console\n$ counterplan --help\nsomething it never prints\n```\n")

    def test_console_output_matches_with_ellipsis(self) -> None:
        self.evaluate("```console\n$ counterplan \\\n  --help\n...Usage...\n```\n")
