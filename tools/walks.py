"""Which modules of ours three everyday jobs load: `python tools/walks.py [--write]`.

Each job runs in a fresh process, and every module of the package that this process has loaded by
its end counts, `__init__` files included. A server has loaded more than a question needs before it
is asked: there the modules count in which a function is called between question and answer, and
those that a fresh process loads in order to import them. `--write` puts the lists into
docs/architecture.md; tests/test_architecture.py compares.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, Popen, run
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src", ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walks -->\n", "<!-- end of walks -->"
# Each with the most modules that it may load.
JOBS = {
    "`counterplan explain table.csv --model m --k 3 -o out`": 35,
    "A what-if in the explorer, from the question to the answer": 54,
    "`cp.plan(cp.domains.Bunkering(), planner=cp.UCT(1000))`": 25,
}
# In front of a program: lists at its end what it has loaded.
LISTING = """
import atexit, sys

def told():
    names = [name for name in sys.modules if name.partition(".")[0] == "counterplan"]
    print("loaded", *names, file=sys.stderr)

atexit.register(told)
"""
# In front of a server: lists the modules in which functions are called while the file is there.
RECORDING = """
import os, sys, threading

found, file = set(), sys.argv.pop(1)

def record(frame, event, argument):
    name = frame.f_globals.get("__name__") or ""
    if event == "call" and name.startswith("counterplan.") and name not in found:
        if os.path.exists(file):
            found.add(name)
            with open(file, "a") as listing:
                listing.write(name + "\\n")

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
PROGRAM = "from counterplan.cli import main; main()"
EXPLAIN = [
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
]
SERVE = ["serve", "out", "--port", "0", "--workers", "1", "--json"]
PLAN = """
import counterplan as cp
cp.plan(cp.domains.Bunkering(), planner=cp.UCT(1000))
"""
# A person changes one action of an episode.
WHAT_IF = {"id": "ann", "edits": [{"t": 0, "action": 1}]}
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SOURCE)}


def loaded(folder: Path, code: str, *arguments: str) -> list[str]:
    """The modules that a program loads."""
    finished = run(
        [sys.executable, "-c", LISTING + code, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(finished.stderr.splitlines()[-1].split()[1:])


def what_if(folder: Path) -> list[str]:
    """The modules between a question of the explorer's page and its answer."""
    listing = folder / "walk"
    with Popen(
        [sys.executable, "-c", RECORDING + PROGRAM, str(listing), *SERVE],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        listing.touch()
        body, kind = json.dumps(WHAT_IF).encode(), {"Content-Type": "application/json"}
        with urlopen(Request(f"{told['url']}api/what-if", body, kind)) as answer:
            assert json.load(answer)["answer"]
        passed = listing.read_text().split()
        process.terminate()
    return loaded(folder, f"import {', '.join(passed)}")


def walks() -> dict[str, list[str]]:
    """The modules of each job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.csv").write_text(EPISODES)
        (folder / "model.json").write_text(json.dumps(MODEL))
        found = (loaded(folder, PROGRAM, *EXPLAIN), what_if(folder), loaded(folder, PLAN))
        return dict(zip(JOBS, found, strict=True))


def page_text(found: dict[str, list[str]]) -> str:
    """The lists as the page shows them, a line for each package."""
    lines = []
    for job, modules in found.items():
        packages: dict[str, list[str]] = {}
        for module in modules:
            package, _, name = module.removeprefix("counterplan.").rpartition(".")
            packages.setdefault(package or "counterplan", []).append(name)
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
