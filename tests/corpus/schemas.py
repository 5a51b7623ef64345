"""Schemas, as TOML and as JSON."""

from __future__ import annotations

import json

from .case import THEN, Case
from .changes import Change, Swap, absurd, changed, gone, link, pipe, put
from .conftest import SCHEMA

FIT = "fit stays.csv --schema stays.toml -o m.safetensors"
JSON = "fit stays.csv --schema s.json -o m.safetensors"
MANY = [f"[columns.c{number}]\nrole = 'x'\n" for number in range(10_001)]
VASO = SCHEMA[SCHEMA.index("[columns.vaso]") : SCHEMA.index("[columns.died]")]


def toml(change: Change | Swap, says: str) -> Case:
    """The schema of the stays, and what is said of it."""
    return Case(FIT, rf"^error: stays\.toml{says}", changed("stays.toml", change))


def whole(content: str | bytes, says: str) -> Case:
    """Other contents for all of it."""
    return toml(put("stays.toml", content), says)


def plain(document: object, says: str) -> Case:
    """A schema as JSON, or any text in its place."""
    text = document if isinstance(document, str) else json.dumps(document)
    return Case(JSON, rf"^error: s\.json{says}", put("s.json", text))


def column(**given: object) -> dict[str, object]:
    """A schema with one more column, x, that is not right."""
    usual = {"s": {"role": "state"}, "a": {"role": "action", "levels": [0, 1]}}
    return {"columns": {**usual, "x": given}}


