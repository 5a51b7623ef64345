"""Counterfactuals of learned models against the truth: `python -m benchmarks.ground_truth` in the
repository's root.

Networks are trained on simulated cohorts of growing size and asked about fresh patients, whom the
simulators replay with their own noise (`experiments.ground_truth`). Writes
results/ground_truth.md and docs/images/ground-truth.png. About four minutes of processor time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from counterplan.viz import style
from counterplan.viz.style import png_bytes
from experiments.ground_truth import NEURAL, SEPSIS, K, Measured, learn, measure
from experiments.infection import VERSIONS
from experiments.panels import canvas, set_title

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "ground-truth.png"
COHORTS = {
    SEPSIS: (250, 1000, 4000, 16_000),
    **dict.fromkeys(VERSIONS, (30, 120, 480, 1920, 7680)),
}
FRESH = 40
LOOKS = {
    SEPSIS: ("#0b2a5b", "s", "sepsis"),
    "plain": ("#4292c6", "o", "infection"),
    "hidden": ("#c0392b", "D", "hidden cause"),
    "response": ("#e08214", "^", "luck in the response"),
    "flipped": ("#7b5aa6", "v", "luck flipped"),
}
Found = dict[str, dict[int, Measured]]


def main() -> int:
    """Measure, print, write and draw."""
    found: Found = {}
    started = time.process_time()
    for process, sizes in COHORTS.items():
        found[process] = {}
        for patients in sizes:
            found[process][patients] = measure(learn(process, patients, FRESH, NEURAL))
            print(_row(process, patients, found[process][patients]), flush=True)
    seconds = time.process_time() - started
    lines = [*_heading(seconds)]
    lines += [_row(process, n, one) for process, sizes in found.items() for n, one in sizes.items()]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ground_truth.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    PICTURE.write_bytes(_drawn(found))
    print(f"{seconds:.0f} s of processor time")
    return 0


def _heading(seconds: float) -> list[str]:
    return [
        "# Counterfactuals of learned models against the truth",
        "",
        f"Written by `python -m benchmarks.ground_truth` in {seconds:.0f} s of processor time.",
        "",
        f"{FRESH} fresh patients (of sepsis, those of them who stay long enough). Error: of the "
        f"outcome of random alternatives with {K} changes, relative to their effect; 1 is no "
        f"better than to say that nothing would have changed. Gains: by the best {K} changes, "
        "means with standard errors.",
        "",
        "| process | patients | error | claimed | true | possible |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]


def _row(process: str, patients: int, one: Measured) -> str:
    possible = "" if one.possible is None else f"{one.possible:.2f}"
    return (
        f"| {process} | {patients:,} | {one.error:.2f} | {one.claimed:.2f} ± {one.claimed_se:.2f} "
        f"| {one.true:.2f} ± {one.true_se:.2f} | {possible} |"
    )


def _drawn(found: Found) -> bytes:
    drawing = canvas(8.4, 3.2, "Counterfactuals of models learned from more and more patients")
    first, second = drawing.subplots(1, 2)
    for process, sizes in found.items():
        colour, marker, label = LOOKS[process]
        plot = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.3}
        first.plot(list(sizes), [one.error for one in sizes.values()], label=label, **plot)
        second.plot(list(sizes), [one.claimed / one.true for one in sizes.values()], **plot)
    for axes, name, letter in (
        (first, "relative error", "a"),
        (second, "claimed / true gain", "b"),
    ):
        style.style_axes(axes)
        axes.set_xscale("log")
        axes.set_xlabel("patients learned from")
        axes.set_ylabel(name)
        set_title(axes, f"({letter})")
    first.set_ylim(bottom=0.0)
    second.axhline(1.0, color=style.INK, linewidth=0.8, linestyle=(0, (4, 3)))
    second.set_ylim(bottom=0.0)
    style.add_legend(first, loc="lower left")
    return png_bytes(drawing)


if __name__ == "__main__":
    sys.exit(main())
