"""The page is complete in itself, escapes what it is given, and shows the library's numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import counterplan as cp
from counterplan.viz.case import Case
from counterplan.viz.figures import frontier_figure
from counterplan.viz.html import Html, element, join
from counterplan.viz.page import CloseLook, Content, Panel, Terms, render
from counterplan.viz.quantity import Quantity

NO_END = {"meta", "img"}


class Reader(HTMLParser):
    """Collects tags, addresses and text; fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.places: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [str(given[name]) for name in ("src", "href", "data") if name in given]
        self.places += [str(given["id"])] if "id" in given else []
        assert not any(name.startswith("on") for name in given), given
        if tag not in NO_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def page(case: Case, mdp: cp.TabularMDP) -> str:
    panel = Panel("frontier", frontier_figure(case.frontier), "a < b", 'say "what"')
    content = Content(
        kicker="kicker",
        title="Title & more",
        lead="lead",
        key_numbers=(("cases", "1"),),
        findings=("found < nothing",),
        panels=[panel],
        cases=[case],
        leftover="",
        close_looks=[CloseLook(case, [panel])],
        reading=("read",),
        not_claimed=("not advice",),
        sources=("source",),
    )
    return render(content, Terms(Quantity(), mdp.action_name))


def test_page_is_self_contained(page: str) -> None:
    reader = read(page)
    assert {"script", "link", "iframe", "object", "base"} & set(reader.tags) == set()
    for address in reader.addresses:
        assert address.startswith(("data:image/svg+xml;base64,", "#")), address
    for address in reader.addresses:
        if address.startswith("#"):
            assert address[1:] in reader.places
    assert "://" not in page
    css = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\(|@import", css)
    assert "default-src &#x27;none&#x27;" in page


def test_page_escapes_names_and_texts(page: str) -> None:
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>dose" not in page
    assert "&lt;b&gt;dose &amp; more&lt;/b&gt;" in page
    assert 'alt="say &quot;what&quot;"' in page


def test_page_shows_the_numbers_of_the_library(page: str, case: Case) -> None:
    text = read(page).text
    explanation, write = case.explanation, Quantity().write
    for number in (
        write(explanation.value),
        write(explanation.factual_value),
        Quantity().write_gain(explanation.improvement),
        Quantity().write_range(*case.interval),
        Quantity().write_range(*case.stable_interval),
        write(case.robust.value),
        write(case.robust.outcome_mean),
        write(explanation.outcome_variance**0.5),
        f"{100 * case.probability_better:.1f}\N{NO-BREAK SPACE}%",
    ):
        assert number in text, number
    for one in case.main_changes:
        assert f"step {one.change.t}: " in text


def test_page_has_its_parts(page: str) -> None:
    reader = read(page)
    assert {"header", "main", "footer", "table", "figure", "article"} <= set(reader.tags)
    for words in ("How to read this", "What this does not claim", "Certificate", "source"):
        assert words in reader.text


def test_elements_escape_all_but_markup() -> None:
    assert element("p", "a<b", Html("<i>c</i>"), title='"') == (
        '<p title="&quot;">a&lt;b<i>c</i></p>'
    )
    assert join("5 %", element("img", alt="&")) == '5&nbsp;%<img alt="&amp;">'
