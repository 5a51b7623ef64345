"""A run's folder: what is refused, what is told, what is mended."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.runs.cohort import RunSettings
from counterplan.runs.run import open_run
from counterplan.runs.store import Manifest, json_value, read_manifest, task_record
from counterplan.runs.task import TaskSpec

from .conftest import Program, contents, run_parts, wait_until

PARTS = [f"part {index}".encode() for index in range(4)]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run, for copies."""
    out = tmp_path_factory.mktemp("runs") / "out"
    run_parts(out, PARTS)
    return out


@pytest.fixture
def out(tmp_path: Path, complete: Path) -> Path:
    """A complete run."""
    return shutil.copytree(complete, tmp_path / "out")


# --- What is no run -----------------------------------------------------------------------------


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"is no run of counterplan: it holds 'thesis\.txt'"):
        run_parts(tmp_path, PARTS)
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("text")
    with pytest.raises(FileError, match="out: is a file; give the name of a folder"):
        run_parts(tmp_path / "out", PARTS)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="its folder does not exist; create it"):
        run_parts(tmp_path / "absent" / "out", PARTS)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert run_parts(tmp_path, PARTS).parts == 4


def mistaken() -> Iterator[bytes]:
    yield b"part 0"
    raise InputError("row 7: is wrong; put it right")


@pytest.mark.parametrize("was_there", [False, True])
def test_bad_input_leaves_nothing_behind(tmp_path: Path, was_there: bool) -> None:
    out = tmp_path / "out"
    if was_there:
        out.mkdir()
    with pytest.raises(InputError, match="row 7: is wrong"):
        run_parts(out, mistaken())  # type: ignore[arg-type]
    assert out.exists() == was_there
    assert contents(tmp_path) == {}


def test_no_input_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the input is empty"):
        run_parts(tmp_path / "out", [])
    assert list(tmp_path.iterdir()) == []


def test_notes_on_the_input_are_kept(tmp_path: Path) -> None:
    notes: list[str] = []

    def parts() -> Iterator[bytes]:
        yield b"part 0"
        notes.append("1 episode kept, 2 dropped (2 with a gap).")

    run_parts(tmp_path, parts(), RunSettings(workers=1, notes=notes))  # type: ignore[arg-type]
    assert open_run(tmp_path).manifest.notes == tuple(notes)


# --- Another question ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "now", "says"),
    [
        (
            RunSettings({"k": 3}),
            RunSettings({"k": 5}),
            "--k 3 there, --k 5 now; ask as before to continue it, or choose another folder",
        ),
        (
            RunSettings({"robust": True, "max_move": None}),
            RunSettings({"robust": False, "max_move": 2}),
            "no --max-move there, --max-move 2 now; --robust there, no --robust now",
        ),
        (RunSettings(seed=0), RunSettings(seed=1), "--seed 0 there, --seed 1 now"),
        (RunSettings({"k": 1}), RunSettings({"k": True}), "--k 1 there, --k now"),
        (
            RunSettings(hashes={"model": "a" * 64}),
            RunSettings(hashes={"model": "b" * 64}),
            "model with checksum aaaaaaaaaaaa there, model with checksum bbbbbbbbbbbb now",
        ),
        (RunSettings(part_size=50), RunSettings(part_size=9), "part size 50 there, part size 9"),
    ],
)
def test_another_question_is_refused(
    tmp_path: Path, there: RunSettings, now: RunSettings, says: str
) -> None:
    out = tmp_path / "out"
    run_parts(out, PARTS[:1], there)
    before = contents(out)
    with pytest.raises(InputError) as told:
        run_parts(out, PARTS[:1], now)
    assert str(told.value).startswith(f"{out}: holds a run of another question: ")
    assert says in str(told.value)
    assert contents(out) == before


def test_another_task_is_refused(tmp_path: Path) -> None:
    run_parts(tmp_path / "out", PARTS[:1], forgiving=True)
    with pytest.raises(InputError, match="question: forgiving true there, no forgiving now;"):
        run_parts(tmp_path / "out", PARTS[:1])


def test_other_versions_are_refused(out: Path) -> None:
    edit_manifest(out, lambda manifest: manifest["versions"].update(numpy="1.0"))
    with pytest.raises(InputError, match=r"another question: numpy 1\.0 there, numpy [2-9]"):
        run_parts(out, PARTS)


