"""How to read a report of explanations, and what it does not claim."""

from __future__ import annotations

from counterplan.cohort.subject import DiscreteSubject
from counterplan.core.words import counted
from counterplan.viz.report.source import Source

# The unit of doses that are numbered only.
LEVEL = "level"


def reading(source: Source) -> list[str]:
    """For those who see such a report for the first time."""
    is_discrete = isinstance(source.subject, DiscreteSubject)
    noun, k = source.terms.noun, source.k
    unit = source.terms.unit
    times = f"Times are in {unit}." if unit else "Steps count from 0."
    texts = [
        f"An explanation keeps everything that happened in {_a(noun)}, its luck included, and asks "
        f"what would have happened had at most {counted(k, 'decision')} been different. {times}",
        f"Outcome: {source.outcome}. The improvement is the outcome of the "
        "explanation less the one that was observed.",
    ]
    levels = [dose.name for dose in source.labels.doses if dose.unit == LEVEL]
    if levels:
        texts.append(
            f"Doses of {' and '.join(levels)} are levels, not amounts: 0 is none, and each further "
            "level is more."
        )
    if is_discrete:
        texts.append(
            "What comes next depends on how things respond, so an explanation is a plan: a change "
            "has a probability, and the outcome is an expected one. The changes listed first are "
            "those of the likeliest course."
        )
    texts += [
        "Status: “proved optimal” means that no other choice of so few changes is better in this "
        "model. “Stopped at a limit” means that the best may be better by at most the gap. "
        "“Without proof” comes from a simple method for comparison.",
        "Data: “seen” means that the model speaks of something it has seen. “2 new” means that "
        "two of the changed actions were never taken there; “far” and “new” that the course "
        "leaves the data otherwise. Read such cases with care, or leave them out.",
    ]
    if source.question.robust:
        texts.append(
            "Data alone cannot say what would have happened to the same case under another "
            "decision; that takes a causal model. The range gives the lowest and highest value "
            "over all causal models with the same probabilities: a narrow one does not depend on "
            "that choice, a wide one does. “With stability” leaves out models in which a state "
            "that became relatively less likely happens instead. “Guaranteed” is the value of the "
            "plan whose worst case over all of them is best."
        )
    return texts


def not_claimed(source: Source) -> list[str]:
    """What the numbers must not be taken for."""
    return [
        "It is not advice for the next case. These are answers in hindsight: they know how things "
        "turned out. They show which decisions to review.",
        "It says nothing about blame. Whoever decided could not know what the explanation knows.",
        "“Optimal” is a statement about the model, not about the world. A wrong model has optimal "
        "explanations too.",
        "The ranking picks the largest improvements, which by selection tend to be too good.",
        "Names and outcomes beside the numbers come from the table as it was; nothing here has "
        "checked them.",
        *(
            ["Ranges over causal models cover other causal models, not a wrong model of the data."]
            if source.question.robust
            else []
        ),
    ]


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