CASES = {
    # --- the file -----------------------------------------------------------------------------
    "schema missing": toml(gone("stays.toml"), ": no such file; check the path"),
    "schema a pipe": toml(pipe("stays.toml"), ": is a pipe or a device; give a file with a schema"),
    "schema a device": toml(link("stays.toml", "/dev/zero"), ": is a pipe or a device; give"),
    "schema of 16 GB": toml(absurd("stays.toml", 2**34), ": has 17,.* more than 10,000,000; expec"),
    "schema a model": Case(
        "fit stays.csv --schema ward.safetensors -o m.safetensors",
        r"^error: ward\.safetensors: has the extension '.safetensors', but schema .*; rename",
    ),
    "schema empty": whole("", r": is empty; expected a schema: \[table\] and \[columns.NAME\]"),
    "schema in Latin-1": toml(("points", b"\xb5g"), ", line 8: is not text in UTF-8 .*0xb5.*; sav"),
    "schema with NUL": toml(("points", "po\0ints"), ": is not TOML: .*at line 8.*; correct"),
    "schema no TOML": toml(('"state"', "state"), ": is not TOML: Invalid value .at line 7.*; corr"),
    "schema with a key twice": toml(
        ("low = 0", "low = 0\nlow = 1"), ": is not TOML: .*line 10.*; c"
    ),
    "schema nested too deeply": whole("a = " + "[" * 99_999, ": is nested too deeply; expected"),
    "schema with 5,000 digits": toml(("low = 0", "low = " + "9" * 5000), ": .*thousands of .*; co"),
    # --- [table] ------------------------------------------------------------------------------
    "section unknown": toml(("[table]", "[tabel]"), r", tabel: is no key .*mean 'table'\?.*; use"),
    "combinations misspelt": toml(
        ("[table]", '[table]\ncombinations = "seen"'), r", table\.combinations: 'seen' is none of"
    ),
    "combinations of what there is not": toml(
        ("[table]", '[table]\ncombinations = [["a lot"]]'),
        r", table\.combinations\[0\]: 'a lot' is no value of 'vaso'; use ",
    ),
    "combinations too long": toml(
        ("[table]", "[table]\ncombinations = [[0, 0]]"),
        r", table\.combinations\[0\]: has 2 values; give one for each action column: vaso",
    ),
    "min_count of zero": toml(
        ("[table]", "[table]\nmin_count = 0"), r", table\.min_count: 0 is no whole number from 1 up"
    ),
    "step of zero": toml(("step = 4.0", "step = 0"), r", table\.step: 0 is no number above 0; gi"),
    "step nan": toml(("step = 4.0", "step = nan"), r", table\.step: nan is no number above 0; gi"),
    "step of 1e308": toml(
        ("step = 4.0", "step = 1e308"), r", table\.step: 1e\+308 is too large; give .* 1e\+100"
    ),
    "kind unknown": toml(
        ("step = 4.0", 'kind = "fuzzy"'), r", table\.kind: 'fuzzy' is none of disc"
    ),
    "unit a number": toml(('unit = "h"', "unit = 4"), r", table\.unit: 4 is no text; write for ex"),
    "time is the episode": toml(("step = 4.0", 'time = "stay_id"'), r", table\.time: is the .*; n"),
    # --- [columns] ----------------------------------------------------------------------------
    "no columns": whole("[table]\nstep = 1.0\n", r", columns: is missing; write \[columns.NAME\]"),
    "10,001 columns": whole("".join(MANY), ", columns: 10,001 of them; give at most 10,000"),
    "99 mistakes": whole(
        "".join(MANY[:99]), rf", columns\.c0\.role: 'x' is none of .*{THEN}79 more mi"
    ),
    "no role": toml(('role = "contextual"\n', ""), r", columns\.vent: has no role; add role"),
    "role unknown": toml(
        ('"fixed"', '"fix"'), r", columns\.age\.role: 'fix' is none .*mean 'fixed'"
    ),
    "key unknown": toml(("better", "beter"), r", columns\.sofa\.beter: is no key .*'better'.*; us"),
    "low above high": toml(("low = 0", "low = 99"), r", columns\.sofa\.low: 99 is not .*; exchang"),
    "low infinite": toml(("low = 0", "low = -inf"), r", columns\.sofa\.low: -inf is no .*; correc"),
    "low of 400 digits": toml(
        ("low = 0", "low = " + "9" * 400), r", columns\.sofa\.low: 9+\.\.\. .*; c"
    ),
    "low of -1e308": toml(
        ("low = 0", "low = -1e308"), r", columns\.sofa\.low: -1e\+308 is too far from 0.*; correct"
    ),
    "weight of 1e308": toml(
        ('= "lower"', '= "lower"\nweight = 1e308'),
        r", columns\.sofa\.weight: 1e\+308 is too large; give a number above 0 and at most 1e\+100",
    ),
    "weight of 1e400": toml(
        ('= "lower"', '= "lower"\nweight = 1e400'),
        r", columns\.sofa\.weight: inf is too large; give a number above 0 and at most 1e\+100",
    ),
    "weight of nothing": toml(
        ('= "lower"', '= "lower"\nweight = 0'),
        r", columns\.sofa\.weight: 0 is no number above 0; give",
    ),
    "low a date": toml(("low = 0", "low = 1979-05-27"), r", columns\.sofa\.low: datetime.*; corre"),
    "levels a text": toml(("[0, 1, 2]", '"0, 1"'), r", columns\.vaso\.levels: is a text; give a l"),
    "one level": toml(("[0, 1, 2]", "[0]"), r", columns\.vaso\.levels: has 1 of them; give at lea"),
    "level twice": toml(("[0, 1, 2]", "[0, 1, 1]"), r", columns\.vaso\.levels: 1 occurs twice; ke"),
    "level a word": toml(
        ("[0, 1, 2]", '[0, "one"]'), r", columns\.vaso\.levels: 'one' is not .*; c"
    ),
    "label blank": toml(('["F", "M"]', '["F", " "]'), r", columns\.sex\.labels: ' ' is not .*; co"),
    "action without levels": toml(("levels = [0, 1, 2]\n", ""), r", columns\.vaso: has no .*; lis"),
    "no action": toml((VASO, ""), r', columns: none has role = "action"; give at least one column'),
    "better and fixed": toml(
        ('= "fixed"', '= "fixed"\nweight = 2'), r", columns\.age\.weight: .*; r"
    ),
    "mean of labels": toml(('"M"]', '"M"]\nmissing = "mean"'), r", columns\.sex\.missing: .*; use"),
    "nothing is good": toml(
        ('better = "lower"\n', ""), ": the schema does not say what is good: giv"
    ),
    # --- for something else -------------------------------------------------------------------
    "schema of another table": Case(
        "fit ward.csv --schema stays.toml -o m.safetensors",
        rf"^error: ward\.csv: no column 'stay_id'; correct the header .*{THEN}'map'; cor",
    ),
    "schema of another kind": Case(
        "explain stays.csv -m ward.safetensors --schema stays.toml",
        r"^error: ward\.safetensors: holds a model of discrete states, but those of the .*; give",
    ),
    "schema of other features": Case(
        "explain stays.csv -m sepsis.safetensors --schema stays.toml",
        r"^error: sepsis\.safetensors: does not fit the schema: .*lacks gender.*; give another",
    ),
    # --- JSON ---------------------------------------------------------------------------------
    "json schema cut off": plain('{"columns": {', ", line 1, column 14: is not JSON: .*; correct"),
    "json schema a list": plain([1, 2], r", holds a list; expected \[table\] and \[columns.NAME\]"),
    "json schema nested": plain('{"a":' * 99_999, ": is nested too deeply; expected a schema"),
    "json schema twice": plain('{"a": 1, "a": 2}', ": the key 'a' occurs twice in one .*; keep on"),
    "json role null": plain(column(role=None), r", columns\.x: has no role; add role"),
    "json role a list": plain(
        column(role=["state"]), r", columns\.x\.role: \['state'\] is none of s"
    ),
    "json unit an object": plain(column(role="fixed", unit={}), r", columns\.x\.unit: .*; write"),
    "json levels of lists": plain(
        column(role="action", levels=[[0], [1]]), r", columns\.x\.levels: \[0\] is not one .*; corr"
    ),
    "json levels true and false": plain(
        column(role="action", levels=[True, False]),
        r", columns\.x\.levels: True is not .*; correct",
    ),
    "json name of half a letter": plain(
        '{"columns": {"\\ud800": {"role": "state"}}}', r", columns\.'\\ud800': .*is no name .*; wri"
    ),
    "json 125,000 actions": plain(
        {"columns": {f"a{i}": {"role": "action", "levels": list(range(50))} for i in range(3)}},
        rf', columns: none has role = "state".*{THEN}combine to 125,000 .* more than 10,000; give',
    ),
    "json schema of a GB": Case(
        JSON, r"^error: s\.json: has 1,0.* more than 10,000,000; expected", absurd("s.json", 2**30)
    ),
}
