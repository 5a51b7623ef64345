"""HTML that is escaped by construction: texts are quoted unless they are already `Html`."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from counterplan.viz.style import svg_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
