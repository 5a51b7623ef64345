"""Folders of runs: `cases` of them, and `explain -o` onto them."""

from __future__ import annotations

from typing import Any

from .case import Case
from .changes import (
    Change,
    Swap,
    absurd,
    changed,
    cut,
    document,
    flip,
    folder,
    gone,
    link,
    pipe,
    put,
    swap,
)

LIST = "cases out"
AGAIN = "explain ward.csv -m model.json --k 1 -o out --workers 1"
MANIFEST, RECEIPT, RESULT = "manifest.json", "done/00001.json", "results/part-00001.parquet"
DAMAGED = ": is damaged: its checksum is not the one noted .*; delete this file and run the same"
NEW_RUN = "; choose another folder for a new run"
NO_TASK = f": is damaged at 'task'{NEW_RUN}"


def onto(out: str, says: str, change: Change = lambda: None) -> Case:
    """A new run in some place."""
    return Case(f"explain ward.csv -m model.json --k 1 --workers 1 -o {out}", says, change)


def asked(command: str, says: str, change: Change = lambda: None) -> Case:
    """Another question on the same folder."""
    start = "^error: out: holds a run of another question: "
    return Case(command, rf"{start}{says}; ask as before to continue it, or choose", change)


def part(name: str, change: Change | Swap, says: str, command: str = LIST) -> Case:
    """A file of the run, and what is said of it."""
    return Case(command, rf"^error: out/{name}{says}", changed(f"out/{name}", change))


def manifest(says: str, command: str = LIST, **changes: Any) -> Case:
    """Other entries in the manifest."""
    return part(MANIFEST, document(f"out/{MANIFEST}", **changes), says, command)


def task(says: str, **changes: Any) -> Case:
    """Other entries in the description of the task."""
    return part(MANIFEST, document(f"out/{MANIFEST}", "task", "description", **changes), says)


def other(name: str, content: str, says: str) -> Case:
    """Other contents for a file of the run."""
    return part(name, put(f"out/{name}", content), says)


def linked(name: str, target: str, command: str = LIST) -> Case:
    """A link in the place of a file of the run."""
    says = ": is a link, but a run holds plain files only; put the file itself there"
    return part(name, link(f"out/{name}", target), says, command)


