"""docs/architecture.md: the files that it names are there, and its walks are measured and short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import walks

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_that_is_named_exists() -> None:
    """A name without a folder stands for one in the folder of the name before it."""
    folder, missing = Path(), []
    for name in re.findall(r"`([\w/]+\.(?:py|pyi|md))`", PAGE):
        places = [ROOT / name, ROOT / "src" / "counterplan" / name]
        if "/" in name:
            folder = Path(name).parent
        else:
            places.append(ROOT / "src" / "counterplan" / folder / name)
        missing += [name] if not any(place.exists() for place in places) else []
    assert missing == []


@pytest.mark.slow
def test_walks_are_short_and_the_page_shows_them() -> None:
    found = walks.walks()
    assert {
        job: len(modules) for job, modules in found.items() if len(modules) > walks.JOBS[job]
    } == {}
    assert walks.page_text(found) in PAGE
