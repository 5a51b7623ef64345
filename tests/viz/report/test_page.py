"""A page is complete in itself, escapes what it is given, and hides names if asked to."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import FileError
from counterplan.runs.run import Run
from counterplan.viz import cohort_figure
from counterplan.viz.report import report
from counterplan.viz.report.page import (
    Panel,
    Pseudonyms,
    ReportOptions,
    environment,
    number_cell,
    pseudonyms,
)
from counterplan.viz.style import svg_bytes

from ..reader import read

KEY = b"sixteen bytes or more"


def test_a_page_is_self_contained_and_runs_only_its_own_script(voyages: Run) -> None:
    page = report(voyages, ReportOptions(cases=1)).html
    reader = read(page)
    css = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\(|@import", css)
    assert "default-src &#39;none&#39;" in page
    assert reader.addresses[0] == "#summary"
    assert {"header", "main", "footer", "section", "figure", "nav"} <= set(reader.tags)
    (script,) = reader.scripts
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{checksum}&#39;" in page
    alone = report(voyages, ReportOptions(case="plain")).html
    assert "script-src" not in alone
    assert read(alone).scripts == []


def rendered(template: str, **values: object) -> str:
    return environment().from_string(template).render(**values)


def test_texts_are_escaped_and_percent_signs_stay_with_their_numbers() -> None:
    assert rendered("<p>{{ text }}</p>", text="<script>") == "<p>&lt;script&gt;</p>"
    assert rendered("{{ text }}", text="5 %") == "5\u00a0%"
    facts = {"feature": 'say "<what>"', "last": [1.0, 2.0]}
    panel = Panel("case-1", cohort_figure([0.5]), "trajectory", facts)
    figure = rendered('{% include "figures.html" %}', panels=[panel])
    assert 'alt="say &#34;&lt;what&gt;&#34; ends at 1 as' in figure
    assert "<figcaption>say &#34;&lt;what&gt;&#34; as it was" in figure
    (address,) = read(figure).addresses
    svg = unquote(address.removeprefix("data:image/svg+xml,"))
    assert svg.encode() == svg_bytes(panel.figure)


def test_values_for_scripts_cannot_end_their_element() -> None:
    values = {"a": ["</script><!-- & \u2028 \u2029 naïve", 1.5, None]}
    text = rendered(
        '<script type="application/json" id="place">{{ values|tojson }}</script>', values=values
    )
    assert read(f"<p>{text}</p>").data == {"place": values}
    assert text.count("<") == 2
    with pytest.raises(ValueError, match="Out of range"):
        rendered("{{ values|tojson }}", values=[float("inf")])
    assert number_cell(float("inf"), "inf") == [1e300, "inf"]
    assert number_cell(float("nan"), "nan") == [None, "nan"]


def test_ids_are_shown_as_they_are_unless_asked() -> None:
    assert Pseudonyms().shown("bed <7>") == "bed <7>"
    assert Pseudonyms().within("bed <7>: is wrong", "bed <7>") == "bed <7>: is wrong"


def test_a_key_decides(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    first, again = pseudonyms(tmp_path / "key"), pseudonyms(tmp_path / "key")
    assert first.shown("ann") == again.shown("ann")
    assert first.shown("ann") != first.shown("bob")
    # Written down once: a later version must not call anyone otherwise.
    assert first.shown("ann") == "P-U47X-IVVU-QR2X"
    assert Pseudonyms(b"another key, also long").shown("ann") != first.shown("ann")


def test_random_keys_differ() -> None:
    assert pseudonyms().shown("ann") != pseudonyms().shown("ann")


@pytest.mark.parametrize("content", [b"", b"too short"])
def test_keys_that_could_be_guessed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(FileError, match="key"):
        pseudonyms(tmp_path / "key")


@given(st.text(min_size=4, max_size=12))
def test_nothing_of_a_long_id_is_left(name: str) -> None:
    names = Pseudonyms(KEY)
    text = names.within(f"episode {name!r}: {name} has{name}state", name)
    assert name not in text.replace(names.shown(name), "")


def test_short_ids_do_not_spoil_other_words() -> None:
    names = Pseudonyms(KEY)
    assert names.within("episode 'a': a state is bad", "a").endswith(" state is bad")
    assert names.within("row 12, state 1", "1") == f"row 12, state {names.shown('1')}"
