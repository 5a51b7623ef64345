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


@pytest.mark.parametrize("domain", ["bunkering", "hybrid", "options", "basket"])
def test_a_kernel_compiles_alone(domain: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", f"import counterplan.domains.{domain}_kernel"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert any(tmp_path.rglob("*.nbi"))  # it was compiled, and not before
