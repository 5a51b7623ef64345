"""tests/README.md names files and tests: all of them must exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_what_the_page_names_exists(file: str, function: str) -> None:
    path = ROOT / file
    assert path.is_file()
    assert function in functions(path)


def broken_lines() -> list[tuple[str, str]]:
    """File and line of every row under "Broken on purpose"."""
    section = PAGE.split("## Broken on purpose")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(("file", "line"), broken_lines())
def test_the_lines_to_break_are_there(file: str, line: str) -> None:
    source = (ROOT / "src" / "counterplan" / file).read_text(encoding="utf-8")
    assert line.split(" ...")[0] in source


def test_some_lines_were_broken() -> None:
    assert len(broken_lines()) >= 8


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    data = [row for row in rows if not row.rstrip(" |").endswith("test")]
    assert len(data) >= 45
    assert [row for row in data if "`tests/" not in row] == []
