"""Settings shared by all tests: how hypothesis draws, and figures without a display."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Figures are only ever written to files.
os.environ["MPLBACKEND"] = "Agg"
# Matrices are small here: threads of the linear algebra would only wait for each other. Read when
# numpy is first imported, which no plugin does before this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The first call of a compiled kernel takes seconds: a deadline would only measure the compiler.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# Continuous integration draws the same examples every time: a red run is always a real change.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")
