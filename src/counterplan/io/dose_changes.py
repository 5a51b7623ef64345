"""Which doses an explanation of a sepsis patient changes, and how that is said."""

from __future__ import annotations

from typing import NamedTuple

from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.domains.sepsis_table import LEVELS

DRUGS = ("vasopressor", "fluids")


class DoseChange(NamedTuple):
    """At step t the level of a drug is `alternative` instead of `observed`."""

    t: int
    drug: str
    observed: int
    alternative: int

    def __str__(self) -> str:
        return f"{self.drug} {self.observed} -> {self.alternative}"


def dose_changes(explanation: SequenceExplanation) -> list[DoseChange]:
    """One for each drug whose level changes; actions are numbered 5 * vasopressor + fluids."""
    found = []
    for t, observed, alternative in explanation.changes:
        levels = zip(DRUGS, divmod(observed, LEVELS), divmod(alternative, LEVELS), strict=True)
        found += [DoseChange(t, drug, old, new) for drug, old, new in levels if old != new]
    return found
