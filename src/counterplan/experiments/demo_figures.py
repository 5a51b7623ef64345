"""The figures of the demo's page."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import IntArray
from counterplan.counterfactual.distributions import Realizations
from counterplan.counterfactual.robust import robust_explain, value_interval
from counterplan.domains.icu_sepsis import DEATH, LEVELS, SURVIVAL, IcuSepsis
from counterplan.experiments.demo_cases import Cohort
from counterplan.viz.case import Case
from counterplan.viz.distinct import distinct_explanations
from counterplan.viz.figures import (
    IntervalRow,
    StateBand,
    change_strip_figure,
    cohort_figure,
    explanations_figure,
    frontier_figure,
    interval_figure,
    outcome_figure,
)
from counterplan.viz.page import Panel
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.words import counted

SURVIVAL_CHANCE = Quantity("survival probability", percent=True)
REALIZATIONS = 1_000
MOST_INTERVALS = 20


def cohort_panels(cohort: Cohort) -> list[Panel]:
    """Figures about all deaths."""
    if not cohort.cases:
        return []
    gains = [case.explanation.improvement for case in cohort.cases]
    guaranteed = [case.guaranteed_improvement for case in cohort.cases]
    panels = [
        Panel(
            "cohort",
            cohort_figure(gains, guaranteed=guaranteed, quantity=SURVIVAL_CHANCE),
            f"Deaths by how much at most {counted(cohort.k, 'change')} would have raised the "
            "probability of survival. Filled: expected under the Gumbel-Max model. Outline: what "
            "the best robust explanation reaches in every causal model, worst case.",
            f"Histogram of improvements: {len(cohort.improvable)} of {len(cohort.cases)} deaths "
            "could have been improved.",
        )
    ]
    rows = [
        IntervalRow(case.name, case.explanation.value, case.interval, case.robust.value)
        for case in cohort.improvable[:MOST_INTERVALS]
    ]
    if rows:
        panels.append(
            Panel(
                "robustness",
                interval_figure(rows, observed=0.0, quantity=SURVIVAL_CHANCE),
                f"The first {len(rows)} of the ranking: what the explanation is worth under the "
                "Gumbel-Max model (circle), under any other causal model of the same MDP (bar), "
                "and what a robust explanation guarantees (diamond).",
                "Ranges over causal models for the highest ranked deaths; the numbers are in the "
                "table below.",
            )
        )
    return panels


def case_panels(rank: int, case: Case, model: IcuSepsis) -> list[Panel]:
    """Figures about one death."""
    realizations = case.explanation.sample(REALIZATIONS, seed=0)
    return [
        _frontier_panel(rank, case, model),
        _outcome_panel(rank, case, realizations),
        _strip_panel(rank, case, realizations, model),
        _explanations_panel(rank, case, realizations),
    ]


def _frontier_panel(rank: int, case: Case, model: IcuSepsis) -> Panel:
    mdp, episode = model.mdp, case.explanation.episode
    smaller = case.frontier[:-1]
    intervals = [value_interval(mdp, episode, explanation) for explanation in smaller]
    guaranteed = [robust_explain(mdp, episode, explanation.k).value for explanation in smaller]
    values = ", ".join(SURVIVAL_CHANCE.write(value) for value in case.frontier.values)
    return Panel(
        f"case-{rank}-frontier",
        frontier_figure(
            case.frontier,
            intervals=[*intervals, case.interval],
            guaranteed=[*guaranteed, case.robust.value],
            quantity=SURVIVAL_CHANCE,
        ),
        "What each further change brings, and what of it holds in other causal models.",
        f"Survival probability with at most 0, 1, ... changes: {values}.",
    )


def _outcome_panel(rank: int, case: Case, realizations: Realizations) -> Panel:
    explanation = case.explanation
    return Panel(
        f"case-{rank}-outcomes",
        outcome_figure(
            realizations.outcomes,
            explanation.factual_value,
            mean=explanation.value,
            quantity=SURVIVAL_CHANCE,
        ),
        f"Outcomes of {REALIZATIONS:,} sampled counterfactual courses: 0 % where the patient dies "
        "all the same, 100 % where discharged alive, in between where still in treatment at the "
        "time of the observed death.",
        f"Histogram: {share(case.probability_better)} of the courses do not end in death.",
    )


def _strip_panel(rank: int, case: Case, realizations: Realizations, model: IcuSepsis) -> Panel:
    explanation = case.explanation
    likeliest = explanation.most_likely
    bands = [
        _course("observed", explanation.episode.states, model),
        _course("likeliest", likeliest.states, model),
        _mean_course("average", realizations.states, model),
    ]
    return Panel(
        f"case-{rank}-changes",
        change_strip_figure(
            explanation.change_probabilities(),
            bands,
            severity="SOFA score",
            scale=(0.0, float(model.sofa[:DEATH].max())),
        ),
        "How often each step is changed (in %), above the severity of organ failure (SOFA) in the "
        f"observed course, in the single likeliest counterfactual course (probability "
        f"{share(likeliest.probability)}), and on average over those still in treatment. A course "
        "ends where the patient died or was discharged alive.",
        "Steps changed: "
        + ", ".join(
            f"step {t} in {share(p)}"
            for t, p in enumerate(explanation.change_probabilities().sum(axis=1))
            if p >= 0.005
        )
        + ".",
    )


def _explanations_panel(rank: int, case: Case, realizations: Realizations) -> Panel:
    episode = case.explanation.episode
    distinct = distinct_explanations(realizations, episode)
    return Panel(
        f"case-{rank}-explanations",
        explanations_figure(distinct, episode, short_action, most=6, quantity=SURVIVAL_CHANCE),
        f"{_which(len(distinct))} in {REALIZATIONS:,} sampled courses, with frequency f and mean "
        "outcome r (F fluids, V vasopressor).",
        "Table of the most frequent sets of changes.",
    )


def _which(count: int) -> str:
    if count == 1:
        return "The only explanation"
    return (
        f"Which changes are made depends on how the patient responds: "
        f"the most frequent of {count} distinct explanations"
    )


def short_action(action: int) -> str:
    """Such as F2 V0 for fluids 2, vasopressor 0."""
    return f"F{action // LEVELS} V{action % LEVELS}"


def _course(label: str, states: IntArray, model: IcuSepsis) -> StateBand:
    levels = np.where(states < DEATH, model.sofa[states], np.nan)
    return StateBand(label, levels, [_state_text(int(state), model) for state in states])


def _state_text(state: int, model: IcuSepsis) -> str:
    if state < DEATH:
        return f"{model.sofa[state]:.1f}"
    return {DEATH: "died", SURVIVAL: "alive"}.get(state, "")


def _mean_course(label: str, states: IntArray, model: IcuSepsis) -> StateBand:
    """Mean severity over the realizations that are in treatment, step by step."""
    treated = states < DEATH
    counts = treated.sum(axis=0)
    totals = np.where(treated, model.sofa[states], 0.0).sum(axis=0)
    levels = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return StateBand(label, levels, ["" if np.isnan(level) else f"{level:.1f}" for level in levels])
