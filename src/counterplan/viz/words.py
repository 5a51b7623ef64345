"""Changes, certificates and robustness in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterplan.core.result import Status
from counterplan.core.words import counted
from counterplan.viz.case import Case, Footing
from counterplan.viz.quantity import Quantity


def certificate_in_words(row: Mapping[str, Any], quantity: Quantity) -> str:
    """What is proved about the value of a row of results."""
    status = Status(row["status"])
    value = quantity.write(row["value"])
    if status is Status.HEURISTIC:
        return f"Value {value}, status {status.value}. {status.advice}"
    gap = "0" if row["gap"] == 0.0 else quantity.write_gain(row["gap"])
    bound = quantity.write(row["bound"])
    return f"Value {value}, bound {bound}, gap {gap}, status {status.value}. {status.advice}"


def robustness_in_words(case: Case, quantity: Quantity) -> str:
    """How much of the improvement rests on the causal assumption."""
    explanation, footing = case.explanation, case.footing
    changes = counted(explanation.k, "change")
    low, high = case.interval
    extent = quantity.write_range(low, high)
    robust = quantity.write(case.robust.value)
    if footing is Footing.NONE:
        return "No admissible change improves the outcome, whatever the causal model."
    if footing is Footing.NARROW:
        return (
            f"Narrow range: every causal model that fits the same MDP puts this explanation at "
            f"{extent}. Even the worst case improves on what was observed, so little rests on "
            "the causal assumption."
        )
    if footing is Footing.EVERY_MODEL:
        return (
            f"Wide range, but always better: depending on the causal model this explanation is "
            f"worth {extent}. That it improves on what was observed holds in every model; how "
            f"much it improves rests on the causal assumption."
        )
    wide = (
        f"Wide range: depending on the causal model this explanation is worth {extent}, so its "
        f"size rests on the causal assumption."
    )
    if footing is Footing.OTHER_POLICY:
        return (
            f"{wide} An improvement does not: another plan with at most {changes} reaches at "
            f"least {robust} in every causal model."
        )
    return f"{wide} No plan with at most {changes} improves the outcome in every causal model."
