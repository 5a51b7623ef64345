"""Episodes in and out of CSV, Parquet and JSON; every mistake is a line that says where."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.core.episode import Episode
from counterplan.errors import FileError, InputError
from counterplan.tables.episodes import open_episodes, read_episodes, write_episodes

FORMATS = ("csv", "parquet", "json")
STEPS = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 50))
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: text == text.strip()
)


@given(
    st.dictionaries(IDS, st.lists(STEPS, min_size=1, max_size=5), min_size=1, max_size=5),
    st.sampled_from(FORMATS),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, given_steps: dict[str, list], form: str
) -> None:
    episodes = [Episode(*zip(*steps, strict=True), id=name) for name, steps in given_steps.items()]
    path = tmp_path_factory.mktemp("episodes") / f"table.{form}"
    write_episodes(path, episodes)
    assert read_episodes(path) == episodes
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("form", FORMATS)
def test_same_episodes_same_bytes(tmp_path: Path, form: str) -> None:
    episodes = [Episode([0, 1], [1, 0], id="a"), Episode([2], [0])]
    for name in ("one", "two"):
        write_episodes(tmp_path / f"{name}.{form}", episodes)
    one, two = ((tmp_path / f"{name}.{form}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert [episode.id for episode in read_episodes(tmp_path / f"one.{form}")] == ["a", "1"]


def test_rows_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("t,action,note,episode_id,state\n1,5,x,b,4\n0,1,,a,7\n0,3,y,b,2\n")
    assert read_episodes(path) == [Episode([2, 4], [3, 5], id="b"), Episode([7], [1], id="a")]


@pytest.mark.parametrize(
    "text",
    [
        "episode_id,t,state,action\r\na,0,1,2\r\n\r\na,1,3,0\r\n",
        "\ufeffepisode_id,t,state,action\na,0,1,2\na,1,3,0\n\n\n",
        "\n episode_id , t ,state, action\n a , 0, 1 ,2\n,,,\na,1.0,3.,0.00",
        'episode_id,t,state,action\n"a","0","1","2"\n"a",1,3,-0\n',
        "episode_id,t,state,action\na,1,3,0\na,0,1,2",
    ],
)
def test_lenient_where_the_meaning_is_clear(tmp_path: Path, text: str) -> None:
    path = tmp_path / "TABLE.CSV"
    path.write_bytes(text.encode())
    assert read_episodes(path) == [Episode([1, 3], [2, 0], id="a")]


@pytest.mark.parametrize(
    "kind", [pl.Int8, pl.UInt64, pl.Int64, pl.Float32, pl.Float64, pl.String, pl.Decimal(10, 2)]
)
def test_parquet_types(tmp_path: Path, kind: pl.DataType) -> None:
    path = tmp_path / "table.parquet"
    columns = {"episode_id": [7, 7], "t": [0, 1], "state": [3, 4], "action": [1, 0]}
    pl.DataFrame(columns).with_columns(pl.col("t", "state", "action").cast(kind)).write_parquet(
        path
    )
    assert read_episodes(path) == [Episode([3, 4], [1, 0], id="7")]


def test_json_forms(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    listed = [{"states": [0, 2.0], "actions": [1, "1"]}, {"id": 5, "states": [1], "actions": [0]}]
    for document in (listed, {"episodes": listed, "source": "ward 3"}):
        path.write_text(json.dumps(document))
        assert read_episodes(path) == [Episode([0, 2], [1, 1], id="0"), Episode([1], [0], id="5")]


def test_labels(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("episode_id,t,state,action\na,0,well,rest\na,1,1,walk\n")
    labels = {"state_labels": ["ill", " well"], "action_labels": ["walk", "rest"]}
    assert read_episodes(path, **labels) == [Episode([1, 1], [1, 0], id="a")]


def test_labels_that_are_numbers_are_only_labels(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("episode_id,t,state,action\na,0,1,0\na,1,3,0\n")
    assert read_episodes(path, state_labels=["1", "2", "3"])[0].states.tolist() == [0, 2]
    path.write_text("episode_id,t,state,action\na,0,1,0\na,1,0,0\n")
    with pytest.raises(FileError, match=r"row 3, column 'state': '0' is none of '1', '2', '3'"):
        read_episodes(path, state_labels=["1", "2", "3"])


def test_a_label_of_two_states_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("episode_id,t,state,action\na,0,ill,0\n")
    with pytest.raises(FileError, match="'ill' is none of 0, 1"):
        read_episodes(path, state_labels=["ill", "ill"])


def test_rewards_and_their_places(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        'episode_id,t,state,action,reward\n"a\nb",1,0,0,-2.5\n\n"a\nb",0,1,0,1e-3\nc,0,1,1,0.1\n'
    )
    with open_episodes(path) as table:
        one, two = table
    assert one.rewards is not None
    assert two.rewards is not None
    assert (one.rewards.tolist(), two.rewards.tolist()) == ([0.001, -2.5], [0.1])
    # Lines as an editor numbers them: the first id takes two, and line 4 is blank.
    assert one.rows is not None
    assert two.rows is not None
    assert (one.rows.tolist(), two.rows.tolist()) == ([5, 2], [7])


def test_rewards_of_parquet_keep_every_bit(tmp_path: Path) -> None:
    rewards = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    path = tmp_path / "table.parquet"
    steps = {"episode_id": ["a"] * 200, "t": range(200), "state": [0] * 200, "action": [0] * 200}
    pl.DataFrame({**steps, "reward": rewards}).write_parquet(path)
    with open_episodes(path) as table:
        (one,) = table
    np.testing.assert_array_equal(one.rewards, rewards)


def test_bad_rewards_do_not_matter_to_who_ignores_them(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("episode_id,t,state,action,reward\na,0,1,0,\n")
    assert read_episodes(path) == [Episode([1], [0], id="a")]
    with pytest.raises(FileError, match=r"row 2, column 'reward': is missing"):
        open_episodes(path)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "no episodes given"),
        ([Episode([0], [0], id="a"), Episode([1], [0], id="a")], "two episodes have the id 'a'"),
        ([Episode([0], [0], id="1"), Episode([1], [0])], "two episodes have the id '1'"),
        ([Episode([0], [0], id=" a")], "blanks around it"),
        ([Episode([0], [0], id="")], "is empty"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, episodes: list[Episode], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_episodes(tmp_path / "table.csv", episodes)
    assert list(tmp_path.iterdir()) == []


def test_writing_needs_a_known_extension(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"'\.xlsx', but episode files end in \.csv, \.parquet or"):
        write_episodes(tmp_path / "table.xlsx", [Episode([0], [0])])


def test_large_table(tmp_path: Path) -> None:
    """A hundred thousand rows."""
    path = tmp_path / "table.csv"
    episodes = [Episode(np.arange(20) % 7, np.arange(20) % 3, id=f"p{i}") for i in range(5000)]
    write_episodes(path, episodes)
    assert read_episodes(path) == episodes


HEADER = "episode_id,t,state,action,reward\n"
WHOLE = "is not a whole number from 0 to 2147483647; number the states so, or give their labels"

CSV = {
    "t starts at 1": (
        HEADER + "a,2,1,0,1\na,1,1,0,1\n",
        "row 3, column 't': 1 is the first step of episode 'a'; number the steps from 0 up",
    ),
    "t not whole": (
        HEADER + "a,0,1,0,1\na,0.5,1,0,1\n",
        "row 3, column 't': 0.5 follows 0 in episode 'a'; expected 1: add the missing row",
    ),
    "state too large": (HEADER + "a,0,2147483648,0,1\n", f"column 'state': '2147483648' {WHOLE}"),
    "action empty": (HEADER + "a,0,1,,1\n", "row 2, column 'action': is missing; fill it in"),
    "reward missing": (HEADER + "a,0,1,0,\n", "row 2, column 'reward': is missing; say what the"),
    "place after a long entry": (
        HEADER + '"a\n\nz",0,1,0,1\n"a\n\nz",1,x,0,1\n',
        "row 5, column 'state': 'x'",
    ),
}

ONE = '{"id": "a", "states": [0, 1], "actions": [1, 0]}'
JSON = {
    "not an object": ("[[1]]", "episodes[0]: is no object; expected"),
    "empty episode": ('[{"states": [], "actions": []}]', 'episodes[0]: "states" is empty; an epi'),
    "state boolean": ('[{"states": [true], "actions": [0]}]', "true is neither a number nor"),
    "state not whole": (
        '[{"states": [0, 0.5], "actions": [0, 0]}]',
        f"episodes[0], t=1, column 'state': '0.5' {WHOLE}",
    ),
    "id null": ('[{"id": null}]', "episodes[0]: has the id None; give a name or a whole number"),
    "rewards of some": (
        f'[{{"states": [0], "actions": [0], "rewards": [1]}}, {ONE}]',
        'episodes[1]: has no list "rewards"',
    ),
    "reward is text": (
        '[{"states": [0], "actions": [0], "rewards": ["much"]}]',
        "episodes[0], t=0, column 'reward': 'much' is not a number",
    ),
}


CASES = [
    pytest.param(f"table.{kind}", content, says, id=f"{kind}: {name}")
    for kind, cases in (("csv", CSV), ("json", JSON))
    for name, (content, says) in cases.items()  # type: ignore[attr-defined]
]


def refusal(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        open_episodes(path)
    text = str(caught.value)
    assert all(line.startswith(str(path)) for line in text.splitlines())
    assert "schema" not in text
    return text


@pytest.mark.parametrize(("name", "content", "says"), CASES)
def test_refused(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert says in refusal(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("table.xls", "has the extension '.xls', but tables end in .csv, .tsv"),
        ("table", "has no extension, but tables end in .csv, .tsv"),
    ],
)
def test_unknown_extension(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("episode_id,t,state,action\na,0,0,0\n")
    assert message in refusal(tmp_path / name)
