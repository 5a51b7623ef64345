"""Which modules of ours take part in three everyday jobs: `python tools/walks.py [--write]`.

Each job runs in processes of its own, workers included, with a profile function that notes every
module of the package in which a function is called. Code that runs when a module is imported does
not count. `--write` puts the lists into docs/architecture.md; tests/test_architecture.py compares.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src", ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walks -->\n", "<!-- end of walks -->"
# Each with the most modules that it may pass through.
JOBS = {
    "`counterplan explain table.csv --model m --k 3 -o out`": 35,
    "A what-if in the explorer, from the question to the answer": 20,
    "`cp.plan(Bunkering(), planner=UCT(1000))`": 25,
}
# Python runs this file at the start of every process that finds it on its path.
RECORDER = """
import os, sys, threading

seen, file = set(), open(os.environ["COUNTERPLAN_WALK"], "a", buffering=1)

def is_importing(frame):
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_name == "<module>" and name.startswith("counterplan"):
            return True
        frame = frame.f_back
    return False

def record(frame, event, argument):
    name = frame.f_globals.get("__name__") or ""
    if event == "call" and name.startswith("counterplan.") and name not in seen:
        if os.path.exists(os.environ["COUNTERPLAN_WALK"] + ".on") and not is_importing(frame):
            seen.add(name)
            file.write(name + "\\n")

threading.setprofile(record)
sys.setprofile(record)
"""
EPISODES = """\
episode_id,t,state,action,reward
ann,0,0,0,0
ann,1,0,0,0
ann,2,1,1,1
bob,0,1,1,1
bob,1,0,0,0
bob,2,0,0,0
"""
MODEL = {
    "transitions": [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]],
    "rewards": [[0, 0], [1, 1]],
}
COMMAND = "from counterplan.cli import main; main()"
EXPLAIN = (
    "explain",
    "table.csv",
    "--model",
    "model.json",
    "--k",
    "3",
    "-o",
    "out",
    "--workers",
    "1",
)
PLAN = """
import counterplan as cp
cp.plan(cp.domains.Bunkering(), planner=cp.UCT(1000))
"""
# A person changes one action of an episode.
WHAT_IF = {"id": "ann", "edits": [{"t": 0, "action": 1}]}


@contextmanager
def recording(folder: Path, code: str, *arguments: str) -> Iterator[tuple[Popen[str], Path]]:
    """A process whose walk is recorded into the file, as soon as NAME.on stands beside it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "sitecustomize.py").write_text(RECORDER)
        listing = Path(name, "walk")
        path = os.pathsep.join([name, str(SOURCE)])
        with Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path, "COUNTERPLAN_WALK": str(listing)},
            stdout=PIPE,
            text=True,
        ) as process:
            yield process, listing


def modules_in(listing: Path) -> list[str]:
    """What was recorded."""
    return sorted({line.removeprefix("counterplan.") for line in listing.read_text().split()})


def walk(folder: Path, code: str, *arguments: str) -> list[str]:
    """The modules in which a program calls functions."""
    with recording(folder, code, *arguments) as (process, listing):
        Path(f"{listing}.on").touch()
        process.communicate()
        assert process.returncode == 0
        return modules_in(listing)


def what_if(folder: Path) -> list[str]:
    """The modules between a question of the explorer's page and its answer."""
    serve = ["serve", "out", "--port", "0", "--workers", "1", "--json"]
    with recording(folder, COMMAND, *serve) as (process, listing):
        assert process.stdout is not None
        told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        Path(f"{listing}.on").touch()
        body, kind = json.dumps(WHAT_IF).encode(), {"Content-Type": "application/json"}
        with urlopen(Request(f"{told['url']}api/what-if", body, kind)) as answer:
            assert json.load(answer)["answer"]
        found = modules_in(listing)
        process.terminate()
    return found


def walks() -> dict[str, list[str]]:
    """The modules of each job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.csv").write_text(EPISODES)
        (folder / "model.json").write_text(json.dumps(MODEL))
        found = (walk(folder, COMMAND, *EXPLAIN), what_if(folder), walk(folder, PLAN))
        return dict(zip(JOBS, found, strict=True))


def page_text(found: dict[str, list[str]]) -> str:
    """The lists as the page shows them, a line for each package."""
    lines = []
    for job, modules in found.items():
        packages: dict[str, list[str]] = {}
        for module in modules:
            package, _, name = module.rpartition(".")
            packages.setdefault(package, []).append(name)
        lines += [f"{job}: {len(modules)} modules", ""]
        lines += [f"* `{one}`: {', '.join(names)}" for one, names in packages.items()] + [""]
    return "\n".join(lines)


def main() -> None:
    """Prints the lists; `--write` puts them into the page."""
    text = page_text(walks())
    print(text)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
