"""Schemas: what TOML says, there and back, and every slip in it named."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import CounterplanError, FileError, InputError, MistakesError
from counterplan.tables.schema import (
    Column,
    Grid,
    Schema,
    read_schema,
    schema_from_dict,
    schema_toml,
)

from .schema_support import SCHEMA_TOML, answer, write


def read(tmp_path: Path, text: str | bytes) -> Schema:
    return read_schema(write(tmp_path / "schema.toml", text))


def test_reads_what_is_written(tmp_path: Path) -> None:
    schema = read(tmp_path, SCHEMA_TOML)
    assert (schema.episode, schema.time, schema.step, schema.unit) == ("episode_id", "t", 4.0, "h")
    assert [column.name for column in schema.features] == ["age", "sex", "sofa", "map"]
    assert [column.name for column in schema.components] == ["vaso", "fluids", "vent"]
    assert schema.kind == "continuous"
    sofa = schema.of("state")[0]
    assert sofa == Column("sofa", "state", "points", 0.0, 24.0, better="lower")
    assert (sofa.merit, schema.columns[1].merit) == (-1.0, 0.0)
    assert schema.of("action")[0].levels == (0.0, 1.0, 2.0)
    assert schema.of("action")[1].values == (0.0, 1.0)
    assert schema.rewards == schema.finals == ()


def test_json_with_the_same_contents(tmp_path: Path) -> None:
    document = tomllib.loads(SCHEMA_TOML)
    path = write(tmp_path / "schema.json", json.dumps(document))
    assert read_schema(path) == read(tmp_path, SCHEMA_TOML)


def test_weight() -> None:
    assert Column("x", "state", better="higher", weight=2.5).merit == 2.5


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ({"labels": ["a", "b"]}, "discrete"),
        ({"levels": [0, 1, 2]}, "discrete"),
        ({"levels": [0.5, 1]}, "continuous"),
        ({}, "continuous"),
    ],
)
def test_kind_follows_from_the_states(state: dict[str, Any], kind: str) -> None:
    columns = {"s": {"role": "state", **state}, "a": {"role": "action", "levels": [0, 1]}}
    assert schema_from_dict({"columns": columns}).kind == kind


def test_kind_can_be_given() -> None:
    columns = {"s": {"role": "state", "levels": [0, 1]}, "a": {"role": "action", "levels": [0, 1]}}
    schema = schema_from_dict({"table": {"kind": "continuous"}, "columns": columns})
    assert schema.kind == "continuous"
    assert schema_from_dict(schema.as_dict()) == schema


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + SCHEMA_TOML.replace("\n", "\r\n").encode()
    assert read(tmp_path, content) == read(tmp_path, SCHEMA_TOML)


def test_schema_made_in_python_is_checked_too() -> None:
    with pytest.raises(InputError, match=r"columns\.x\.role: 'stat' is none of state"):
        Schema((Column("x", "stat"), Column("a", "action", levels=(0.0, 1.0))))
    with pytest.raises(InputError, match="same name"):
        Schema((Column("x", "state"), Column("x", "state")))


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda text: text == text.strip())
NUMBERS = st.floats(-1e6, 1e6)


@st.composite
def columns_of(draw: st.DrawFn, name: str, role: str) -> Column:
    given: dict[str, Any] = {}
    if role == "action" or draw(st.booleans()):
        count = draw(st.integers(2, 4))
        numbers = st.lists(NUMBERS, min_size=count, max_size=count, unique=True)
        given["levels"] = tuple(draw(numbers))
        if draw(st.booleans()):
            words = st.lists(
                NAMES.filter(lambda text: text[:1].isalpha() and text[:3].lower() not in INFINITE),
                min_size=count,
                max_size=count,
                unique=True,
            )
            given["labels"] = tuple(draw(words))
    elif draw(st.booleans()):
        given |= {"low": draw(NUMBERS), "high": 2e6, "missing": draw(st.sampled_from(POLICIES))}
    if role == "state" and draw(st.booleans()):
        given |= {"better": "lower", "weight": draw(st.floats(1e-3, 1e3))}
    unit = draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
    return Column(name, role, unit=unit, **given)


POLICIES = ("refuse", "carry-forward", "mean")
INFINITE = ("inf", "nan")


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES, min_size=4, max_size=6, unique=True))
    episode, time, *rest = names
    roles = ["state", "action", *(["contextual"] * (len(rest) - 2))]
    columns = [draw(columns_of(name, role)) for name, role in zip(rest, roles, strict=True)]
    unit = draw(st.sampled_from(["", "h", "Tage", 'a "quoted" \\ unit\n']))
    step, increment = draw(st.floats(0.01, 100)), draw(st.sampled_from([1.0, 0.25, 4.0]))
    return Schema(tuple(columns), episode, time, step, increment, unit, "continuous")


@given(schemas())
def test_round_trips(schema: Schema) -> None:
    assert schema_from_dict(json.loads(json.dumps(schema.as_dict()))) == schema
    text = schema_toml(schema, 'Head "with" \\ all\nkinds \x07 of letters', {})
    assert schema_from_dict(tomllib.loads(text)) == schema
    said = {column.name: {"missing": "what\x00 ever\n"} for column in schema.columns}
    assert schema_from_dict(tomllib.loads(schema_toml(schema, "", said))) == schema


GOOD = '[columns.s]\nrole = "state"\n[columns.a]\nrole = "action"\nlevels = [0, 1]\n'
STATE = GOOD.replace('role = "state"', 'role = "state"\n{}')
ACTION = GOOD + "{}\n"

MISTAKES = {
    "columns is a list": ("columns = [1]", "columns: is a list; write [columns.NAME]"),
    "table is a text": ("table = 'x'\n" + GOOD, "table: is a text; write [table]"),
    "unknown key of table": ("[table]\nunits = 'h'\n" + GOOD, "table.units: is no key of a schema"),
    "episode no text": ("[table]\nepisode = 3\n" + GOOD, "table.episode: 3 is no text"),
    "time empty": ("[table]\ntime = ''\n" + GOOD, "table.time: '' is no name"),
    "column no table": ("[columns]\ns = 'state'\n", 'columns.s: is a text; write role = "state"'),
    "missing unknown": (
        STATE.format("missing = 'carry forward'"),
        "columns.s.missing: 'carry forward' is none of refuse, carry-forward, mean, median "
        "(did you mean 'carry-forward'?)",
    ),
    "better unknown": (STATE.format("better = 'low'"), "columns.s.better: 'low' is none of lower"),
    "weight alone": (STATE.format("weight = 2"), "columns.s.weight: counts only with better"),
    "labels of levels": (
        STATE.format("levels = [1, 2]\nlabels = ['a', 'b', 'c']"),
        "columns.s.labels: 3 for 2 levels; name each",
    ),
    "numbers as labels": (
        STATE.format("levels = [1, 2]\nlabels = ['2', '1']"),
        "columns.s.labels: a number as a name could be taken for a level",
    ),
    "bound beside levels": (
        STATE.format("levels = [1, 2]\nlow = 0"),
        "columns.s.low: says nothing beside levels or labels; remove it",
    ),
    "better for an action": (ACTION.format("better = 'lower'"), "columns.a.better: means nothing"),
    "levels of an outcome": (
        GOOD + "[columns.o]\nrole = 'outcome'\nlevels = [0, 1]\n",
        "columns.o.levels: means nothing for role 'outcome'; remove it",
    ),
    "a cost that is better": (
        GOOD + "[columns.r]\nrole = 'cost'\nbetter = 'higher'\n",
        "columns.r.better: means nothing for role 'cost'; remove it",
    ),
    "when it counts": (
        GOOD + "[columns.r]\nrole = 'cost'\nwhen = 'end'\n",
        "columns.r.when: 'end' is none of step, last",
    ),
    "when it is no reward": (
        GOOD + "[columns.r]\nrole = 'outcome'\nwhen = 'last'\n",
        "columns.r.when: means nothing for role 'outcome'; remove it",
    ),
    "what follows": (
        "[table]\nfinal = 'all'\n" + GOOD,
        "table.final: 'all' is none of nothing, val",
    ),
    "episode is a column": (
        GOOD + "[columns.episode_id]\nrole = 'fixed'\n",
        "columns.episode_id: is the episode column of [table]; leave it out here",
    ),
    "name with blanks": (GOOD + "[columns.' b']\nrole = 'fixed'\n", "columns.' b': ' b' is no na"),
    "discrete states, fixed measurement": (
        STATE.format("levels = [0, 1]") + "[columns.age]\nrole = 'fixed'\n",
        "columns.age: needs levels or labels, since the states are discrete",
    ),
    "discrete states, contextual": (
        STATE.format("levels = [0, 1]") + "[columns.v]\nrole = 'contextual'\n",
        "columns.v.role: 'contextual' has no meaning since the states are discrete",
    ),
    "discrete states, labels with a worth": (
        STATE.format("labels = ['a', 'b']\nbetter = 'lower'"),
        "columns.s.better: labels have no worth; add levels",
    ),
    "discrete without levels": (
        "[table]\nkind = 'discrete'\n" + GOOD,
        "columns.s: needs levels or labels, since the states are discrete",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_one_line(name: str, tmp_path: Path) -> None:
    content, says = MISTAKES[name]
    with pytest.raises(FileError) as caught:
        read(tmp_path, content)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(str(tmp_path / "schema.toml"))
    assert says in line


def test_the_good_one_is_good(tmp_path: Path) -> None:
    """What the mistakes above are made from."""
    assert read(tmp_path, GOOD).kind == "continuous"
    assert read(tmp_path, STATE.format("levels = [1, 2]")).kind == "discrete"


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    text = "[table]\nstep = 0\nunits = 'h'\n[columns.x]\nrole = 'stat'\n[columns.y]\nlow = 3\n"
    with pytest.raises(MistakesError) as caught:
        read(tmp_path, text)
    lines = str(caught.value).splitlines()
    assert [line.partition(", ")[2].partition(":")[0] for line in lines] == [
        "table.step",
        "table.units",
        "columns.x.role",
        "columns.y",
    ]


def test_an_absurd_name() -> None:
    with pytest.raises(MistakesError, match=r"\(2,002 characters\) is no name"):
        schema_from_dict({"columns": {"x" * 2_000: {"role": "state"}}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=10,
)
KEYS = st.sampled_from(["role", "unit", "low", "missing", "better", "levels", "labels", "?"])
ROLES = st.sampled_from(["state", "fixed", "action", "reward", "ignore", "contextual", "outcome"])


@given(
    st.dictionaries(
        st.sampled_from(["table", "columns", "x"]),
        st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["episode", "time", "step", "kind"]),
            JSON | st.dictionaries(KEYS, JSON | ROLES),
        )
        | JSON,
    )
    | JSON
)
def test_anything_is_a_schema_or_refused(document: Any) -> None:
    found = answer(lambda: schema_from_dict(document))
    if isinstance(found, CounterplanError):
        assert str(found).startswith("schema, ")
    else:
        assert schema_from_dict(found.as_dict()) == found


def test_a_unit_that_the_name_ends_with_is_not_said_beside_it() -> None:
    columns = {
        "glucose (mmol/L)": {"role": "state", "unit": "mmol/L", "better": "lower"},
        "insulin [U]": {"role": "action", "unit": "U", "levels": [0, 4]},
        "diet": {"role": "action", "unit": "kcal", "levels": [1000, 2000]},
    }
    schema = read_schema({"columns": columns})
    assert schema.outcome_in_words == "−glucose (mmol/L)"
    grid = Grid(schema.of("action"))
    assert grid.name(1) == "insulin [U] 0, diet 2000 kcal"
    assert grid.change(0, 3) == "insulin [U] 0 -> 4, diet 1000 -> 2000 kcal"
    assert [one.place("4 U") for one in schema.of("action")[:1]] == [1]


@pytest.mark.parametrize("given", [{"columns": {}}, '[columns.x]\nrole = "state"', 3])
def test_a_schema_made_of_something_else_is_told_how(given: Any) -> None:
    with pytest.raises(InputError, match=r"a Schema is made of columns, got .*read_schema"):
        Schema(given)
