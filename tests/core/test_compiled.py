"""Compiled code is renewed when anything that went into it has changed, and always has a place."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit
from numba.core import event

from counterplan.core import compiled  # noqa: F401  which listens to the compiler
from counterplan.core.limits import clock

CALLER = """
from counterplan.core.compiled import njit
from counterplan.scm.gumbel import starts_before  # a kernel of ours: this module is looked after
from helper import FACTOR, helped
@njit(cache=True)
def answer(x):
    return FACTOR * helped(x)
print(answer(1.0), sum(answer.stats.cache_hits.values()))
"""
HELPER = """
import numpy as np
from numba import njit
from constants import FACTOR
@njit(cache=True)
def helped(x):
    return x + {}
"""


def run(folder: Path, *lines: str) -> list[str]:
    program = "\n".join(lines) or "import caller"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def write_modules(folder: Path) -> None:
    """One that calls another, and what that one multiplies with."""
    (folder / "caller.py").write_text(CALLER)
    (folder / "helper.py").write_text(HELPER.format("1.0"))
    (folder / "constants.py").write_text("FACTOR = 10.0")


def test_code_is_compiled_anew_when_a_function_or_constant_of_another_file_changes(
    tmp_path: Path,
) -> None:
    write_modules(tmp_path)
    assert run(tmp_path) == ["20.0", "0"]
    assert run(tmp_path) == ["20.0", "1"]
    (tmp_path / "helper.py").write_text(HELPER.format("2.0"))
    assert run(tmp_path) == ["30.0", "0"]
    (tmp_path / "constants.py").write_text("FACTOR = 20.0")
    assert run(tmp_path) == ["60.0", "0"]


def test_without_a_writable_folder_code_is_kept_as_long_as_the_program_runs(tmp_path: Path) -> None:
    write_modules(tmp_path)
    printed = run(
        tmp_path,
        "import os",
        "from counterplan.core import compiled",
        "nowhere = [place for place in compiled._PLACES if 'UserProvided' in place.__name__]",
        "compiled._PLACES[:] = nowhere",
        "import caller",
        "folder = os.environ['NUMBA_CACHE_DIR']",
        "print(folder, any(name.endswith('.nbi') for _, _, n in os.walk(folder) for name in n))",
    )
    assert printed[:2] == ["20.0", "0"]
    assert printed[3] == "True"
    assert not Path(printed[2]).exists()
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_full_disk_and_a_folder_of_whoever_started_this(tmp_path: Path) -> None:
    """Code that cannot be kept runs all the same; a worker's folder is not its own to remove."""
    write_modules(tmp_path)
    printed = run(
        tmp_path,
        "import os",
        "from counterplan.core import compiled",
        "def full(self, *given): raise OSError(28, 'No space left on device')",
        "compiled.caching.IndexDataCacheFile._save_data = full",
        f"os.environ[compiled.TEMPORARY] = {str(tmp_path)!r}",
        "compiled._use_temporary_folder()",
        "import caller",
        "print(os.environ['NUMBA_CACHE_DIR'])",
    )
    assert printed == ["20.0", "0", str(tmp_path)]
    assert tmp_path.exists()


def test_limits_do_not_pay_for_the_compiler() -> None:
    before, began = clock(), time.perf_counter()
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        time.sleep(0.05)
    assert time.perf_counter() - began - (clock() - before) >= 0.05


def test_what_a_function_means_does_not_depend_on_what_was_compiled_before() -> None:
    def largest(a, b):  # type: ignore[no-untyped-def]
        return max(a, b) + a * b

    careless = njit(fastmath=True)(largest)
    careless(1.0, 2.0)
    careful = njit(largest)
    careful(1.0, 2.0)
    (fast,), (exact,) = careless.inspect_llvm().values(), careful.inspect_llvm().values()
    assert "fmul fast" in fast
    assert " fast " not in exact
    assert gc.isenabled()
    # Whole numbers and floats, and numbers known beforehand, have meanings of their own.
    assert [careful(2, 3), careful(2, 3.5), careful(True, 2)] == [9, 10.5, 4]


def test_library_functions_know_whose_options_they_have() -> None:
    """They are compiled once for all callers with the same options, not for others."""

    def lowest(a):  # type: ignore[no-untyped-def]
        return np.sum(a) + a.min()

    numbers = np.array([3.0, 1.0, 2.0])
    careless, careful = njit(fastmath=True)(lowest), njit(lowest)
    assert [careless(numbers), careful(numbers)] == [7.0, 7.0]
    (fast,), (exact,) = careless.inspect_llvm().values(), careful.inspect_llvm().values()
    assert "fadd fast" in fast
    assert " fast " not in exact


PLAIN = """
from counterplan.core.compiled import call, entry, within
from counterplan.scm.gumbel import starts_before  # a kernel of ours: this module is looked after
@within
def half(x):
    return x / 2.0 if starts_before(0.0, x, 1.0) else 0.0
@entry
def answer(x):
    return half(x) + 1.0
def told(steps):
    value = call(answer, lambda: steps, 4.0)
    hits = sum(answer.stats.cache_hits.values())
    print(value, "kept" if hits else "compiled" if answer.overloads else "plain")
"""


def test_small_work_is_plain_until_there_was_enough_of_it(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    asked = "import plain", "plain.told(compiled.SMALL / 2 - compiled.CALL)"
    start = "from counterplan.core import compiled"
    assert run(tmp_path, start, *asked) == ["3.0", "plain"]
    assert run(tmp_path, start, *asked) == ["3.0", "plain"]
    assert run(tmp_path, start, *asked) == ["3.0", "compiled"]
    assert run(tmp_path, start, *asked) == ["3.0", "kept"]
    # New code begins anew; work that is not small is compiled at once.
    (tmp_path / "plain.py").write_text(PLAIN.replace("+ 1.0", "+ 2.0"))
    assert run(tmp_path, start, *asked) == ["4.0", "plain"]
    large = "import plain", "plain.told(2 * compiled.SMALL)"
    assert run(tmp_path, start, *large) == ["4.0", "compiled"]
