"""Figures as files, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterplan.errors import InputError
from counterplan.files.atomic import atomic_file
from counterplan.viz import style

PRINT, SCREEN = (".png", ".svg"), ".html"


def save_figure(figure: Any, path: str | Path, title: str = "") -> None:
    """Write a matplotlib figure as .png or .svg, a plotly figure as an .html page that opens from
    disk without a network. `title` is what the page is called."""
    suffix = Path(path).suffix.lower()
    is_print = hasattr(figure, "savefig")
    wanted = PRINT if is_print else (SCREEN,)
    if suffix not in wanted:
        kind = "a matplotlib figure" if is_print else "a plotly figure"
        raise InputError(f"{path}: {kind} is saved as {' or '.join(wanted)}; choose such a name")
    if not is_print:
        from counterplan.viz.interactive.page import figures_page

        name = title or Path(path).stem
        content = figures_page({name: figure}, name).encode()
    else:
        content = style.png_bytes(figure) if suffix == ".png" else style.svg_bytes(figure)
    with atomic_file(path) as file:
        file.write(content)
