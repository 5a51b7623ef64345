"""Episodes from every kind of file, whole or a few at a time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import FileError, MistakesError
from counterplan.runs.explain import open_cohort
from counterplan.tables import write_episodes
from counterplan.tables.parts import Recorded, episodes_from_bytes
from counterplan.tables.schema import schema_from_dict

from .models import SCHEMA, continuous_episodes, discrete_episodes, small_mdp, small_scm


def same(one: list[Recorded], two: list[Recorded]) -> bool:
    return len(one) == len(two) and all(
        a.episode == b.episode
        and (a.times == b.times).all()
        and (a.filled, a.outcomes) == (b.filled, b.outcomes)
        for a, b in zip(one, two, strict=True)
    )


def plain(recorded: list[Recorded]) -> list[Recorded]:
    return [one._replace(filled=0, outcomes=()) for one in recorded]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
@pytest.mark.parametrize("labelled", [True, False])
def test_discrete_files(tmp_path: Path, suffix: str, labelled: bool) -> None:
    mdp = small_mdp()
    if not labelled:
        mdp = cp.TabularMDP.from_rows(mdp.rows, mdp.row_of, mdp.rewards)
    recorded = plain(discrete_episodes(mdp, 9))
    path = tmp_path / f"episodes{suffix}"
    write_episodes(path, [one.episode for one in recorded])
    given = open_cohort(path, mdp)
    assert same(list(given.episodes()), recorded)
    parts = [episodes_from_bytes(part) for part in given.parts(4)]
    assert [len(part) for part in parts] == [4, 4, 1]
    assert same([one for part in parts for one in part], recorded)


def test_mistakes_in_a_large_table_do_not_speak_of_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("episode_id,t,state,action\na,0,9,rest\na,1,,rest\nb,0,1,fly\n")
    mdp = small_mdp()
    with pytest.raises(MistakesError) as caught:
        list(open_cohort(path, mdp).episodes())
    lines = str(caught.value).splitlines()
    assert [re.sub(r":.*", "", line.removeprefix(f"{path}, ")) for line in lines[:3]] == [
        "row 2, column 'state'",
        "row 3, column 'state'",
        "row 4, column 'action'",
    ]
    assert "schema" not in str(caught.value)


def test_tables_of_a_schema(tmp_path: Path) -> None:
    scm = small_scm()
    recorded = [one._replace(filled=0) for one in continuous_episodes(scm, 7)]
    path = tmp_path / "table.csv"
    frames = [
        pl.DataFrame(
            {
                "episode_id": [one.episode.id] * len(one.episode),
                "t": np.arange(len(one.episode)),
                **dict(zip(("age", "level", "pressure"), one.episode.states.T, strict=True)),
                "dose": [*one.episode.actions[:, 0], None],
                "machine": [*one.episode.actions[:, 1], None],
                "died": one.outcomes[0][1],
            },
            schema_overrides={"dose": pl.Float64, "machine": pl.Float64},
        )
        for one in recorded
    ]
    pl.concat(frames).write_csv(path)
    given = open_cohort(path, scm)
    assert given.outcomes == ("died",)
    found = list(given.episodes())
    assert same(found, recorded)
    assert given.notes == [f"7 episodes, {sum(len(one.episode) for one in recorded)} steps."]
    parts = [one for part in given.parts(3) for one in episodes_from_bytes(part)]
    assert same(parts, recorded)
    other = schema_from_dict({**SCHEMA, "table": {"unit": "d"}})
    assert [one.times.tolist() for one in open_cohort(path, scm, other).episodes()] == [
        (one.times / 6.0).tolist() for one in recorded
    ]


def changed(**columns: dict[str, Any] | None) -> Any:
    merged = {**SCHEMA["columns"], **columns}
    return schema_from_dict({"columns": {name: one for name, one in merged.items() if one}})


def test_schemas_that_do_not_fit_the_model(tmp_path: Path) -> None:
    scm, mdp, path = small_scm(), small_mdp(), tmp_path / "t.csv"
    with pytest.raises(FileError, match=r"the model: does not fit the schema: the .*features"):
        open_cohort(path, scm, changed(pressure=None))
    with pytest.raises(FileError, match="holds a model of discrete states, but those of the sche"):
        open_cohort(path, mdp, changed())
    words = {"role": "state", "labels": ["a", "b"]}
    discrete = {"s": words, "a": {"role": "action", "labels": ["x", "y"]}}
    with pytest.raises(FileError, match="holds a neural model, but the states of the schema are"):
        open_cohort(path, scm, schema_from_dict({"columns": discrete}))
    with pytest.raises(FileError, match="has 4 states and 3 actions, but those of the schema comb"):
        open_cohort(path, mdp, schema_from_dict({"columns": discrete}))


def test_models_and_tables_of_different_kinds(tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("icustayid,bloc\n1,1\n")
    (tmp_path / "plain.csv").write_text("episode_id,t,state,action\na,0,0,0\n")
    scm = replace(small_scm(), about={})
    with pytest.raises(FileError, match=r"holds a model of discrete states, but .* is a cohort"):
        open_cohort(tmp_path / "stays.csv", small_mdp())
    with pytest.raises(FileError, match=r"holds a neural model, but .* is no cohort table"):
        open_cohort(tmp_path / "plain.csv", scm)


def test_some_episodes_only(tmp_path: Path) -> None:
    mdp, path = small_mdp(), tmp_path / "e.csv"
    recorded = plain(discrete_episodes(mdp, 9))
    write_episodes(path, [one.episode for one in recorded])
    found = list(open_cohort(path, mdp, chosen=["e5", "e2", "e5"]).episodes())
    assert [one.episode.id for one in found] == ["e2", "e5"]
    with pytest.raises(FileError, match=r"has no episode 'x'; the first of its 9 are 'e0', 'e1'"):
        list(open_cohort(path, mdp, chosen=["e1", "x"]).episodes())
