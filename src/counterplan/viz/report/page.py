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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from counterplan import __version__
from counterplan.core.files import read_bytes
from counterplan.core.result import Status
from counterplan.core.validation import counted
from counterplan.errors import FileError
from counterplan.runs.store import Manifest
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
# Inches from which on a figure takes the whole width of the page, or more height of a printed one.
BROAD, TALL = 5.7, 4.0
# Options of a run whose values are ids of cases.
ABOUT_CASES = ("episode",)


@dataclass(frozen=True)
class Pseudonyms:
    """What ids are shown as; `key` None for the ids themselves."""

    key: bytes | None = None

    @property
    def hidden(self) -> bool:
        """Whether ids are replaced."""
        return self.key is not None

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
    """

    k: int | None = None
    cases: int = CASES
    case: str | None = None
    pseudonyms: Pseudonyms = field(default_factory=Pseudonyms)


@dataclass(frozen=True, eq=False)
class Panel:
    """A figure, the name of its file, and what it shows in words."""

    name: str
    figure: Figure
    caption: str
    alternative: str

    @property
    def address(self) -> Markup:
        """The figure itself, as the source of an image: escaped, since it is no text."""
        encoded = quote(svg_bytes(self.figure).decode(), safe=SAFE_IN_ADDRESS)
        return escape(f"data:image/svg+xml,{encoded}")

    @property
    def pixels(self) -> str:
        """How wide it is."""
        return f"{self.figure.get_figwidth() * 96:.0f}"

    @property
    def shape(self) -> str:
        """Classes of the style sheet."""
        width, height = self.figure.get_size_inches()
        classes = {"broad": width > BROAD, "tall": height > TALL}
        return " ".join(name for name, applies in classes.items() if applies)


@dataclass(frozen=True, eq=False)
class Report:
    """The page as text, and its figures."""

    html: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, eq=False)
class Item:
    """A case or scenario that has a section of its own.

    row   its result
    name  how it is called
    rank  its place in the ranking, 0 if it has none
    """

    row: Row
    name: str
    rank: int

    @property
    def anchor(self) -> str:
        """Where its section begins."""
        return f"case-{self.rank}" if self.rank else "case"

    @property
    def title(self) -> str:
        """Above its section."""
        return f"{self.rank}. {self.name}" if self.rank else self.name


class RankingColumn(NamedTuple):
    """A column of the table of all cases.

    cell    what stands in a row of results
    kind    "text"; "number", a pair (to sort by, text); "name", a link to the case's section; or
            "changes", a list of texts
    choose  whether one of its texts can be chosen in a list above the table
    """

    title: str
    cell: Callable[[Row], Any]
    kind: str = "text"
    choose: bool = False


def ranking_table(
    columns: Sequence[RankingColumn], rows: Iterable[Row], anchors: Mapping[str, str], name: str
) -> dict[str, Any]:
    """What `ranking.js` searches, sorts and turns over; the first rows are also written out, for
    browsers that run no scripts.

    anchors  of the sections of cases, by id
    name     the column of ids
    """
    return {
        "headings": [[column.title, column.kind, column.choose] for column in columns],
        "rows": [
            [anchors.get(row[name], ""), *(column.cell(row) for column in columns)] for row in rows
        ],
        "page": PAGE,
        "short": SHORT_TEXT,
    }


def number_cell(value: float | None, text: str) -> list[Any]:
    """A number with its text: JSON has no infinities, so the largest number stands for them."""
    if value is None or math.isnan(value):
        return [None, text]
    return [float(f"{max(-1e300, min(1e300, value)):.9g}"), text]


def options_text(manifest: Manifest) -> str:
    """The options of the run, as one would type them; ids are only counted."""
    texts = []
    for name, value in sorted(manifest.arguments.items()):
        if name in ABOUT_CASES and value:
            texts.append(f"--{name} (for {counted(len(value), 'case')})")
        elif value is True:
            texts.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            written = value if isinstance(value, str) else json.dumps(value)
            texts.append(f"--{name.replace('_', '-')} {written}")
    return " ".join([*texts, f"--seed {manifest.seed}"])


def render(template: str, context: Mapping[str, Any]) -> str:
    """A page from its template."""
    return environment().get_template(template).render(context)


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
    found.filters |= {"counted": counted, "share": share, "advice": _advice, "arrow": arrow}
    found.filters["thousands"] = "{:,}".format
    found.tests["finite"] = lambda value: value is not None and math.isfinite(value)
    folder = files(__package__).joinpath("templates")
    css, script = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "ranking.js")
    )
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    found.globals |= {"css": Markup(css), "script": Markup(script), "script_hash": checksum}
    found.globals |= {"version": __version__, "rows_written": WRITTEN}
    found.globals["options_text"] = options_text
    return found


def arrow(text: str) -> str:
    """Typeset as on paper."""
    return text.replace("->", "→")


def _advice(status: str) -> str:
    return Status(status).advice


def _unbroken(value: Any) -> Any:
    """A number and its percent sign stay on one line."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value
