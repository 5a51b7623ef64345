"""Drafts of schemas: roles guessed from names and values."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import CounterplanError, FileError
from counterplan.tables.draft import Draft, draft, draft_schema
from counterplan.tables.reader import read_table
from counterplan.tables.schema import read_schema, schema_from_dict, schema_toml

from .schema_support import WARD, answer, names_the_file, write


def roles(path: Path) -> dict[str, str]:
    return {column.name: column.role for column in draft_schema(path).columns}


def test_roles(tmp_path: Path) -> None:
    text = """\
stay_id,hour,hr,a_iv,a_vaso,action,iv_ml,sex,note,empty,same,died,reward,done
1,0,80.5,0,1,5,0,F,ok,,7,1,0,false
1,4,81,1,0,1,250,F,better,,7,1,1,true
2,0,70,2,1,7,500,M,worse,,7,0,0,false
2,4,,0,0,0,0,M,bad,,7,0,-1,true
"""
    path = write(tmp_path / "t.csv", text)
    found = draft(path)
    assert found.schema.episode == "stay_id"
    assert (found.schema.time, found.schema.increment, found.schema.step) == ("hour", 4.0, 4.0)
    assert roles(path) == {
        "hr": "state",
        "a_iv": "action",
        "a_vaso": "action",
        "action": "ignore",
        "iv_ml": "ignore",
        "sex": "fixed",
        "note": "ignore",
        "empty": "ignore",
        "same": "ignore",
        "died": "outcome",
        "reward": "reward",
        "done": "ignore",
    }
    by_name = {column.name: column for column in found.schema.columns}
    assert by_name["a_iv"].levels == (0.0, 1.0, 2.0)
    assert by_name["sex"].labels == ("F", "M")
    assert found.comments["hr"]["role"] == "changes; seen: 70 to 81"
    assert found.comments["hr"]["missing"].startswith("25.0 % are missing:")
    assert "combinations of a_iv and a_vaso" in found.comments["action"]["role"]
    assert (found.rows, found.episodes) == (4, 2)
    assert "2 episodes, 4 rows" in found.head


def test_last_rows_may_have_no_action(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "episode_id,t,x,action\na,0,1.5,0\na,1,2.5,1\na,2,2,\n")
    said = draft(path).comments["action"]["missing"]
    assert said.startswith("33.3 % are missing: fine in the last row of an episode, elsewhere ")


def visits(tmp_path: Path, *dates: str, state: str = "hr") -> Draft:
    rows = [
        f"1,{date},{80.5 + row if state == 'hr' else row % 3},{row % 2}"
        for row, date in enumerate(dates)
    ]
    return draft(write(tmp_path / "t.csv", f"stay_id,charttime,{state},action\n" + "\n".join(rows)))


def test_times_that_are_dates(tmp_path: Path) -> None:
    found = visits(tmp_path, "2020-01-01 00:00", "2020-01-01 04:00")
    assert "From row to row 'charttime' grows by 4 h." in found.head
    schema = found.schema
    assert (schema.dates, schema.unit, schema.step, schema.gaps) == (True, "h", 4.0, "refuse")


def test_a_missing_visit_of_a_regular_table_stays_a_mistake(tmp_path: Path) -> None:
    days = ("01", "08", "15", "29")
    found = visits(tmp_path, *(f"2024-01-{day}" for day in days))
    schema = found.schema
    assert (schema.unit, schema.step, schema.gaps) == ("d", 7.0, "refuse")
    assert "1 times it grows by more, so rows are missing: add them" in found.head
    with pytest.raises(
        FileError, match=r"row 5, column 'charttime': 2024-01-29 follows 2024-01-15"
    ):
        read_table(tmp_path / "t.csv", schema)


def test_irregular_visits_become_an_input(tmp_path: Path) -> None:
    found = visits(tmp_path, "2024-01-01", "2024-01-09", "2024-01-15", "2024-03-01 12:00")
    assert (found.schema.unit, found.schema.gaps) == ("d", "input")
    assert "grows by 6 to 46.5 d, not regularly" in found.head
    (one,) = read_table(tmp_path / "t.csv", found.schema)
    assert one.episode.actions[:, 1].tolist() == [8.0, 6.0, 46.5]


def test_irregular_visits_of_discrete_states_are_consecutive(tmp_path: Path) -> None:
    found = visits(tmp_path, "2024-01-01", "2024-01-09", "2024-01-15", state="state")
    assert (found.schema.unit, found.schema.step, found.schema.gaps) == ("d", 1.0, "allow")
    assert "rows count as consecutive steps" in found.head
    assert len(read_table(tmp_path / "t.csv", found.schema)) == 1


def test_times_of_no_kind(tmp_path: Path) -> None:
    head = visits(tmp_path, "2024-01-01", "03/01/2024").head
    assert "'charttime' holds '03/01/2024', but time must be a date such as 2024-03-31" in head


def test_a_draft_reads_its_own_table(tmp_path: Path) -> None:
    path = write(tmp_path / "ward.csv", WARD.replace("vaso", "a_vaso").replace("fluids", "a_iv"))
    found = draft(path)
    toml = write(tmp_path / "schema.toml", schema_toml(found.schema, found.head, found.comments))
    schema = read_schema(toml)
    assert schema == found.schema
    assert len(read_table(path, schema)) == 2
    frame = pl.read_csv(path)
    frame.write_parquet(tmp_path / "ward.parquet")
    assert draft_schema(tmp_path / "ward.parquet") == schema


def test_discrete_states_by_name(tmp_path: Path) -> None:
    text = "episode_id,t,state,action,reward,age\na,0,0,1,1,70\na,1,2,0,2,70\nb,0,1,1,0,50\n"
    path = write(tmp_path / "t.csv", text)
    schema = draft_schema(path)
    assert schema.kind == "discrete"
    assert schema.of("state")[0].levels == (0.0, 1.0, 2.0)
    # A measurement that is fixed cannot be a part of them.
    assert roles(path)["age"] == "ignore"
    assert len(read_table(path, schema)) == 2


def test_an_action_by_another_name(tmp_path: Path) -> None:
    text = "id,t,hr,gcs,ventilated,dead\na,0,80.5,15,no,1\na,1,70,14,yes,1\nb,0,60.5,3,no,0\n"
    path = write(tmp_path / "t.csv", text)
    assert roles(path) == {"hr": "state", "gcs": "state", "ventilated": "action", "dead": "outcome"}
    assert "only a guess" in draft(path).comments["ventilated"]["role"]
    named = write(tmp_path / "n.csv", text.replace("gcs", "morning_dose"))
    assert roles(named)["morning_dose"] == "action"


def test_comments_say_what_to_do_about_good(tmp_path: Path) -> None:
    text = "episode_id,t,x,action{}\na,0,1.5,1{}\na,1,2,0{}\n"
    without = draft(write(tmp_path / "t.csv", text.format("", "", ""))).head
    assert 'Say what is good: better = "lower" or "higher"' in without
    reward = draft(write(tmp_path / "r.csv", text.format(",reward", ",1", ",2"))).head
    assert "what is good is read from 'reward'" in reward


@given(st.data())
def test_any_change_of_a_table_is_drafted_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(WARD.replace("vaso", "a_vaso").encode())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(content)))
        piece = data.draw(
            st.binary(max_size=2) | st.sampled_from([b",", b"\n", b'"', b"nan", b"inf"])
        )
        content[start : start + data.draw(st.integers(0, 4))] = piece
    path = write(tmp_path_factory.getbasetemp() / "drafted.csv", bytes(content))
    found = answer(lambda: draft(path))
    if isinstance(found, CounterplanError):
        assert names_the_file(path, found)
    else:
        text = schema_toml(found.schema, found.head, found.comments)
        assert schema_from_dict(tomllib.loads(text)) == found.schema


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    text = ",episode_id,t,x,action\n0,a,0,1.5,1\n1,a,1,2,0\n"
    found = draft(write(tmp_path / "t.csv", text))
    assert [column.name for column in found.schema.columns] == ["x", "action"]
    assert "1 columns without a name are left out" in found.head


def test_names_free_text_and_what_is_known_later_are_left_out(tmp_path: Path) -> None:
    """What a hospital's export has beside measurements."""
    lines = ["patient_id,hour,mrn,ward_no,line,shock_index,lactate,note,next_dose,dose"]
    notes = ("seen by the doctor, who would like to see him again in the afternoon", "ok")
    for patient in range(25):
        mrn = 7000 + patient * 37 % 100
        for hour in range(3):
            row = len(lines) + 500
            lactate = -999 if row == 510 else 1.5 + 0.1 * ((patient + hour) % 7)
            fields = (mrn, patient % 4, row, 0.5 + 0.1 * hour, lactate, f'"{notes[patient % 2]}"')
            lines.append(f"p{patient},{hour},{','.join(map(str, fields))},{row % 2},{row % 3}")
    path = write(tmp_path / "t.csv", "\n".join(lines) + "\n")
    found = draft(path)
    roles = {column.name: column.role for column in found.schema.columns}
    ignored = {name for name, role in roles.items() if role == "ignore"}
    assert ignored == {"mrn", "line", "note", "next_dose"}
    assert roles["ward_no"] == "fixed"
    assert roles["shock_index"] == "state"
    assert found.comments["note"]["role"].startswith("free text")
    assert "known only after the decision" in found.comments["next_dose"]["role"]
    assert "-999 may stand for gaps" in found.comments["lactate"]["role"]


