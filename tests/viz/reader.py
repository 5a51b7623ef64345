"""Reads a page as a browser would, and fails on markup that does not match."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

NO_END = {"br", "img", "input", "meta"}


class Reader(HTMLParser):
    """Collects tags, addresses, anchors, texts and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.places: list[str] = []
        self.text = ""
        self.data: dict[str, Any] = {}
        self.scripts: list[str] = []
        self._script: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.addresses += [str(given[name]) for name in ("src", "href", "data") if name in given]
        self.places += [str(given["id"])] if "id" in given else []
        assert not any(name.startswith("on") for name in given), given
        if tag == "script":
            self._script = given
        if tag not in NO_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        elif self._script.get("type") == "application/json":
            self.data[str(self._script["id"])] = json.loads(data)
        else:
            self.scripts.append(data)


def read(page: str) -> Reader:
    """The page, which must be complete in itself."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    reader.text = " ".join(reader.text.split())
    assert {"link", "iframe", "object", "base", "form"} & set(reader.tags) == set()
    for address in reader.addresses:
        assert address.startswith(("data:image/svg+xml,", "#")), address[:80]
        if address.startswith("#"):
            assert address[1:] in reader.places
    assert len(reader.places) == len(set(reader.places))
    return reader
