"""`python -m experiments`: draws the figures of the three papers anew.

Each figure becomes NAME.png with its numbers as NAME.csv. `--list` names them, `--quick` makes
small versions, `--check` compares the numbers with their expected ranges.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Read when numpy is loaded, below: run times should not count threads that wait for others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from counterplan.errors import CounterplanError, InputError
from experiments import registry

OUT_OF_RANGE, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the command line asks and returns the exit code."""
    try:
        return _run(_parser().parse_args(arguments))
    except CounterplanError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m experiments", description=__doc__)
    add = parser.add_argument
    add("figures", nargs="*", metavar="FIGURE", help="which figures; all if none is named")
    add("--all", action="store_true", help="all figures")
    add("--list", action="store_true", help="only list the figures")
    add("--quick", action="store_true", help="a small version that takes seconds")
    add("--check", action="store_true", help="exit code 1 if a number is out of its expected range")
    add("--sampled", action="store_true", help="the paper's sampled kernel, not the exact one")
    add("--data", type=Path, metavar="PATH", help="real therapy sessions (.csv), not simulated")
    add("-o", "--output", type=Path, default=Path("figures"), metavar="PATH", help="folder to fill")
    add("--seed", type=int, default=0, metavar="N", help="seed of whatever is drawn at random")
    add("--json", action="store_true", help="print the files, or the list, as JSON")
    return parser


def _run(asked: argparse.Namespace) -> int:
    titles = {name: figure.title for name, figure in registry.FIGURES.items()}
    if asked.list:
        if asked.figures:
            raise InputError(f"--list shows all figures: leave {asked.figures[0]} out")
        lines = [f"{name:16} {title}" for name, title in titles.items()]
        print(json.dumps(titles, indent=2) if asked.json else "\n".join(lines))
        return 0
    if asked.figures and asked.all:
        raise InputError("name figures or give --all, not both")
    if asked.check and (asked.sampled or asked.seed or asked.data is not None):
        raise InputError("--check is for seed 0 without --sampled and --data: leave them out")
    options = registry.Options(asked.quick, asked.sampled, asked.seed, asked.data)
    written = registry.reproduce(asked.figures, asked.output, options)
    unexpected = registry.unexpected(written) if asked.check else None
    if asked.json:
        files = {"files": [str(path) for path in written]}
        checked = {} if unexpected is None else {"unexpected": unexpected}
        print(json.dumps({**files, **checked}, indent=2))
    else:
        print(*written, sep="\n")
    if unexpected is not None:
        say = unexpected or ["all numbers are within their expected ranges"]
        print(*say, sep="\n", file=sys.stderr)
    return OUT_OF_RANGE if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
