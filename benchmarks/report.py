"""The same numbers three times: a table on the terminal, JSON and Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Agreement
from benchmarks.growth import Growth
from benchmarks.measure import Finding, Spread, machine

RESULTS = Path(__file__).parent / "results"
WIDTH = 130
COLUMNS = ("measured", "median", "range", "processor", "target", "")


@dataclass(frozen=True)
class Report:
    """Everything one run found.

    sections  titles and their findings
    load      how many processes wanted a core, on average, at the start and at the end
    """

    sections: dict[str, list[Finding]]
    agreement: Agreement
    growth: list[Growth]
    load: tuple[float, float]

    def print(self) -> None:
        # A table squeezed into 80 columns, the width of a pipe, cannot be read.
        console = Console(width=max(WIDTH, Console().width))
        for title, findings in self.sections.items():
            self._show(console, title, COLUMNS, [_cells(finding) for finding in findings])
        console.print(_agreement_line(self.agreement))
        console.print(_load_line(self.load))
        for growth in self.growth:
            title = f"Growth with {growth.what}: exponent {growth.exponent:.2f}"
            self._show(console, title, ("size", "seconds", "factor"), _growth_cells(growth))

    def write(self) -> None:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(self._data(), indent=1) + "\n"
        (RESULTS / "discrete.json").write_text(text, encoding="utf-8")
        (RESULTS / "discrete.md").write_text(self._markdown(), encoding="utf-8")

    @staticmethod
    def _show(
        console: Console, title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]
    ) -> None:
        console.print(title, style="bold")
        table = Table()
        for column in columns:
            table.add_column(column, justify="left" if column in ("measured", "") else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)

    def _data(self) -> dict[str, Any]:
        return {
            "machine": machine(),
            "load": self.load,
            "sections": {
                title: [
                    {**asdict(finding), "median": finding.wall.median, "met": finding.met}
                    for finding in findings
                ]
                for title, findings in self.sections.items()
            },
            "agreement": {**asdict(self.agreement), "holds": self.agreement.holds},
            "growth": [
                {**asdict(growth), "exponent": growth.exponent, "factors": growth.factors}
                for growth in self.growth
            ],
        }

    def _markdown(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in machine().items())
        lines = ["# Discrete decisions: speed and memory", "", "Written by `make bench`.", ""]
        lines += [f"One core of: {facts}. {_load_line(self.load)}", ""]
        for title, findings in self.sections.items():
            lines += [f"## {title}", "", *_table(COLUMNS, [_cells(f) for f in findings]), ""]
        lines += [_agreement_line(self.agreement), "", "## Growth of a whole frontier", ""]
        for growth in self.growth:
            lines += [f"With {growth.what}: exponent {growth.exponent:.2f}", ""]
            lines += [*_table(("size", "seconds", "factor"), _growth_cells(growth)), ""]
        return "\n".join(lines)


def _cells(finding: Finding) -> tuple[str, ...]:
    mark = {None: "", True: "met", False: "MISSED"}[finding.met]
    bound = "≥" if finding.unit == "x" else "≤"
    target = "" if finding.target is None else f"{bound} {finding.target:,g} {finding.unit}"
    processor = "" if finding.cpu is None else _number(finding.cpu.median, finding.unit)
    return (
        finding.what,
        _number(finding.wall.median, finding.unit),
        _range(finding.wall, finding.unit),
        processor,
        target,
        mark,
    )


def _number(value: float, unit: str) -> str:
    if unit == "s" and value < 0.1:
        return f"{1000 * value:.3g} ms"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _range(spread: Spread, unit: str) -> str:
    if len(spread.values) == 1:
        return ""
    return f"{_number(spread.low, unit)} – {_number(spread.high, unit)}"


def _growth_cells(growth: Growth) -> list[tuple[str, ...]]:
    return [
        (
            str(size),
            _number(taken.cpu.median, "s"),
            "" if factor is None else f"{factor:.2f}",
        )
        for size, taken, factor in zip(growth.sizes, growth.taken, growth.factors, strict=True)
    ]


def _agreement_line(agreement: Agreement) -> str:
    verdict = "Same problem, same answers" if agreement.holds else "THE ANSWERS DIFFER"
    return (
        f"{verdict}: on the exact kernel all three differ by at most {agreement.same_kernel:.1e}; "
        f"means under sampled kernels (worth of the optimal policy, share of pairs that end as "
        f"observed) are the exact ones within {agreement.standard_errors:.1f} standard errors "
        f"(limit 5). The optimum over 1,000 samples is off by "
        f"{agreement.optimum_error:+.2f} ± {agreement.optimum_noise:.2f} at k = 10 "
        "(mean and its standard error)."
    )


def _load_line(load: tuple[float, float]) -> str:
    return (
        f"Load average {load[0]:.1f} at the start and {load[1]:.1f} at the end: above the "
        "number of cores, wall-clock times include waiting for others."
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
