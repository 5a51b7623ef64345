"""JSON Schema files for programs: `python tools/json_schemas.py` writes docs/schemas.

A file for what each command prints with --json (`counterplan.cli.documents`), for the files that
people write (schemas of tables, problems of storages, configurations of events), and the explorer's
OpenAPI document; and the tables of keys in docs/json.md. tests/cli/test_json.py compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from counterplan.cli.documents import DOCUMENTS
from counterplan.domains.problems import described_parameters
from counterplan.domains.storage_file import KINDS, NEEDED, PARTS
from counterplan.explorer.app import Service, Settings, create_app
from counterplan.explorer.security import LOOPBACK, Access
from counterplan.tables.events import DURATION, Config
from counterplan.tables.schema import CHOICES, KEYS, TABLE, Column, Schema

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, PAGE = DOCS / "schemas", DOCS / "json.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Json = dict[str, Any]


def printed(command: str) -> Json:
    """What a command prints."""
    kinds = DOCUMENTS[command]
    kind = kinds[0]
    for other in kinds[1:]:
        kind = kind | other
    found = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
    return {"$schema": DIALECT, "title": f"counterplan {command} --json", **_plain(found)}


def _plain(value: Any) -> Any:
    """Without pydantic's titles and defaults, which say nothing here."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _plain(one) for key, one in value.items() if key not in ("title", "default")}
    if "properties" in value:
        kept["properties"] = {name: _plain(one) for name, one in value["properties"].items()}
    return kept


def _entries(kind: type, names: Sequence[str]) -> Json:
    """Fields of a dataclass as properties, with what its docstring says of them."""
    hints, meanings = get_type_hints(kind), described_parameters(getdoc(kind) or "")
    found = {}
    for name in names:
        one = _plain(TypeAdapter(hints[name]).json_schema())
        kinds = [each for each in one.pop("anyOf", ()) if each != {"type": "null"}]  # TOML has none
        one |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
        if kind in (Schema, Column) and name in CHOICES:
            one = {"enum": list(CHOICES[name])}
        found[name] = {**one, "description": meanings[name]} if name in meanings else one
    return found


def _object(properties: Json, required: list[str] | None = None) -> Json:
    more = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **more, "additionalProperties": False}


def _named(one: Json) -> Json:
    return {"type": "object", "minProperties": 1, "additionalProperties": one}


def table_schema() -> Json:
    """The schema of a table (.toml)."""
    roles = [
        _object({**_entries(Column, names), "role": {"const": role}}, ["role"])
        for role, names in KEYS.items()
    ]
    table = _entries(Schema, TABLE)
    table["dates"]["anyOf"][1] = {"enum": ["dmy", "mdy"]}
    both = {"table": _object(table), "columns": _named({"oneOf": roles})}
    title = "schema of a table of episodes"
    return {"$schema": DIALECT, "title": title, **_object(both, ["columns"])}


def problem() -> Json:
    """A problem of storages (.toml)."""
    parts: Json = {}
    for name, kind in PARTS.items():
        own = [one.name for one in fields(kind) if one.name != "name"]
        parts[name] = _named(_object(_entries(kind, own), list(NEEDED.get(kind, ()))))
    processes = [
        _object(
            {"kind": {"const": kind}, "names": {"type": "array", "items": {"type": "string"}}}
            | {name: {} for name in (*needed, *optional)},
            ["kind", *needed],
        )
        for kind, (_, needed, optional) in KINDS.items()
    ]
    text = {"type": "string"}
    top = {
        "title": text,
        "horizon": {"type": "integer", "minimum": 1},
        "sense": {"enum": ["min", "max"]},
        "step": text,
        "unit": text,
        "process": {"oneOf": processes},
        **parts,
    }
    title = "problem of storages"
    return {"$schema": DIALECT, "title": title, **_object(top, ["storages", "flows"])}


def events() -> Json:
    """How clinical events become episodes (.toml)."""
    found = _plain(Config.model_json_schema())
    length = {"type": "string", "pattern": f"^{DURATION.pattern}$"}
    for kind, name in (("Episodes", "window"), ("Feature", "carry"), ("Outcome", "within")):
        found["$defs"][kind]["properties"][name] = length
    return {"$schema": DIALECT, "title": "how events become episodes", **found}


def openapi() -> Json:
    """What the explorer is asked and answers, whichever run it shows."""
    service = Service.__new__(Service)
    service.settings = Settings(access=Access(LOOPBACK, 0, None))
    return create_app(service).openapi()


def every() -> dict[str, Json]:
    """All documents by the names of their files."""
    written = {f"{name}.json": printed(name) for name in DOCUMENTS}
    own = {"table-schema.json": table_schema(), "problem.json": problem(), "events.json": events()}
    return {**written, **own, "openapi.json": openapi()}


def text_of(document: Json) -> str:
    """As the file has it."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


# --- The tables in docs/json.md -------------------------------------------------------------------


def tables() -> str:
    """What each command prints, and the keys of explanations, which are part of several."""
    lines = ["| command | prints | file |", "|---|---|---|"]
    for command in DOCUMENTS:
        kinds = "; ".join(
            (getdoc(one) or "").splitlines()[0].rstrip(".") for one in DOCUMENTS[command]
        )
        lines.append(
            f"| `counterplan {command}` | {kinds} | [{command}.json](schemas/{command}.json) |"
        )
    schema = printed("explain")
    rows = [*_keys(schema["$defs"]["Explanation"], schema["$defs"], {}, "")]
    rows.append(("outcome:NAME", "what the table says of the episode besides: outcome:died"))
    lines += ["", "## An explanation", "", "Part of what `explain` and `cases` print.", ""]
    return (
        "\n".join([*lines, "| key | meaning |", "|---|---|"])
        + "".join(f"\n| `{path}` | {text} |" for path, text in rows)
        + "\n"
    )


def _keys(schema: Json, defs: Json, seen: dict[str, str], above: str) -> Iterator[tuple[str, str]]:
    """Paths of keys with their meanings; what was told of already is named by its first place."""
    for name, one in schema["properties"].items():
        below = [*_below(one, defs, seen, f"{above}{name}")]
        link = f"; {below.pop()[1]}" if below and not below[-1][0] else ""
        yield f"{above}{name}", f"{one['description']}{link}"
        yield from below


def _below(one: Json, defs: Json, seen: dict[str, str], path: str) -> Iterator[tuple[str, str]]:
    for each in one.get("anyOf", [one]):
        if each.get("type") == "array":
            yield from _below(each["items"], defs, seen, f"{path}[]")
        elif isinstance(inner := each.get("additionalProperties"), dict):
            yield from _below(inner, defs, seen, f"{path}.NAME")
        elif "$ref" in each:
            name = each["$ref"].rpartition("/")[2]
            if name in seen:
                yield "", f"each is {seen[name]}"
            else:
                seen[name] = f"as `{path}`"
                yield from _keys(defs[name], defs, seen, f"{path}.")


def page() -> str:
    """docs/json.md with its tables."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, document in every().items():
        (FOLDER / name).write_text(text_of(document), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
