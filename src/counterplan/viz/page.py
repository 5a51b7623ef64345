"""One self-contained HTML page: a head, sections with a table of contents, and where it comes from.

Nothing is loaded from elsewhere, so the file can be opened from disk, sent and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from counterplan.viz.html import Html, document, element, join, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Panel:
    """A figure, the name of its file, and what it shows in words."""

    name: str
    figure: Figure
    caption: str
    alternative: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    place    its anchor
    heading  above it
    short    its name in the table of contents
    """

    place: str
    heading: str
    short: str
    body: Html


@dataclass(frozen=True)
class Page:
    """What the page says.

    kicker, title, lead  its head
    sources              paragraphs at its foot
    script               runs once the page is there
    """

    kicker: str
    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    sources: Sequence[str] = ()
    script: str = ""


def render(page: Page) -> str:
    """The page as text."""
    css = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    places = (element("a", one.short, href=f"#{one.place}") for one in page.sections)
    head = element(
        "header",
        element("p", page.kicker, class_="kicker"),
        element("h1", page.title),
        *(element("p", text, class_="lead") for text in page.lead),
        element("nav", *places, aria_label="Contents"),
    )
    sections = (
        element("section", element("h2", one.heading), one.body, id=one.place)
        for one in page.sections
    )
    foot = element("footer", *(element("p", source) for source in page.sources))
    body = join(head, element("main", *sections), foot)
    return document(page.title, body, css, page.script)


def panels(shown: Sequence[Panel]) -> Html:
    """Figures side by side, as far as the page is wide."""
    if not shown:
        return Html("")
    pictures = (picture(panel.figure, panel.caption, panel.alternative) for panel in shown)
    return element("div", *pictures, class_="panels")