def test_many_differences_are_counted(tmp_path: Path) -> None:
    settings = RunSettings({f"option{index}": "x" * 99 for index in range(9)})
    run_parts(tmp_path / "out", PARTS[:1], settings)
    with pytest.raises(InputError, match=r"xxx\.\.\. there.* and 4 more differences; ask"):
        run_parts(tmp_path / "out", PARTS[:1])


# --- Manifests ----------------------------------------------------------------------------------


def edit_manifest(out: Path, edit: Callable[[dict[str, object]], object]) -> None:
    path = out / "manifest.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda m: m.update(version=4), "was written by a newer counterplan"),
        (lambda m: m.update(version=2), "was written by an older counterplan"),
        (lambda m: m.update(version=0), "is damaged at 'version'"),
        (lambda m: m.update(version="1"), "is damaged at 'version'"),
        (lambda m: m.update(parts="4"), "is damaged at 'parts'"),
        (lambda m: m.update(parts=True), "is damaged at 'parts'"),
        (lambda m: m.update(parts=-1), "is damaged at 'parts'"),
        (lambda m: m.update(parts=10**9), "is damaged at 'parts'"),
        (lambda m: m.update(task=[]), "is damaged at 'task'"),
        (lambda m: m.update(task={"kind": "x"}), "is damaged at 'task'"),
        (lambda m: m["task"].update(files={"../lock": "a" * 64}), "is damaged at 'task'"),
        (lambda m: m.update(hashes={"model": 3}), "is damaged at 'hashes'"),
        (lambda m: m.pop("seed"), "is damaged at 'seed'"),
        (lambda m: m.update(host="here"), "is damaged at 'host'"),
        (lambda m: m.update(format="recipe"), "is no manifest of a counterplan run"),
        (lambda m: m.clear(), "is no manifest of a counterplan run"),
    ],
)
def test_manifests_that_are_not_right(
    out: Path, edit: Callable[[dict[str, object]], object], says: str
) -> None:
    edit_manifest(out, edit)
    before = contents(out)
    for read in (lambda: run_parts(out, PARTS), lambda: open_run(out)):
        with pytest.raises(FileError, match=f"manifest.json: {says}"):
            read()
    assert contents(out) == before


@pytest.mark.parametrize("parts", [3, 5])
def test_a_manifest_that_tells_of_other_parts(out: Path, parts: int) -> None:
    edit_manifest(out, lambda manifest: manifest.update(parts=parts))
    with pytest.raises(FileError, match=rf"tells of {parts} parts, but there are 4; choose"):
        run_parts(out, PARTS)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\ufeff", '{"format": 1}', "[" * 9999])
def test_manifests_that_are_none(out: Path, text: str) -> None:
    (out / "manifest.json").write_text(text)
    with pytest.raises(FileError, match=r"manifest\.json"):
        run_parts(out, PARTS)


MANIFEST = Manifest(
    task=task_record(TaskSpec("explain", {"k": 3}, {"model": b"weights"})),
    arguments={"k": 3, "solver": "exact"},
    hashes={"model": "0" * 64},
    seed=4,
    part_size=50,
    repeatable=True,
    parts=3,
    inputs_sha256="1" * 64,
)


def test_read_back(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(MANIFEST.to_bytes())
    assert read_manifest(path) == MANIFEST
    keys = list(json.loads(path.read_text()))
    assert keys == sorted(keys)


def test_what_is_described_stays_in_its_order(tmp_path: Path) -> None:
    """The columns of a schema stand for the features of a model, one by one."""
    columns = {"sofa": {"role": "state"}, "pressure": {"role": "state"}, "age": {"role": "fixed"}}
    task = task_record(TaskSpec("explain", {"schema": {"columns": columns}}))
    path = tmp_path / "manifest.json"
    path.write_bytes(replace(MANIFEST, task=task).to_bytes())
    read = read_manifest(path).task.description["schema"]["columns"]
    assert list(read) == ["sofa", "pressure", "age"]


def test_files_are_in_it_by_their_checksums_only() -> None:
    assert b"weights" not in MANIFEST.to_bytes()
    assert len(MANIFEST.task.files["model"]) == 64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(st.sampled_from(sorted(json.loads(MANIFEST.to_bytes()))), JSON)
def test_whatever_is_in_an_entry(name: str, value: Any) -> None:
    """It is read, or refused with one line."""
    document = json.loads(MANIFEST.to_bytes()) | {name: value}
    _is_read_or_refused(json.dumps(document).encode())


@given(st.binary(max_size=100) | st.integers(0, 400).map(lambda size: MANIFEST.to_bytes()[:size]))
def test_whatever_is_in_the_file(content: bytes) -> None:
    _is_read_or_refused(content)


def _is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        path.write_bytes(content)
        try:
            said = f"{path}: {read_manifest(path)}"
        except FileError as problem:
            said = str(problem)
    assert said.startswith(str(path))
    assert "\n" not in said


@pytest.mark.parametrize("value", [{"k": float("nan")}, {"k": {1, 2}}, {"k": b"bytes"}])
def test_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(InputError, match="the arguments cannot be stored as JSON"):
        json_value(value, "the arguments")


# --- Damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "results/part-00002.parquet",
        "trajectories/part-00000.parquet",
        "episodes/part-00001.parquet",
        "episodes/SHA256SUMS",
        "done/00003.json",
        "files/suffix",
    ],
)
def test_a_damaged_file_is_named_and_made_anew(out: Path, name: str) -> None:
    before = contents(out)
    path = out / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for read in (lambda: run_parts(out, PARTS), lambda: open_run(out).verify()):
        with pytest.raises(FileError) as told:
            read()
        assert str(told.value).startswith(f"{path}: is damaged: ")
        assert "delete this file and run the same command again" in str(told.value)
    path.unlink()
    run_parts(out, PARTS)
    assert contents(out) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"sha256": {}, "summary": {}}',
        '{"sha256": {"../../escape": "' + "a" * 64 + '"}, "summary": {}}',
        '{"sha256": {"results": "short"}, "summary": {}}',
        '{"sha256": {"results": 3}, "summary": {}}',
        '{"sha256": {"results": "' + "a" * 64 + '"}, "summary": {"episodes": "many"}}',
    ],
)
def test_receipts_that_are_none(out: Path, text: str) -> None:
    (out / "done" / "00001.json").write_text(text)
    with pytest.raises(FileError, match=r"done/00001\.json: is damaged"):
        run_parts(out, PARTS)


