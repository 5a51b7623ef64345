"""Models learned from sepsis cohort tables, and explanations of the stays in them.

A model remembers the dose edges of the cohort it was learned from, so that a level means the same
dose in every table it is used on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from counterplan.core.validation import whole_number
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.domains import sepsis
from counterplan.domains.sepsis import DoseEdges, SepsisCohort
from counterplan.domains.sepsis_table import BLOC, STAY
from counterplan.errors import FileError, InputError
from counterplan.io.dose_changes import HOURS, DoseChange, dose_changes
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.training import Training, constants
from counterplan.scm.transitions import Transitions

EDGES = "dose_edges"


@dataclass(frozen=True)
class CohortSettings:
    """How a model is learned from a cohort; see `NeuralSCM.fit`."""

    hidden: int = 200
    epochs: int = 100
    lipschitz: tuple[float, float] | None = (1.0, 0.1)
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.hidden, "hidden", minimum=1)
        whole_number(self.epochs, "epochs", minimum=1)
        constants(self.lipschitz)


def is_cohort_table(path: str | Path) -> bool:
    """Whether the file's header names the stays or four-hour blocs of a cohort table."""
    if Path(path).suffix.lower() != ".csv":
        return False
    try:
        with Path(path).open("rb") as file:
            header = file.readline(100_000).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return False  # whoever reads the table says what is wrong
    names = {name.strip().strip('"') for name in header.split(",")}
    return bool(names & {STAY, BLOC})


def fit_cohort(path: str | Path, settings: CohortSettings) -> tuple[NeuralSCM, SepsisCohort]:
    """Learn a model from a table."""
    cohort = sepsis.read_cohort(path)
    try:
        scm = NeuralSCM.fit(
            Transitions.collect(cohort.episodes, None, sepsis.FEATURES, sepsis.ACTIONS),
            hidden=settings.hidden,
            lipschitz=settings.lipschitz,
            epochs=settings.epochs,
            seed=settings.seed,
            fixed=len(sepsis.FIXED),
            training=Training(scaling=sepsis.scaling(cohort)),
        )
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    edges = {
        "vasopressor": list(cohort.edges.vasopressor),
        "fluids": list(cohort.edges.fluids),
    }
    return replace(scm, about={**scm.about, EDGES: edges}), cohort


def cohort_for(scm: NeuralSCM, model: str | Path, table: str | Path) -> SepsisCohort:
    """The stays of a table, with the dose levels of the cohort that the model was learned from."""
    try:
        scm.check_schema(sepsis.FEATURES, sepsis.ACTIONS)
    except InputError as problem:
        raise FileError(f"{model}: does not fit cohort tables: {problem}") from None
    return sepsis.read_cohort(table, edges=_edges(scm, model))


def cohort_record(explanation: SequenceExplanation) -> dict[str, Any]:
    """What an explanation of a stay says, as numbers and texts; outcomes are -SOFA, summed."""
    return {
        "episode": explanation.episode.id,
        "steps": len(explanation.episode),
        "observed": explanation.factual_value,
        "value": explanation.value,
        "improvement": explanation.improvement,
        "relative_improvement": _finite(explanation.relative_improvement),
        "bound": _finite(explanation.bound),
        "gap": _finite(explanation.gap),
        "status": explanation.status.value,
        "method": explanation.method,
        "changes": _changes(explanation),
    }


def _changes(explanation: SequenceExplanation) -> list[dict[str, Any]]:
    """One for each changed step, with the levels of the drugs that change."""
    steps: dict[int, list[DoseChange]] = {}
    for change in dose_changes(explanation):
        steps.setdefault(change.t, []).append(change)
    return [
        {
            "t": t,
            "hours": HOURS * t,
            "observed": {change.drug: change.observed for change in changes},
            "alternative": {change.drug: change.alternative for change in changes},
            "text": f"at {HOURS * t} h: {', '.join(map(str, changes))}",
        }
        for t, changes in steps.items()
    ]


def _edges(scm: NeuralSCM, model: str | Path) -> DoseEdges:
    stored = scm.about.get(EDGES)
    if not isinstance(stored, Mapping) or set(stored) != {"vasopressor", "fluids"}:
        raise FileError(
            f"{model}: does not say which doses make which level, so it was not learned from a "
            "cohort table; use `counterplan fit` on one"
        )
    try:
        low, high = (tuple(map(float, stored[drug])) for drug in ("vasopressor", "fluids"))
        return DoseEdges(low, high)  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        raise FileError(f"{model}: its dose levels are damaged: {problem}") from None


def _finite(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))
