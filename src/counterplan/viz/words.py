"""Changes, certificates and robustness in sentences."""

from __future__ import annotations

from collections.abc import Callable

from counterplan.core.result import Change, Explanation
from counterplan.viz.case import Case, Footing
from counterplan.viz.quantity import Quantity, share

ActionName = Callable[[int], str]


def counted(number: int, noun: str) -> str:
    """Such as "1 change" and "1,200 changes"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def change_in_words(change: Change, action_name: ActionName) -> str:
    """Such as "step 3: fluids 2, vasopressor 0 -> fluids 1, vasopressor 2"."""
    before, after = action_name(change.observed), action_name(change.alternative)
    return f"step {change.t}: {before} -> {after}"


def main_changes_in_words(case: Case, action_name: ActionName) -> list[str]:
    """The main changes with their probabilities, in the order of their steps."""
    return [
        f"{change_in_words(likely.change, action_name)} ({share(likely.probability)})"
        for likely in case.main_changes
    ]


def certificate_in_words(explanation: Explanation, quantity: Quantity) -> str:
    """What is proved about the value."""
    value, bound = quantity.write(explanation.value), quantity.write(explanation.bound)
    if explanation.gap == 0.0:
        return (
            f"Value {value}, upper bound {bound}, gap 0, status {explanation.status.value}. "
            f"{explanation.status.advice}"
        )
    return (
        f"Value {value}, upper bound {bound}, gap {quantity.write_gain(explanation.gap)}, "
        f"status {explanation.status.value}. {explanation.status.advice}"
    )


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
