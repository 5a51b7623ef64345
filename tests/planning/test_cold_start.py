"""Kernels compile in any order: each alone, in a new process with nothing compiled before.

What a function may do is decided where it is compiled first, so one that was compiled elsewhere
before can hide that it does not compile here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBLEMS = {
    "bunkering": "cp.domains.Bunkering()",
    "hybrid": "cp.domains.HybridVehicle()",
    "options": "cp.domains.AmericanOption()",
    "basket": "cp.domains.OptionBasket()",
    "resources": "cp.ExogenousMDP(cp.processes.GBM(9, 0, 1, 1), [[1.0]], cp.Resource(1), [(0, 1)])",
}
PROGRAM = """
import counterplan as cp
from counterplan.planning.search import kernel
compiled = {problem}.compiled()
for name in ("draw", "successors", "actions", "step", "policy", "bounds"):
    getattr(compiled, name).get_compile_result(getattr(kernel, name.upper()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("domain", PROBLEMS)
def test_a_kernel_compiles_alone(domain: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(problem=PROBLEMS[domain])],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert any(tmp_path.rglob("*.nbi"))  # it was compiled, and not before
