"""The gallery shows the pictures that its code makes, and they are small."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "figures.md").read_text(encoding="utf-8")
PICTURES = DOCS / "images" / "figures"


def test_every_picture_is_made_shown_and_small() -> None:
    made = re.findall(r'save_figure\(figure, "([\w-]+\.png)"\)', PAGE)
    shown = re.findall(r"!\[[^\]]{20,}\]\(images/figures/([\w-]+\.png)\)", PAGE)
    stored = sorted(path.name for path in PICTURES.iterdir())
    assert sorted(made) == sorted(shown) == stored
    for name in stored:
        content = (PICTURES / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 80_000, "tools/draw_gallery.py makes them small"


def test_every_figure_is_in_the_gallery() -> None:
    from counterplan import viz

    functions = {name for name in viz.__all__ if name.endswith("_figure")} - {"save_figure"}
    assert set(re.findall(r"cp\.viz\.(\w+_figure)\(", PAGE)) - {"save_figure"} == functions
