"""The loop of a run: the same results however it is done, resumed, or disturbed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from counterplan.core.limits import Progress
from counterplan.errors import CounterplanError, InputError
from counterplan.runs.cohort import READING, RunProgress, RunSettings, run_cohort

from .conftest import contents, environment, reversing, run_parts

PARTS = [f"part {index}".encode() for index in range(7)]


def test_what_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = run_parts(out, PARTS)
    found = contents(out)
    assert sorted({name.split("/")[0] for name in found}) == [
        "done", "episodes", "files", "lock", "manifest.json", "results", "trajectories",
    ]  # fmt: skip
    assert found["episodes/part-00003.parquet"] == b"part 3"
    assert found["results/part-00003.parquet"] == b"3 trap!"
    assert found["trajectories/part-00006.parquet"] == b"part 6part 6"
    assert (summary.out, summary.parts, summary.resumed) == (out, 7, 0)
    assert summary.totals == {"episodes": 14.0, "failed": 0.0, "improvement": pytest.approx(6.0)}


def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        run_parts(out, PARTS, RunSettings(workers=workers))
        found.append(contents(out))
    assert found[0] == found[1] == found[2]


def test_input_is_read_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_parts(out, PARTS)
    before = contents(out)
    summary = run_parts(out, [b"something else"])
    assert summary.resumed == 7
    assert contents(out) == before


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    parts = [b"once a", b"part", b"once b", b"once c"]
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    notes = {}
    for out in (disturbed, calm):
        notes[out] = out.with_suffix(".notes")
        notes[out].mkdir()
    for name in ("once a", "once b", "once c"):
        (notes[calm] / name).touch()
    for out in (disturbed, calm):
        run_parts(out, parts, RunSettings(workers=2), notes=str(notes[out]))
    assert len(list(notes[disturbed].iterdir())) == 3
    results = [
        {name: content for name, content in contents(out).items() if name != "manifest.json"}
        for out in (disturbed, calm)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize(("part", "says"), [(b"deadly", "killed"), (b"huge", "out of memory")])
def test_a_part_that_ends_every_worker_is_told(tmp_path: Path, part: bytes, says: str) -> None:
    out = tmp_path / "out"
    parts = [b"one", part, b"two", b"three"]
    with pytest.raises(CounterplanError, match=f"part 00001 could not be done.*{says}") as told:
        run_parts(out, parts)
    assert "\n" not in str(told.value)
    done = sorted(path.name for path in (out / "done").iterdir())
    assert done == ["00000.json", "00002.json", "00003.json"]
    assert b'"complete": false' in (out / "manifest.json").read_bytes()


def test_many_parts_that_end_their_workers_end_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(CounterplanError, match=r"part 00000 could not be done \(likewise 2 more\)"):
        run_parts(out, [b"deadly"] * 3 + [b"fine"] * 20)
    assert len(list(out.glob("done/*"))) < 20


def test_a_task_may_record_what_ended_its_workers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = run_parts(out, [b"one", b"deadly", b"two"], forgiving=True)
    assert summary.totals["failed"] == 2.0
    found = contents(out)
    assert found["results/part-00001.parquet"].startswith(b"its process was killed")
    assert "trajectories/part-00001.parquet" not in found


def test_faults_of_the_machine_are_not_recorded(tmp_path: Path) -> None:
    """A full disk fails no episode: nothing of it is kept, and the same call does it later."""
    out, parts = tmp_path / "out", [b"one", *[b"full %d" % n for n in range(5)]]
    asked = {"forgiving": True, "notes": str(tmp_path)}
    says = r"part 0000\d could not be done.*No space left on device"
    with pytest.raises(CounterplanError, match=says):
        run_parts(out, parts, **asked)
    assert [path.name for path in (out / "done").iterdir()] == ["00000.json"]
    (tmp_path / "room").touch()
    summary = run_parts(out, parts, **asked)
    assert (summary.resumed, summary.totals["failed"]) == (1, 0.0)


def test_where_the_first_parts_all_die_nothing_is_their_fault(tmp_path: Path) -> None:
    with pytest.raises(CounterplanError, match=r"could not be done \(likewise 2 more\).*killed"):
        run_parts(tmp_path / "out", [b"deadly %d" % n for n in range(5)], forgiving=True)
    assert not list(tmp_path.glob("out/done/*"))


def test_what_failed_is_done_anew_if_asked(tmp_path: Path) -> None:
    out, parts = tmp_path / "out", [b"one", b"deadly", b"two"]
    run_parts(out, parts, forgiving=True)
    before = contents(out)
    assert run_parts(out, parts, forgiving=True).resumed == 3
    again = run_parts(out, parts, RunSettings(workers=1, again=True), forgiving=True)
    assert (again.resumed, again.totals["failed"]) == (2, 2.0)
    assert contents(out) == before


def test_a_mistake_in_a_part_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this part is wrong; put it right"):
        run_parts(tmp_path / "out", [b"one", b"wrong"])


def test_a_bug_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug of the task"):
        run_parts(tmp_path / "out", [b"one", b"bug"])


def test_a_task_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the model does not fit; fit another"):
        run_parts(tmp_path / "refuse", PARTS, refuse=True)
    with pytest.raises(CounterplanError, match=r"end before they have opened the model.*code 9"):
        run_parts(tmp_path / "never", PARTS, never=True)


def test_a_part_that_cannot_even_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(CounterplanError, match="part 00001 could not be done"):
        run_parts(tmp_path / "out", [b"one", b"deadly beyond words"], forgiving=True)


@pytest.mark.parametrize("part", [b"nameless", b"nan"])
def test_results_that_cannot_be_kept(tmp_path: Path, part: bytes) -> None:
    with pytest.raises(InputError, match=r"table called '\.\./results'|summary holds .*nan"):
        run_parts(tmp_path / "out", [part])
    assert not list(tmp_path.glob("out/done/*"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        *((RunSettings(workers=wrong), "number of workers") for wrong in (0, -1, 1025, True, 1.0)),  # type: ignore[arg-type]
        (RunSettings(part_size=0), "size of parts must be at least 1"),
        (RunSettings(seed=-1), "seed must be at least 0"),
        (RunSettings({"k": float("nan")}), "the arguments of the run cannot be stored as JSON"),
    ],
)
def test_bad_settings(tmp_path: Path, settings: RunSettings, says: str) -> None:
    with pytest.raises(InputError, match=says):
        run_parts(tmp_path / "out", PARTS, settings)
    assert list(tmp_path.iterdir()) == []


def test_a_run_prints_nothing_by_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_parts(tmp_path / "out", [b"one", b"two"])
    assert capfd.readouterr() == ("", "")


def test_progress_is_told_and_may_stop_the_run(tmp_path: Path) -> None:
    found: list[RunProgress] = []

    def watch(progress: Progress) -> bool:
        assert isinstance(progress, RunProgress)
        found.append(progress)
        return progress.what == READING or progress.done < 3

    out, settings = tmp_path / "out", RunSettings(workers=1)
    run_cohort(reversing(), PARTS, out, settings, watch)
    assert [one.done for one in found] == [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]
    assert (found[-1].total, found[-1].episodes, found[-1].totals["episodes"]) == (7, 6.0, 6.0)
    assert b'"complete": false' in (out / "manifest.json").read_bytes()
    found.clear()
    assert (
        run_cohort(reversing(), PARTS, out, settings, lambda one: watch(one) or None).resumed == 3
    )
    assert [one.done for one in found] == [3, 4, 5, 6, 7]
    run_parts(tmp_path / "whole", PARTS)
    assert contents(out) == contents(tmp_path / "whole")


PEAK = """
import resource, sys
from pathlib import Path
from counterplan.runs.cohort import PART_SIZE, RunSettings, run_cohort
from counterplan.runs.task import TaskSpec

def parts(episodes):
    for index in range(episodes // PART_SIZE):
        yield index.to_bytes(4, "big") * 25_000

spec = TaskSpec("own_tasks.reversing", {}, {"suffix": b"!"})
run_cohort(spec, parts(int(sys.argv[2])), Path(sys.argv[1]), RunSettings(workers=1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures in kilobytes")
def test_twenty_times_the_episodes_take_the_same_memory(tmp_path: Path) -> None:
    """Each part is 100 kB and so is what comes out of it: 400 parts would be 40 MB of input."""
    peaks = {}
    for episodes in (1_000, 20_000):
        command = [sys.executable, "-c", PEAK, str(tmp_path / str(episodes)), str(episodes)]
        finished = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=300, check=True
        )
        peaks[episodes] = int(finished.stdout) / 1024
    assert peaks[20_000] < peaks[1_000] + 4.0, peaks
