"""Files and folders that may not be read or written; skipped where everything may be."""

from __future__ import annotations

from .case import Case
from .changes import mode

EXPLAIN = "explain ward.csv -m model.json"
NOT_HERE = ": cannot be written: no permission to write in its folder; choose another"


def unreadable(command: str, name: str) -> Case:
    """A file or folder that may not be read."""
    says = rf"^error: .*{name}.*(is not readable .*--help|Permission denied; check)"
    return Case(command, says, mode(name, 0o000))


def unwritable(command: str, says: str) -> Case:
    """Nothing may be made in this folder."""
    return Case(command, rf"^error: {says}", mode(".", 0o555))


CASES = {
    "table unreadable": unreadable(EXPLAIN, "ward.csv"),
    "table unreadable, folder": unreadable(f"{EXPLAIN} -o new", "ward.csv"),
    "table to draft from unreadable": unreadable("schema stays.csv", "stays.csv"),
    "model unreadable": unreadable(EXPLAIN, "model.json"),
    "schema unreadable": unreadable(
        "fit stays.csv --schema stays.toml -o m.safetensors", "stays.toml"
    ),
    "scenarios unreadable": unreadable("plan bunkering --scenarios voyages.csv", "voyages.csv"),
    "manifest unreadable": unreadable("cases out", "out/manifest.json"),
    "result unreadable": unreadable("cases out", "out/results/part-00000.parquet"),
    "run unreadable": unreadable("cases out", "out"),
    "results unreadable": unreadable("cases out", "out/results"),
    "no place for a model": unwritable("fit ward.csv -o m.safetensors", f"m.safetensors{NOT_HERE}"),
    "no place for results": unwritable(f"{EXPLAIN} -o r.json", f"r.json{NOT_HERE}"),
    "no place for a schema": unwritable("schema stays.csv -o s.toml", f"s.toml{NOT_HERE}"),
    "no place for cases": unwritable("cases out -o c.csv", f"c.csv{NOT_HERE}"),
    "no place for a run": unwritable(f"{EXPLAIN} -o new", "new: cannot be made: Permiss.*; choose"),
}