PARTS = [
    f"out/{t}/part-0000{i}.parquet" for t in ("episodes", "results", "trajectories") for i in (0, 1)
]
CASES = {
    # --- no run -------------------------------------------------------------------------------
    "run missing": Case("cases absent", "^error: absent: no such folder; give the folder of a run"),
    "run a file": Case("cases ward.csv", r"^error: ward\.csv: is a file; give the folder of a run"),
    "run a plain folder": Case(
        "cases plain",
        "^error: plain: is no run .*no manifest.json; give",
        folder("plain", "notes.txt"),
    ),
    "run of planning": Case(
        LIST,
        "^error: out: is a run of `counterplan plan`, which has no cases; look .*`serve`; give one",
        document(f"out/{MANIFEST}", "task", kind="regret"),
    ),
    "onto a plain folder": onto(
        "plain",
        "^error: plain: exists .* holds 'notes.txt' .*; choose",
        folder("plain", "notes.txt"),
    ),
    "onto a file": onto("notes", "^error: notes: is a file; give the name", put("notes", "mine")),
    "onto a link to nowhere": onto("away", "^error: away: is a file; gi", link("away", "no/where")),
    "into no folder": onto("no/such/out", "^error: no/such/out: cannot be made: its .*; create it"),
    "into a file": onto("ward.csv/out", r"^error: ward\.csv/out: cannot be made: Not a .*; choose"),
    "onto the input's folder": onto(".", r"^error: \.: exists and is no run of .*; choose another"),
    "onto a name too long": onto("o" * 300, "^error: o+: File name too long; check the path"),
    # --- another question ---------------------------------------------------------------------
    "another budget": asked(AGAIN.replace("--k 1", "--k 2"), "--k 1 there, --k 2 now"),
    "another seed": asked(f"{AGAIN} --seed 7", "--seed 0 there, --seed 7 now"),
    "another solver": asked(
        f"{AGAIN} --solver greedy", "--solver exact there, --solver greedy now"
    ),
    "another episode": asked(
        f"{AGAIN} --episode e3", r"no --episode there, --episode \[\"e3\"\] now"
    ),
    "another table": asked(AGAIN, "input with .* now", swap("ward.csv", "ann", "eva")),
    "another model": asked(AGAIN, "model with .* now", swap("model.json", "0.8, 0.2", "0.9, 0.1")),
    "other versions": asked(
        AGAIN, "numpy 0.1 there, numpy .* now", document(f"out/{MANIFEST}", "versions", numpy="0.1")
    ),
    "another task": Case(
        AGAIN,
        "^error: out: holds a run of `counterplan plan`, not of `counterplan explain`; choose",
        document(f"out/{MANIFEST}", "task", kind="regret"),
    ),
    "a run of planning": Case(
        "plan bunkering --scenarios voyages.csv -o out",
        "^error: out: holds a run of `counterplan explain`, not of `counterplan plan`; choose",
    ),
    "a task of somebody": asked(
        AGAIN, "task fishing there, .* now", document(f"out/{MANIFEST}", "task", kind="fishing")
    ),
    # --- the manifest -------------------------------------------------------------------------
    "manifest empty": other(MANIFEST, "", ": is empty; expected the manifest of a counterplan run"),
    "manifest of an app": other(MANIFEST, '{"name": "x"}', ": is no manifest of a .*; choose anot"),
    "manifest a list": other(MANIFEST, "[1]", ": is no manifest of a counterplan run; choose anot"),
    "manifest nested": other(MANIFEST, "[" * 99_999, ": is nested too deeply; expected the manife"),
    "manifest cut off": part(
        MANIFEST, cut(f"out/{MANIFEST}", 0.5), r", line \d+, column \d+: is not JSON: .*; correct"
    ),
    "manifest of 16 GB": part(
        MANIFEST, absurd(f"out/{MANIFEST}", 2**34), ": has 17,.* more than 20,000,000; expected the"
    ),
    "manifest a folder": Case(
        LIST, "^error: out: is no run .*no manifest.json; give", folder(f"out/{MANIFEST}")
    ),
    "manifest a pipe": part(
        MANIFEST, pipe(f"out/{MANIFEST}"), ": is a pipe or a device, but .*; put", AGAIN
    ),
    "manifest newer": manifest(": was written by a newer .*version 99.*; update", version=99),
    "manifest newer, again": manifest(": was written by a newer .*; update", AGAIN, version=99),
    "version a text": manifest(f": is damaged at 'version'{NEW_RUN}", version="1"),
    "no seed": manifest(f": is damaged at 'seed'{NEW_RUN}", seed=None),
    "one key too many": manifest(f": is damaged at 'more'{NEW_RUN}", more=1),
    "arguments a list": manifest(f": is damaged at 'arguments'{NEW_RUN}", AGAIN, arguments=[1]),
    "a billion parts": manifest(f": is damaged at 'parts'{NEW_RUN}", parts=10**9),
    "999 parts": manifest(f": .*tells of 999 parts, but there are 2{NEW_RUN}", parts=999),
    "one part": manifest(f": .*tells of 1 parts, but there are 2{NEW_RUN}", parts=1),
    "no budgets": task(NO_TASK, question={"budgets": []}),
    "budgets of text": task(NO_TASK, question={"budgets": ["x"]}),
    "no question": task(NO_TASK, question=None),
    "a subject unknown": task(NO_TASK, subject={"kind": "mystery"}),
    "a subject of 3": task(NO_TASK, subject=3),
    "no outcomes": task(NO_TASK, outcomes=None),
    "a schema damaged": task(
        r", columns\.x: has no role; add",
        subject={"kind": "schema", "schema": {"columns": {"x": {}}}},
    ),
    "a checksum of zeros": Case(
        LIST,
        rf"^error: out/episodes/SHA256SUMS{DAMAGED}",
        document(f"out/{MANIFEST}", inputs_sha256="0" * 64),
    ),
    # --- the parts ----------------------------------------------------------------------------
    "result damaged": part(RESULT, flip(f"out/{RESULT}"), DAMAGED),
    "result damaged, again": part(RESULT, flip(f"out/{RESULT}"), DAMAGED, AGAIN),
    "result cut off": part(RESULT, cut(f"out/{RESULT}", -9), DAMAGED),
    "result a text": other(RESULT, "mine", DAMAGED),
    "result missing": part(RESULT, gone(f"out/{RESULT}"), ": is missing; run the same command aga"),
    "result a folder": part(RESULT, folder(f"out/{RESULT}"), ": cannot be read: Is a .*; check"),
    "result a pipe": part(RESULT, pipe(f"out/{RESULT}"), ": is a pipe or a device, but .*; put"),
    "receipt missing": part(RECEIPT, gone(f"out/{RECEIPT}"), ": is missing; run the same command"),
    "receipt without contents": other(RECEIPT, "{}", DAMAGED),
    "receipt nested too deeply": other(RECEIPT, "[" * 99_999, DAMAGED),
    "receipt that climbs out": part(
        RECEIPT, document(f"out/{RECEIPT}", "sha256", **{"../../ward": "0" * 64}), DAMAGED
    ),
    "receipt of another table": part(
        "other/part-00001.parquet",
        document(f"out/{RECEIPT}", "sha256", other="0" * 64),
        ": is missing; run the same command again to make it anew",
    ),
    "trajectories damaged": part(PARTS[4][4:], flip(PARTS[4]), DAMAGED),
    "episodes damaged": part(PARTS[0][4:], flip(PARTS[0]), DAMAGED),
    "episodes damaged, again": part(PARTS[0][4:], flip(PARTS[0]), DAMAGED, AGAIN),
    "checksums damaged": part("episodes/SHA256SUMS", flip("out/episodes/SHA256SUMS"), DAMAGED),
    "everything damaged": part(
        PARTS[0][4:], flip(*PARTS), rf"{DAMAGED} .*likewise .*part-00001\.parquet.* and 2 others"
    ),
    # --- links that lead out of the folder ----------------------------------------------------
    "link to a table": linked(RESULT, "../../ward.parquet"),
    "link to a folder": linked("extra", "../.."),
    "link for a manifest": linked(MANIFEST, "../model.json"),
    "link for a lock": linked("lock", "../ward.csv", AGAIN),
    "link for a receipt": linked(RECEIPT, "/dev/zero", AGAIN),
    "link for all results": linked("results", "..", AGAIN),
    "link for what is hidden": linked(".episodes", "../..", AGAIN),
}
