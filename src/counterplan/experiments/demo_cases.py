"""The demo's deaths, explained, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.counterfactual.explain import frontier
from counterplan.counterfactual.robust import robust_explain, value_interval
from counterplan.domains.icu_sepsis import DEATH, IcuSepsis
from counterplan.scm.tabular import TabularMDP
from counterplan.viz.case import Case, Footing
from counterplan.viz.words import ActionName, main_changes_in_words

FIRM = (Footing.NARROW, Footing.EVERY_MODEL)


@dataclass(frozen=True, eq=False)
class Cohort:
    """The sampled patients and the explained deaths among them, ranked."""

    model: IcuSepsis
    episodes: Sequence[Episode]
    cases: Sequence[Case]
    k: int
    seed: int

    @property
    def improvable(self) -> list[Case]:
        """The deaths that some admissible changes would have made less certain."""
        return [case for case in self.cases if case.improvable]

    @property
    def without_alternative(self) -> list[Case]:
        """Deaths on whose way no state had an admissible action but the one taken."""
        admissible = self.model.mdp.admissible
        assert admissible is not None
        return [
            case
            for case in self.cases
            if (admissible[case.explanation.episode.states[:-1]].sum(axis=1) <= 1).all()
        ]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts and means, ready for JSON."""
        values = np.array([case.frontier.values for case in self.cases])
        in_treatment = sum(int(episode.states[-1]) < DEATH for episode in self.episodes)
        return {
            "patients": len(self.episodes),
            "deaths": len(self.cases),
            "discharged": len(self.episodes) - len(self.cases) - in_treatment,
            "still_in_treatment": in_treatment,
            "improvable": len(self.improvable),
            "without_alternative": len(self.without_alternative),
            "guaranteed": sum(case.footing in (*FIRM, Footing.OTHER_POLICY) for case in self.cases),
            "guaranteed_half": sum(case.robust.value >= 0.5 for case in self.cases),
            "explanation_holds_in_every_model": sum(case.footing in FIRM for case in self.cases),
            "mean_value_by_k": values.mean(axis=0).tolist() if self.cases else [],
            "k": self.k,
            "seed": self.seed,
        }


def explain_case(mdp: TabularMDP, episode: Episode, k: int) -> Case:
    """Everything that is said about one death."""
    explanations = frontier(mdp, episode, k)
    explanation = explanations[-1]
    return Case(
        frontier=explanations,
        interval=value_interval(mdp, episode, explanation),
        stable_interval=value_interval(mdp, episode, explanation, stability=True),
        robust=robust_explain(mdp, episode, k),
        probability_better=explanation.probability_better().value,
    )


class CaseRow(NamedTuple):
    """The numbers of a case; outcomes are survival probabilities.

    value_by_k            the best expected outcome with at most 0, 1, ... changes
    interval, stable      lowest and highest value over all causal models, and over stable ones
    guaranteed_value      what the robust explanation reaches in every causal model
    guaranteed_expected   what the Gumbel-Max model expects of it
    changes               the main changes in words
    """

    patient: str
    steps: int
    observed: float
    value: float
    improvement: float
    improvable: bool
    bound: float
    gap: float
    status: str
    interval_low: float
    interval_high: float
    stable_low: float
    stable_high: float
    guaranteed_value: float
    guaranteed_expected: float
    outcome_sd: float
    probability_better: float
    value_by_k: list[float]
    changes: list[str]


def case_row(case: Case, action_name: ActionName) -> CaseRow:
    """A case as a row."""
    explanation = case.explanation
    return CaseRow(
        patient=case.name,
        steps=len(explanation.episode),
        observed=explanation.factual_value,
        value=explanation.value,
        improvement=explanation.improvement,
        improvable=case.improvable,
        bound=explanation.bound,
        gap=explanation.gap,
        status=explanation.status.value,
        interval_low=case.interval.low,
        interval_high=case.interval.high,
        stable_low=case.stable_interval.low,
        stable_high=case.stable_interval.high,
        guaranteed_value=case.robust.value,
        guaranteed_expected=case.robust.outcome_mean,
        outcome_sd=explanation.outcome_variance**0.5,
        probability_better=case.probability_better,
        value_by_k=list(case.frontier.values),
        changes=main_changes_in_words(case, action_name),
    )
