"""Other forms of episode tables: arrays, Minari, d3rlpy and Gymnasium.

Each gives or takes a table in memory (a polars frame with one row per step), which
`counterplan.from_frame` reads with a schema, and `frame.write_parquet(path)` stores for the command
line.
"""

from __future__ import annotations

from counterplan.io.d3rlpy_file import read_d3rlpy, write_d3rlpy
from counterplan.io.frames import frame_from_arrays
from counterplan.io.minari_file import read_minari, write_minari
from counterplan.io.rollout import roll_out

__all__ = [
    "frame_from_arrays",
    "read_d3rlpy",
    "read_minari",
    "roll_out",
    "write_d3rlpy",
    "write_minari",
]
