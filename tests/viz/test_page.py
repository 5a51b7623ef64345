"""The page is complete in itself, and escapes what it is given."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from counterplan.viz import frontier_figure
from counterplan.viz.case import Case
from counterplan.viz.page import (
    Html,
    Page,
    Panel,
    Section,
    data,
    element,
    facts,
    items,
    join,
    panels,
    render,
)

from .reader import read

SCRIPT = "document.title = 'ran';"


@pytest.fixture(scope="module")
def page(case: Case) -> str:
    panel = Panel("frontier", frontier_figure(case.frontier), "a < b", 'say "what"')
    body = join(element("p", "<script>alert(1)</script>"), panels([panel]))
    sections = [Section("first", "First & more", "First", body)]
    return render(Page("kicker", "Title & <more>", ["lead"], sections, ["source"], SCRIPT))


def test_page_is_self_contained(page: str) -> None:
    reader = read(page)
    css = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\(|@import", css)
    assert "default-src &#x27;none&#x27;" in page
    assert reader.addresses[0] == "#first"
    assert {"header", "main", "footer", "section", "figure", "nav"} <= set(reader.tags)


def test_only_its_own_script_may_run(page: str) -> None:
    checksum = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{checksum}&#x27;" in page
    assert read(page).scripts == [SCRIPT]
    without = render(Page("kicker", "Title", [], []))
    assert "script-src" not in without
    assert read(without).scripts == []


def test_page_escapes_names_and_texts(page: str) -> None:
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<title>Title &amp; &lt;more&gt;</title>" in page
    assert 'alt="say &quot;what&quot;"' in page


def test_elements_escape_all_but_markup() -> None:
    assert element("p", "a<b", Html("<i>c</i>"), title='"') == (
        '<p title="&quot;">a&lt;b<i>c</i></p>'
    )
    assert join("5 %", element("img", alt="&")) == '5&nbsp;%<img alt="&amp;">'
    assert items("<", "b") == "<ul><li>&lt;</li><li>b</li></ul>"
    assert facts(("<", ">"), class_="x") == (
        '<dl class="x"><div><dt>&lt;</dt><dd>&gt;</dd></div></dl>'
    )


def test_values_for_scripts_cannot_end_their_element() -> None:
    values = {"a": ["</script><!-- & \u2028 \u2029 naïve", 1.5, None]}
    text = data(values, "place")
    assert read(f"<p>{text}</p>").data == {"place": values}
    assert text.count("<") == 2
    with pytest.raises(ValueError, match="Out of range"):
        data([float("inf")], "place")
