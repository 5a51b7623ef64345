"""The same work on a real Dask cluster: its scheduler and workers are processes on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import counterplan
from counterplan.errors import CounterplanError, InputError, NotApplicableError
from counterplan.runs import cluster
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.task import TaskSpec

from .conftest import Program, children, contents, environment, run_parts, wait_until

pytestmark = pytest.mark.slow  # schedulers and workers are started and killed

pytest.importorskip("distributed", reason="a cluster takes the extra `cluster`")

PARTS, SECONDS = 40, 0.05


class Dask:
    """A scheduler and workers, each a process with a log of its own."""

    def __init__(self, folder: Path, **surroundings: str) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", "--port", "0", **surroundings)
        self.scheduler = self._processes[0]
        self.address = self._logged(0, "Scheduler at:").split()[-1]

    def worker(self, **surroundings: str) -> subprocess.Popen[bytes]:
        """Another worker, which has joined the scheduler."""
        number = self._start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", **surroundings
        )
        self._logged(number, "Registered to:")
        return self._processes[number]

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _start(self, *arguments: str, **surroundings: str) -> int:
        number = len(self._processes)
        command = [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1"]
        with (self._folder / f"dask{number}.log").open("w") as log:
            process = subprocess.Popen(
                [*command, "--no-dashboard"],
                env=environment() | surroundings,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return number

    def _logged(self, number: int, text: str) -> str:
        """The line of a log that holds a text."""
        log = self._folder / f"dask{number}.log"
        wait_until(lambda: text in log.read_text())
        return next(line for line in log.read_text().splitlines() if text in line)


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    """A cluster without workers."""
    with closing(Dask(tmp_path)) as found:
        yield found


def test_a_worker_killed_in_the_middle(tmp_path: Path, dask: Dask, program: Program) -> None:
    workers = [dask.worker() for _ in range(2)]
    here = program(tmp_path / "here", PARTS, SECONDS, 2)
    there = program(tmp_path / "there", PARTS, SECONDS, 1, dask.address)
    wait_until(lambda: len(list(tmp_path.glob("there/done/*"))) >= 8)
    workers[0].kill()
    assert len(list(tmp_path.glob("there/done/*"))) < PARTS - 8
    stdout, stderr = there.communicate(timeout=60)
    assert (there.returncode, stderr) == (0, "")
    assert stdout == f'{{"resumed": 0, "parts": {PARTS}}}\n'
    assert here.wait(timeout=60) == 0
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_client_and_a_scheduler_that_die(tmp_path: Path, dask: Dask, program: Program) -> None:
    """The cluster keeps nothing of a client that is gone; a run begun there can be ended here."""
    worker = dask.worker()
    out = tmp_path / "out"
    client = program(out, PARTS, SECONDS, 1, dask.address)
    wait_until(lambda: len(list(out.glob("done/*"))) >= 2)
    assert len(children(worker)) == 1
    client.kill()
    wait_until(lambda: not children(worker))
    client = program(out, PARTS, SECONDS, 1, dask.address)
    wait_until(lambda: len(list(out.glob("done/*"))) >= 12)
    dask.scheduler.kill()
    stdout, stderr = client.communicate(timeout=60)
    assert (client.returncode, stdout) == (2, "")
    assert stderr == (
        f"error: cluster {dask.address}: the connection was lost; what is done is kept; "
        "run the same command again to continue\n"
    )
    assert program(out, PARTS, SECONDS, 2).wait(timeout=60) == 0
    assert program(tmp_path / "here", PARTS, SECONDS, 2).wait(timeout=60) == 0
    assert contents(out) == contents(tmp_path / "here")


def test_a_scheduler_that_hangs(
    tmp_path: Path, dask: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its connections: nothing is lost, and nothing comes."""
    monkeypatch.setattr(cluster, "SILENT_SECONDS", 3)
    dask.worker()
    spec = TaskSpec("own_tasks.reversing", {}, {"suffix": b"!", "seconds": b"0.05"})

    out = tmp_path / "out"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            run_cohort,
            spec,
            [b"%d" % one for one in range(PARTS)],
            out,
            RunSettings(cluster=dask.address),
        )
        wait_until(lambda: len(list(out.glob("done/*"))) >= 2)
        dask.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(CounterplanError, match="its scheduler has not answered for 3 seconds"):
            running.result(timeout=60)
    assert 2 <= len(list(out.glob("done/*"))) < PARTS
    dask.scheduler.send_signal(signal.SIGCONT)


def test_parts_that_end_their_workers(tmp_path: Path) -> None:
    # A part that has killed one Dask worker is not given to another.
    with closing(Dask(tmp_path, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")) as dask:
        dask.worker()
        check_parts_that_end_their_workers(tmp_path, dask)


def check_parts_that_end_their_workers(tmp_path: Path, dask: Dask) -> None:
    settings = RunSettings(cluster=dask.address)
    with pytest.raises(CounterplanError, match="part 00001 could not be done: its worker process"):
        run_parts(tmp_path / "deadly", [b"one", b"deadly", b"two"], settings)
    assert len(list(tmp_path.glob("deadly/done/*"))) == 2
    with pytest.raises(InputError, match="this part is wrong; put it right"):
        run_parts(tmp_path / "wrong", [b"one", b"wrong"], settings)
    with pytest.raises(CounterplanError, match=r"part 00000 .* was killed with its Dask worker"):
        run_parts(tmp_path / "parricide", [b"parricide"], settings)


@pytest.mark.parametrize(
    ("initial", "says"),
    [
        ("__version__ = '9.9'", "No module named 'counterplan.runs'"),
        (None, "has counterplan 9.9 instead of {}; install the same versions everywhere"),
    ],
)
def test_workers_with_another_counterplan(
    tmp_path: Path, dask: Dask, initial: str | None, says: str
) -> None:
    other = tmp_path / "other" / "counterplan"
    if initial is None:
        source = Path(counterplan.__file__).parent
        shutil.copytree(source, other, ignore=shutil.ignore_patterns("__pycache__", "data"))
        start = (other / "__init__.py").read_text()
        initial = start.replace(f'"{counterplan.__version__}"', '"9.9"')
    other.mkdir(parents=True, exist_ok=True)
    (other / "__init__.py").write_text(initial)
    path = os.pathsep.join([str(other.parent), environment()["PYTHONPATH"]])
    dask.worker(PYTHONPATH=path)
    with pytest.raises(InputError) as told:
        run_parts(tmp_path / "out", [b"one"], RunSettings(cluster=dask.address))
    assert says.format(counterplan.__version__) in str(told.value)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "address",
    ["", "here", "127.0.0.1:8786", "tcp://", "tcp://127.0.0.1", "http://host:80", "tcp://a:b"],
)
def test_what_is_no_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match="is no address of a scheduler; give one like tcp://"):
        run_parts(tmp_path / "out", [b"one"], RunSettings(cluster=address))
    assert not (tmp_path / "out").exists()


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match=r"no Dask scheduler answers there .*; check the address"):
        run_parts(tmp_path / "out", [b"one"], RunSettings(cluster=address))
    assert not (tmp_path / "out").exists()


def test_nobody_works(tmp_path: Path, dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(
        InputError, match=f"has no workers; start some with `dask worker {dask.address}`"
    ):
        run_parts(tmp_path / "out", [b"one"], RunSettings(cluster=dask.address))
    assert not (tmp_path / "out").exists()


def test_dask_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotApplicableError, match=r"python -m pip install '\.\[cluster\]'"):
        run_parts(tmp_path / "out", [b"one"], RunSettings(cluster="tcp://127.0.0.1:8786"))
