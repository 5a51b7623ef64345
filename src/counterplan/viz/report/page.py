"""What every report is made of: the question, pseudonyms, figures, a ranking, and the page itself.

A page is one file that loads nothing from elsewhere, so it can be opened from disk, sent and
printed. Markup and texts are in `templates`; Python hands them values, and every text is escaped.

A pseudonym is the start of a keyed hash (HMAC-SHA256) of an id. Without the key nobody can find out
whose it is by trying ids; with the same key the same id has the same pseudonym everywhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
from markupsafe import Markup, escape

from counterplan import __version__
from counterplan.core.files import read_bytes
from counterplan.core.result import Status
from counterplan.errors import FileError, counted
from counterplan.viz.labels import with_unit
from counterplan.viz.quantity import share
from counterplan.viz.style import svg_bytes

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
# Cases in the table of a report; `counterplan cases` lists all of any run.
MOST_ROWS = 20_000
CASES = 10
# Rows that are written out, and those that a page of the table shows.
WRITTEN, PAGE = 20, 50
# Letters of a text that stays on one line.
SHORT_TEXT = 24
# Keys that are shorter could be tried one after another.
SHORTEST_KEY = 16
# Twelve letters of five bits: of a million ids two share one with a chance of 4 in 10 million.
LETTERS, GROUP = 12, 4
# Ids with fewer letters may well be part of a word that has nothing to do with them.
SHORT_ID = 4
# What need not be encoded in an address within an attribute; the rest of an SVG is.
SAFE_IN_ADDRESS = " ;/?:@&=+$,()!*'"


@dataclass(frozen=True)
class Pseudonyms:
    """What ids are shown as; `key` None for the ids themselves."""

    key: bytes | None = None

    def shown(self, name: str) -> str:
        """What stands for an id."""
        if self.key is None:
            return name
        digest = hmac.new(self.key, name.encode(), hashlib.sha256).digest()
        text = base64.b32encode(digest).decode("ascii")[:LETTERS]
        return "-".join(["P", *(text[i : i + GROUP] for i in range(0, LETTERS, GROUP))])

    def within(self, text: str, name: str) -> str:
        """A text about the case `name`, in which it may be called by its id."""
        if self.key is None or not name:
            return text
        for written in dict.fromkeys((repr(name), repr(name)[1:-1], name)):
            pattern = re.escape(written)
            if len(name) < SHORT_ID:
                pattern = rf"(?<!\w){pattern}(?!\w)"
            text = re.sub(pattern, self.shown(name), text)
        return text


def pseudonyms(key_file: Path | None = None) -> Pseudonyms:
    """Pseudonyms by the key in a file, or by a random one that is kept nowhere."""
    if key_file is None:
        return Pseudonyms(secrets.token_bytes(32))
    key = read_bytes(key_file, "the key of pseudonyms")
    if len(key) < SHORTEST_KEY:
        raise FileError(
            f"{key_file}: has {len(key)} bytes, too few for a key; give at least {SHORTEST_KEY} "
            "random ones"
        )
    return Pseudonyms(key)


@dataclass(frozen=True)
class ReportOptions:
    """What to report.

    k           the budget; None for the largest of the run
    cases       how many cases have a section of their own
    case        one case alone, by its id
    pseudonyms  how cases are called
    actors      who decided at each step of a case, by its id, where that is told
    """

    k: int | None = None
    cases: int = CASES
    case: str | None = None
    pseudonyms: Pseudonyms = field(default_factory=Pseudonyms)
    actors: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """A figure, the name of its file, its kind, and what its caption names."""

    name: str
    figure: Figure
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> Markup:
        """The figure itself, as the source of an image: escaped, since it is no text."""
        encoded = quote(svg_bytes(self.figure).decode(), safe=SAFE_IN_ADDRESS)
        return escape(f"data:image/svg+xml,{encoded}")


@dataclass(frozen=True, eq=False)
class Report:
    """The page as text, and its figures."""

    html: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, eq=False)
class Section:
    """A case or scenario that has a section of its own.

    row    its result
    name   how it is called
    rank   its place in the ranking, 0 if it has none
    steps  rows of its trajectory or decisions
    more   what its template takes besides
    """

    row: Row
    name: str
    rank: int
    steps: Sequence[Row] = ()
    panels: Sequence[Panel] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Where its section begins."""
        return f"case-{self.rank}" if self.rank else "case"

    def panel(self, kind: str, figure: Figure, **facts: Any) -> Panel:
        """A figure about it."""
        return Panel(f"{self.anchor}-{kind}", figure, kind, facts)


class RankingColumn(NamedTuple):
    """A column of the table of all cases.

    cells   one for each row
    kind    "text"; "number", pairs (to sort by, text); "name", links to sections; or "changes",
            lists of texts
    choose  whether one of its texts can be chosen in a list above the table
    """

    title: str
    cells: Sequence[Any]
    kind: str = "text"
    choose: bool = False


def make_report(
    template: str,
    sections: Sequence[Section],
    panels: Sequence[Panel] = (),
    columns: Sequence[RankingColumn] = (),
    **context: Any,
) -> Report:
    """A page about all cases, with sections for some; or, without columns, about one case.

    `ranking.js` searches, sorts and turns over the table of columns; its first rows are also
    written out, for browsers that run no scripts.
    """
    # The sections are those of the first rows.
    links = [one.anchor for one in sections]
    rows = zip_longest(links, *(one.cells for one in columns), fillvalue="")
    ranking = {
        "headings": [[one.title, one.kind, one.choose] for one in columns],
        "rows": [*rows],
        "page": PAGE,
        "short": SHORT_TEXT,
    }
    context |= {"cases": sections, "panels": panels, "single": not columns, "ranking": ranking}
    shown = (*panels, *(panel for section in sections for panel in section.panels))
    return Report(environment().get_template(template).render(context), shown)


def number_cell(value: float | None, text: str) -> list[Any]:
    """A number with its text: JSON has no infinities, so the largest number stands for them."""
    if value is None or math.isnan(value):
        return [None, text]
    return [float(f"{max(-1e300, min(1e300, value)):.9g}"), text]


@cache
def environment() -> Environment:
    """The templates, with what all of them use."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    found.policies["json.dumps_kwargs"] = {
        "allow_nan": False, "ensure_ascii": False, "separators": (",", ":"),
    }  # fmt: skip
    found.filters |= {"counted": counted, "share": share, "arrow": arrow}
    found.filters["advice"] = lambda status: Status(status).advice
    found.filters |= {"thousands": "{:,}".format, "with_unit": with_unit, "median": np.median}
    found.filters["json"] = json.dumps
    found.tests["finite"] = lambda value: value is not None and math.isfinite(value)
    folder = files(__package__).joinpath("templates")
    css, script = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "ranking.js")
    )
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    found.globals |= {"css": Markup(css), "script": Markup(script), "script_hash": checksum}
    found.globals |= {"version": __version__, "rows_written": WRITTEN}
    return found


def arrow(text: str) -> str:
    """Typeset as on paper."""
    return text.replace("->", "→")


def _unbroken(value: Any) -> Any:
    """A number and its percent sign stay on one line."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value
