"""One self-contained HTML page: a head, sections with a table of contents, and where it comes from.

Nothing is loaded from elsewhere, so the file can be opened from disk, sent and printed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from counterplan.viz.style import svg_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# ----------------------------------------------------------------------------------------------
# HTML that is escaped by construction: texts are quoted unless they are already `Html`.

WITHOUT_END = {"br", "img", "input", "meta"}
# What need not be encoded in an address within an attribute; the rest of an SVG is.
PLAIN = " ;/?:@&=+$,()!*'"
# Inches from which on a figure takes the whole width of the page.
ONE_COLUMN = 5.7
# Inches from which on a figure takes more of the height of a printed page.
TALL = 4.0


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str) -> Html:
    """<tag name="value">children</tag>; `class_` stands for the reserved word."""
    inside = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
    )
    if tag in WITHOUT_END:
        return Html(f"<{tag}{inside}>")
    return Html(f"<{tag}{inside}>{join(*children)}</{tag}>")


def join(*children: str) -> Html:
    """Several pieces as one; a number and its percent sign stay on one line."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(child).replace(" %", "&nbsp;%")
            for child in children
        )
    )


def items(*texts: str) -> Html:
    """A plain list."""
    return element("ul", *(element("li", text) for text in texts))


def data(value: Any, place: str) -> Html:
    """Plain values for a script of the page; no text in them can end the element early."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return element("script", Html(text), type="application/json", id=place)


def facts(*pairs: tuple[str, str], class_: str) -> Html:
    """A list of names with their values."""
    rows = (join(element("dt", name), element("dd", value)) for name, value in pairs)
    return element("dl", *(element("div", row) for row in rows), class_=class_)


def picture(figure: Figure, caption: str, alternative: str) -> Html:
    """A figure inside the page itself; `alternative` tells it to those who cannot see it."""
    encoded = quote(svg_bytes(figure).decode(), safe=PLAIN)
    width, height = figure.get_size_inches()
    image = element(
        "img",
        src=f"data:image/svg+xml,{encoded}",
        alt=alternative,
        style=f"width: {width * 96:.0f}px",
    )
    kinds = [*(["broad"] if width > ONE_COLUMN else []), *(["tall"] if height > TALL else [])]
    kind = {"class_": " ".join(kinds)} if kinds else {}
    return element("figure", image, element("figcaption", caption), **kind)


def document(title: str, body: Html, css: str, script: str = "") -> str:
    """A whole page that needs nothing from elsewhere; `script` runs at its end."""
    allowed = ["default-src 'none'", "img-src data:", "style-src 'unsafe-inline'"]
    allowed += ["base-uri 'none'", "form-action 'none'"]
    if script:
        checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        allowed.append(f"script-src 'sha256-{checksum}'")
        body = join(body, element("script", Html(script)))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # The browser itself refuses anything that is not in the file, and any script but this one.
        element("meta", http_equiv="Content-Security-Policy", content="; ".join(allowed)),
        element("title", title),
        element("style", Html(css)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en") + "\n"


# ----------------------------------------------------------------------------------------------


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
