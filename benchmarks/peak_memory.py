"""Prints how many bytes one frontier on ICU-Sepsis takes above the loaded model, as JSON.

    python -m benchmarks.peak_memory {admissible,all} {cold,warm,traced}

cold    resident memory, from the loaded model to the peak of the first solve: numba, its compiler
        library and the compiled code are part of the difference
warm    the same after a small problem has brought those in
traced  what tracemalloc sees of the solve; arrays made inside compiled code escape it

Resident memory is that of /proc (null is printed where there is none). `getrusage` would not do:
a child's ru_maxrss starts at the peak of the process that started it, and loading the model has
a peak of its own. So the kernel's high-water mark is set back after loading, where it allows that;
where it does not, the peak of loading counts as the solver's. What loading has freed is given back
first: a solve that lived in those pages would seem to need nothing.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import tracemalloc
from pathlib import Path

import counterplan as cp
from benchmarks.problems import BUDGET, all_actions, long_stays, synthetic_problem
from counterplan.domains import icu_sepsis

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


def resident(field: str) -> int:
    """Bytes: VmRSS now, VmHWM at the highest."""
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no {field} in {STATUS}")
    return int(found.group(1)) * 1024


def reset_peak() -> None:
    try:
        RESET.write_text("5", encoding="utf-8")
    except OSError:
        print("the peak cannot be reset here: that of loading is included", file=sys.stderr)


def release_freed() -> None:
    """Return freed memory to the system (glibc; other C libraries have no such call)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def bytes_above_model(actions: str, mode: str) -> int | None:
    """Peak of one frontier minus what was in use before it."""
    if mode != "traced" and not STATUS.exists():
        return None
    icu = icu_sepsis.load()
    episode = long_stays(icu, 1)[0]
    mdp = all_actions(icu.mdp) if actions == "all" else icu.mdp
    if mode != "cold":
        cp.frontier(*synthetic_problem(n_states=5, horizon=5), k_max=BUDGET)
    release_freed()
    if mode == "traced":
        tracemalloc.start()
        cp.frontier(mdp, episode, k_max=BUDGET)
        return tracemalloc.get_traced_memory()[1]
    reset_peak()
    before = resident("VmRSS")
    cp.frontier(mdp, episode, k_max=BUDGET)
    return resident("VmHWM") - before


if __name__ == "__main__":
    print(json.dumps(bytes_above_model(*sys.argv[1:])))
