"""Seconds until something happens, each in a fresh process, next to Python's own start:
`python -m benchmarks.startup` in the repository's root."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import Finding, timing
from counterplan.domains import sepsis
from counterplan.domains.sepsis_table import fit_cohort
from counterplan.tables.fit import LearnerSettings

ROUNDS = 10
# Byte code is kept, as after an install, whatever this shell says; and the repository is found from
# every folder.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
_ENVIRONMENT |= {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}

NOTHING = "pass"
IMPORT = "import counterplan"
# What the installed `counterplan` command does, independent of where it is installed.
HELP = "import sys; from counterplan.cli import main; sys.argv = ['counterplan', '--help']; main()"
FIRST = """
import counterplan as cp
from experiments import synthetic
process = synthetic.synthetic_process(0.4, seed=0)
cp.frontier(process.mdp, process.sample_episodes(1, seed=1)[0], k_max=10)
"""
EXPLAIN = """
import counterplan as cp
icu = cp.domains.icu_sepsis.load()
cp.explain(icu.mdp, icu.sample_episodes(400, seed=0)[42], k=1, doubt=0.2)
"""
PLAN = """
import counterplan as cp
cp.plan(cp.domains.Bunkering(), planner=cp.UCT(1000))
"""
# One question from a terminal, about a table with a learned model of sixteen members.
COMMAND = """
import sys
from counterplan.cli import main
asked = 'explain stays.csv --model model.safetensors --k 2 --episode 200001'
sys.argv = ['counterplan', *asked.split()]
main()
"""
# More than plain Python does of it: compiles what an explanation needs.
MANY = EXPLAIN.replace("cp.explain", "for _ in range(6): cp.explain")
# The first answer after an install, and how long it may take; and what has it compiled at last.
COMPILING = {
    "first frontier": (FIRST, None, None),
    "first explanation": (EXPLAIN, 3.0, MANY),
    "first plan": (PLAN, 8.0, PLAN),
    "first counterplan explain": (COMMAND, 5.0, COMMAND),
}


def measure_startup() -> list[Finding]:
    programs = {
        "python -c pass": (NOTHING, None),
        "import counterplan": (IMPORT, 0.5),
        "counterplan --help": (HELP, 0.5),
        "first frontier (imports, model, compiled code from its cache)": (FIRST, None),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for code, _ in programs.values():
        _seconds(code)  # byte code and file caches
    for _ in range(ROUNDS):
        for name, (code, _) in programs.items():
            taken[name].append(_seconds(code))
    findings = []
    for name, (_, target) in programs.items():
        spread = timing(taken[name])
        findings.append(Finding(name, spread.wall, "s", spread.cpu, target))
    for name, (code, target, more) in COMPILING.items():
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            if code == COMMAND:
                _learn()
            kept = {"NUMBA_CACHE_DIR": empty}
            asked = {f"{name} after an install": (_seconds(code, kept), target)}
            asked[f"{name} of the next process"] = _seconds(code, kept), None
            if more is not None:
                _seconds(more, kept)
                asked[f"{name} with all code compiled"] = _seconds(code, kept), 1.0
        for what, (taken_once, most) in asked.items():
            once = timing([taken_once])
            findings.append(Finding(what, once.wall, "s", once.cpu, most))
    return findings


def _learn() -> None:
    """A table of ten stays and a model, in this folder."""
    sepsis.write_cohort("training.csv", patients=100, seed=0)
    sepsis.write_cohort("stays.csv", patients=10, seed=1)
    settings = LearnerSettings(learner="smooth", seed=0)
    fit_cohort("training.csv", settings).model.save("model.safetensors")


def _seconds(code: str, environment: dict[str, str] | None = None) -> tuple[float, float]:
    """(wall, processor) of one process."""
    before = _children()
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        env=_ENVIRONMENT | (environment or {}),
    )
    return time.perf_counter() - started, _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for finding in measure_startup():
        wall, cpu = finding.wall.median, finding.cpu.median if finding.cpu else float("nan")
        print(f"{finding.what:<70} {wall:7.2f} s, of the processor {cpu:6.2f} s", flush=True)
