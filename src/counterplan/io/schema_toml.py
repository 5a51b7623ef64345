"""Schemas as TOML, with comments on what the reader should look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from counterplan.io.schema import Schema

# Where comments begin, if the line is not longer.
BESIDE = 24
BARE = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f"}


# What is said of a column, by key; the column "" is [table].
Comments: TypeAlias = Mapping[str, Mapping[str, str]]


def schema_toml(schema: Schema, head: str = "", comments: Comments | None = None) -> str:
    """TOML that `read_schema` reads back as an equal schema.

    head      lines of text for the head of the file
    comments  by column and key, written beside the key; a key that is as usual is written where
              there is something to say about it
    """
    notes, document = comments or {}, schema.as_dict()
    table = {"episode": schema.episode, "time": schema.time, **document.get("table", {})}
    lines = [f"# {_clean(line)}".rstrip() for line in head.split("\n")] if head else []
    lines += ["[table]", *_entries(table, notes.get("", {}))]
    for column in schema.columns:
        said = notes.get(column.name, {})
        given = document["columns"][column.name]
        usual = {key: getattr(column, key) for key in said if key not in given}
        lines += ["", f"[columns.{_key(column.name)}]", *_entries({**given, **usual}, said)]
    return "\n".join(lines) + "\n"


def _entries(given: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    for key, value in given.items():
        line = f"{key} = {_value(value)}"
        said = comments.get(key, "")
        yield f"{line:<{BESIDE}}  # {_clean(said)}" if said else line


def _clean(line: str) -> str:
    # What is not printable may not stand in a comment.
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _text(text: str) -> str:
    def escaped(letter: str) -> str:
        if letter in ESCAPES:
            return ESCAPES[letter]
        return letter if letter.isprintable() else f"\\U{ord(letter):08x}"

    return f'"{"".join(map(escaped, text))}"'