def test_what_is_empty_once_in_every_episode_is_what_was_done(tmp_path: Path) -> None:
    rows = ["stay,t,lactate,fluids,vaso"]
    for stay in range(8):
        rows += [f"{stay},{t},{stay + 0.5 * t},{(stay + t) % 4},{t % 2}" for t in range(3)]
        rows.append(f"{stay},3,{stay + 1.7},,")
    path = tmp_path / "stays.csv"
    path.write_text("\n".join(rows))
    drafted = draft(path)
    assert [column.name for column in drafted.schema.of("action")] == ["fluids", "vaso"]
    assert "empty once in every episode" in drafted.comments["fluids"]["role"]


def test_whole_per_cents_are_no_score_and_99_of_them_no_code() -> None:
    spo2 = [f"{94 + (stay + t) % 6} %" for stay in range(4) for t in range(4)]
    codes = [30 + stay + t if stay + t else 999 for stay in range(4) for t in range(4)]
    frame = pl.DataFrame(
        {
            "stay": [stay for stay in range(4) for _ in range(4)],
            "t": [*range(4)] * 4,
            "SpO2": spo2,
            "sofa": codes,
            "dose": [0, 1] * 8,
        }
    )
    found = draft(frame)
    column = next(one for one in found.schema.columns if one.name == "SpO2")
    assert (column.low, column.high, column.unit) == (0.0, 100.0, "%")
    assert "may stand for gaps" not in found.comments["SpO2"]["role"]
    assert "999 may stand for gaps" in found.comments["sofa"]["role"]


def test_what_is_there_once_in_every_episode_describes_it(tmp_path: Path) -> None:
    rows = ["stay,t,lactate,dose,back"]
    for stay in range(8):
        rows += [f"{stay},{t},{stay + 0.5 * t},{(stay + t) % 2}," for t in range(3)]
        rows.append(f"{stay},3,{stay + 1.7},0,{stay % 2}")
    path = tmp_path / "stays.csv"
    path.write_text("\n".join(rows))
    drafted = draft(path)
    assert [column.name for column in drafted.schema.of("outcome")] == ["back"]
    assert 'when = "last"' in drafted.comments["back"]["role"]
