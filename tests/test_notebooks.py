"""The tutorials of examples/ run from the first cell to the last, and show what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
ENDLESS = 600


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["icu_death", "messy_table", "own_storage"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_output(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_pages(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=ENDLESS, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output.data
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type in ("execute_result", "display_data")
    ]
    pages = [one["text/html"] for one in shown if "text/html" in one]
    assert len(pages) >= 2
    assert not any(" object at 0x" in one.get("text/plain", "") for one in shown)