def test_all_damage_is_told_at_once(out: Path) -> None:
    for index in range(4):
        (out / "results" / f"part-{index:05d}.parquet").write_bytes(b"")
    (out / "done" / "00003.json").write_bytes(b"")
    with pytest.raises(FileError, match=r"part-00000\S+ is damaged.*\(likewise .*part-00001"):
        run_parts(out, PARTS)


@pytest.mark.parametrize("folder", ["episodes", "results", "done", "files"])
def test_a_folder_that_is_gone_is_made_anew(out: Path, folder: str) -> None:
    before = contents(out)
    shutil.rmtree(out / folder)
    with pytest.raises(FileError, match="is missing; run the same command again"):
        open_run(out).verify() if folder != "done" else open_run(out).done
    run_parts(out, PARTS)
    assert contents(out) == before


def test_input_that_is_gone_and_not_the_same_again(out: Path) -> None:
    (out / "episodes" / "part-00001.parquet").unlink()
    with pytest.raises(FileError, match="the input does not give the same ones again"):
        run_parts(out, [b"another"])
    assert not (out / ".episodes").exists()


def test_a_run_that_lost_a_part_is_not_complete(out: Path) -> None:
    """Not even if it is stopped before the part is done again."""
    before = contents(out)
    (out / "results" / "part-00001.parquet").write_bytes(b"")
    (out / "done" / "00001.json").unlink()
    refusing = RunSettings(workers=1, cluster="nowhere")
    with pytest.raises(CounterplanError):
        run_parts(out, PARTS, refusing)
    with pytest.raises(FileError, match=r"done/00001\.json: is missing"):
        open_run(out).scan("results")
    run_parts(out, PARTS)
    assert contents(out) == before


# --- Links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "lock", "results", "done/00001.json"])
def test_links_are_refused(out: Path, name: str) -> None:
    path, elsewhere = out / name, out.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = contents(out.parent)
    with pytest.raises(FileError, match=f"{path}: is a link, but a run holds plain files only"):
        run_parts(out, PARTS)
    if name != "lock":
        with pytest.raises(FileError, match="is a link"):
            open_run(out)
    assert contents(out.parent) == before


# --- One at a time ------------------------------------------------------------------------------


def test_two_runs_at_once(tmp_path: Path, program: Program) -> None:
    out = tmp_path / "out"
    first = program(out, 100, 0.1, 1)
    wait_until((out / "manifest.json").exists)
    assert first.poll() is None
    second = program(out, 100, 0.1, 1)
    _, stderr = second.communicate(timeout=60)
    assert second.returncode == 2
    assert stderr == (
        f"error: {out}: another run is at work there; wait for it or choose another folder\n"
    )
