"""All figures that `python -m experiments` knows, and how they are computed and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from counterplan.core.files import atomic_file, check_target
from counterplan.core.validation import whole_number
from counterplan.errors import FileError, InputError
from counterplan.viz.style import png_bytes
from experiments import (
    continuous_fit,
    continuous_patients,
    continuous_search,
    discrete_patients,
    discrete_synthetic,
    discrete_therapy,
    sdmdp_figures,
)
from experiments.expected import broken
from experiments.figure import Drawn, Figure, Options, Track
from experiments.therapy import read_sessions

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["FIGURES", "Figure", "Options", "reproduce", "unexpected"]

Item = TypeVar("Item")

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "discrete-fig1",
            "Synthetic process: distribution of the relative improvement",
            discrete_synthetic.figure1,
        ),
        Figure(
            "discrete-fig2",
            "Synthetic process: influence of uncertainty",
            discrete_synthetic.figure2,
        ),
        Figure(
            "discrete-fig3",
            "Therapy: improvement and number of explanations",
            discrete_therapy.figure3,
            reads_data=True,
        ),
        Figure(
            "discrete-fig4",
            "Therapy: the explanations of one patient",
            discrete_patients.figure4,
            reads_data=True,
        ),
        Figure(
            "discrete-fig5",
            "Therapy: the optimum and simpler policies",
            discrete_therapy.figure5,
            reads_data=True,
        ),
        Figure(
            "discrete-fig6",
            "Therapy: the explanations of five more patients",
            discrete_patients.figure6,
            reads_data=True,
        ),
        Figure(
            "continuous-fig2",
            "Sepsis: search effort against L_h, M and k",
            continuous_search.figure2,
            resumable=True,
        ),
        Figure(
            "continuous-fig3",
            "Sepsis: improvement of the patients, and one patient's course",
            continuous_patients.figure3,
            resumable=True,
        ),
        Figure(
            "continuous-fig5",
            "Sepsis: search effort with different anchors",
            continuous_search.figure5,
            resumable=True,
        ),
        Figure(
            "continuous-fig6",
            "Sepsis: goodness of fit under Lipschitz constraints",
            continuous_fit.figure6,
            resumable=True,
        ),
        *(
            Figure(f"sdmdp-fig{number}", title, run, resumable=True)
            for number, (title, run) in sdmdp_figures.RUNS.items()
        ),
    )
}

# Figures of tabular models, whose counterfactual law the paper samples.
SAMPLED = tuple(name for name in FIGURES if name.startswith("discrete-"))


def reproduce(names: Sequence[str], out: Path, options: Options) -> list[Path]:
    """Compute figures (all, if none is named) and write each as NAME.png and NAME.csv into `out`.

    Returns the files written. Progress is shown on standard error. A resumable figure that is
    stopped leaves NAME.parts.jsonl behind, from which the same call goes on.
    """
    from rich.console import Console
    from rich.progress import Progress

    figures = _chosen(names)
    whole_number(options.seed, "seed")
    if options.data is not None and not any(figure.reads_data for figure in figures):
        readers = ", ".join(name for name, figure in FIGURES.items() if figure.reads_data)
        raise InputError(f"data: no figure asked for reads therapy sessions; name {readers}")
    if options.sampled and not any(figure.name in SAMPLED for figure in figures):
        raise InputError(
            "sampled: no figure asked for rests on the counterfactual law that is sampled; leave "
            f"it out, or name {', '.join(SAMPLED)}"
        )
    if options.data is not None:
        read_sessions(options.data)  # a bad table is told of before anything is made
    targets = _targets(figures, out, options.data)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        for figure, (picture, table) in zip(figures, targets, strict=True):
            parts = out / f"{figure.name}.parts.jsonl" if figure.resumable else None
            own = replace(options, parts=parts)
            _write(figure.run(own, _tracker(progress, figure.name)), picture, table)
            if parts is not None:
                parts.unlink(missing_ok=True)
    return [path for pair in targets for path in pair]


def unexpected(written: Sequence[Path]) -> list[str]:
    """What in the tables among the files is outside of its expected range, a line each."""
    import polars as pl

    tables = [path for path in written if path.suffix == ".csv"]
    read = ((path.stem, pl.read_csv(path, infer_schema_length=None)) for path in tables)
    return [message for name, table in read for message in broken(name, table)]


def _chosen(names: Sequence[str]) -> list[Figure]:
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise InputError(f"unknown figure {unknown[0]!r}: choose from {', '.join(FIGURES)}")
    return [FIGURES[name] for name in dict.fromkeys(names or FIGURES)]


def _targets(
    figures: Sequence[Figure], out: Path, data: Path | None = None
) -> list[tuple[Path, Path]]:
    """Where each figure's picture and table go; fails before any work if they cannot."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(
            f"{out}: cannot be used as a folder: {problem.strerror}; choose another"
        ) from None
    targets = [(out / f"{figure.name}.png", out / f"{figure.name}.csv") for figure in figures]
    for picture, table in targets:
        check_target(picture)
        check_target(table)
        if data is not None and table.exists() and table.samefile(data):
            raise FileError(f"{table}: is read by this command; choose another folder")
    return targets


def _tracker(progress: Progress, name: str) -> Track:
    def track(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
        return progress.track(items, total=total, description=f"{name}, {what}")

    return track


def _write(drawn: Drawn, picture: Path, table: Path) -> None:
    with atomic_file(picture) as file:
        file.write(png_bytes(drawn.drawing))
    with atomic_file(table) as file:
        drawn.numbers.write_csv(file)
