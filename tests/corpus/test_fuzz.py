"""Files with any bytes in them changed: read, or refused like every other mistake, never a crash.

Each example spoils one file of the folder in which all is well, at random, and runs a command that
reads it. `COUNTERPLAN_FUZZ=50 pytest tests/corpus/test_fuzz.py` draws fifty times as many.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .case import INSIDES, MOST_LINES
from .conftest import LONGEST, command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")

TIMES = int(os.environ.get("COUNTERPLAN_FUZZ", "1"))
SOLVE = "--k 1 --nodes 20"
# The file that is spoilt, the command that reads it, and how many examples are drawn.
READERS = {
    "ward.csv": (f"explain ward.csv -m model.json --episode ann {SOLVE}", 60),
    "ward.json": (f"explain ward.json -m model.json --episode ann {SOLVE}", 60),
    "ward.parquet": (f"explain ward.parquet -m model.json --episode ann {SOLVE}", 60),
    "model.json": (f"explain ward.csv -m model.json --episode ann {SOLVE}", 60),
    "ward.safetensors": (f"explain ward.csv -m ward.safetensors --episode ann {SOLVE}", 60),
    "sepsis.safetensors": ("explain cohort.csv -m sepsis.safetensors --episode 200001 --k 0", 40),
    "cohort.csv": ("schema cohort.csv", 40),
    "stays.csv": ("schema stays.csv", 60),
    "grades.toml": ("fit ward.csv --schema grades.toml -o m.safetensors", 40),
    # The schema is read before the option, which is not for it, is refused.
    "stays.toml": ("fit stays.csv --schema stays.toml -o m.safetensors --prior 1", 60),
    "voyages.csv": ("plan bunkering --scenarios voyages.csv", 40),
    "voyages.parquet": ("plan bunkering --scenarios voyages.parquet", 40),
    "prices.csv": ("plan bunkering --prices-csv prices.csv --scenarios-template t.csv", 30),
    "cycle.csv": ("plan hybrid --drive-cycle cycle.csv --scenarios-template t.csv", 30),
    "out/manifest.json": ("cases out", 40),
    "out/done/00000.json": ("cases out", 30),
    "out/results/part-00000.parquet": ("cases out", 20),
}
# What has broken readers before: numbers out of range, quotes, ends of lines, other alphabets.
SHORT = [",", '"', "\n", "\r", "\0", "-", ".", "{", "}", "#", "=", "'", "nan", "inf", "1e999", "²"]
LONG = [b"null", b"9" * 400, b"[" * 2000, b"\xff\xfe", b"\xef\xbb\xbf"]
NASTY = st.sampled_from([*(letters.encode() for letters in SHORT), *LONG])
PLACE = st.floats(0, 1, exclude_max=True)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["put", "replace", "cut", "drop", "repeat", "flip"]),
        PLACE,
        st.binary(min_size=1, max_size=8) | NASTY,
    ),
    min_size=1,
    max_size=4,
)


def spoilt(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """The content after each edit: how, at which share of its length, and with which bytes."""
    for how, place, piece in edits:
        at = int(place * len(content))
        before, after = content[:at], content[at:]
        content = {
            "put": before + piece + after,
            "replace": before + piece + after[len(piece) :],
            "cut": before,
            "drop": before + after[len(piece) :],
            "repeat": before + after[:40] + after,
            "flip": before + bytes([after[0] ^ piece[0]]) + after[1:] if after else before,
        }[how]
    return content


@pytest.mark.parametrize("name", READERS)
def test_read_or_refused(here: Path, name: str) -> None:
    typed, examples = READERS[name]
    target, good = here / name, (here / name).read_bytes()

    assert command(*shlex.split(typed)).exit_code == (2 if "--prior" in typed else 0)

    @settings(max_examples=examples * TIMES)
    @given(EDITS)
    def check(edits: list[tuple[str, float, bytes]]) -> None:
        target.write_bytes(spoilt(good, edits))
        for left in ("t.csv", "m.safetensors"):
            (here / left).unlink(missing_ok=True)
        signal.alarm(LONGEST)
        result = command(*shlex.split(typed))
        if result.exit_code == 0:
            return
        lines = result.stderr.splitlines()
        assert result.exit_code == 2
        assert result.stdout == ""
        assert 1 <= len(lines) <= MOST_LINES
        assert all(line.startswith("error: ") and not INSIDES.search(line) for line in lines)
        assert not (here / "t.csv").exists()
        assert not (here / "m.safetensors").exists()

    check()
