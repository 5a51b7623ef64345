"""What differs from run to run or from machine to machine, replaced by words."""

from __future__ import annotations

import hashlib
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# Values under these keys are times, sizes, processes or versions.
VARYING = {
    "seconds",
    "milliseconds",
    "simulations_per_second",
    "bytes",
    "process",
    "url",
    "job",
    "elapsed",
}
# Values under these keys are what training led to, which differs between processors.
TRAINED = {"validation_log_likelihood", "best_epoch", "lipschitz"}
TEXTS = [
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"in [\d.e+-]+ (ms|s|seconds)\b"), "in <time>"),
    (re.compile(r"\(\d+\.\d MB\)"), "(<size>)"),
    (re.compile(r"\b(python|jax|llvmlite|numba|numpy|polars|scipy) \d+(\.\w+)+"), r"\1 <version>"),
    (re.compile(r"\bcounterplan \d+\.\d+(\.\w+)*"), "counterplan <version>"),
    (re.compile(r"[ \t]+$", flags=re.MULTILINE), ""),
]
DIGITS = 12


def masked_text(text: str, folder: Path) -> str:
    """A text without times, versions, hashes and the folder that it was made in."""
    for path in (folder.resolve(), folder):
        text = text.replace(str(path), "<folder>")
    for pattern, words in TEXTS:
        text = pattern.sub(words, text)
    return text


def masked(value: Any, folder: Path, names: dict[str, str] | None = None) -> Any:
    """A document likewise, with numbers of so many digits that any change to be seen is."""
    known = names if names is not None else hashes(folder)
    if isinstance(value, dict):
        return {str(key): _masked_item(key, item, folder, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, folder, known) for item in value]
    if isinstance(value, str):
        return known.get(value) or masked_text(value, folder)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int):
        return value
    return masked_text(str(value), folder)


def _masked_item(key: Any, item: Any, folder: Path, names: dict[str, str]) -> Any:
    if item is not None and key in VARYING:
        return f"<{key}>"
    if key == "versions" and isinstance(item, dict):
        return dict.fromkeys(item, "<version>")
    return masked(item, folder, names)


def without_training(value: Any) -> Any:
    """What `fit` tells of a neural model: its keys, and the values that do not hang on weights."""
    if not isinstance(value, dict):
        return value
    return {key: "<trained>" if key in TRAINED else item for key, item in value.items()}


def hashes(folder: Path) -> dict[str, str]:
    """What stands for the hash of each file that a case has made."""
    files = (path for path in sorted(folder.glob("*")) if path.is_file())
    found = {}
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found.setdefault(digest, f"<hash of {path.name}>")
    return found


class _Visible(HTMLParser):
    """The texts of a page, also those that stand for pictures."""

    HIDDEN = ("script", "style", "svg")

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.data: list[str] = []
        self._hidden: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in self.HIDDEN:
            self._hidden.append(tag)
            self._is_data = given.get("type") == "application/json"
        elif not self._hidden:
            self.texts += [f"[{given[name]}]" for name in ("alt", "title") if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        if self._hidden and self._hidden[-1] == tag:
            self._hidden.pop()
            self._is_data = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)
        elif self._is_data:
            self.data.append(data)


def page_texts(html: str) -> tuple[list[str], list[str]]:
    """The visible texts of a page, and the JSON documents in it."""
    page = _Visible()
    page.feed(html)
    page.close()
    texts = (" ".join(text.split()) for text in page.texts)
    return [text for text in texts if text], page.data
