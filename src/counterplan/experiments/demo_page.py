"""What the demo's page says about the ICU-Sepsis patients."""

from __future__ import annotations

from counterplan import __version__
from counterplan.domains.icu_sepsis import IcuSepsis
from counterplan.experiments.demo_cases import Cohort
from counterplan.experiments.demo_figures import SURVIVAL_CHANCE, case_panels, cohort_panels
from counterplan.viz.page import CloseLook, Content, Terms
from counterplan.viz.words import counted

CLOSE_LOOKS = 5
# Budgets up to which the text gives every mean; beyond, only the largest.
FEW = 3


def demo_terms(model: IcuSepsis) -> Terms:
    """The words of sepsis treatment."""
    return Terms(SURVIVAL_CHANCE, model.mdp.action_name, case="patient", cases="deaths")


def demo_content(cohort: Cohort) -> Content:
    """The whole page, figures drawn."""
    summary, allowed = cohort.summary, counted(cohort.k, "change")
    looks = [
        CloseLook(case, case_panels(rank, case, cohort.model))
        for rank, case in enumerate(cohort.improvable[:CLOSE_LOOKS], start=1)
    ]
    return Content(
        kicker="ICU-Sepsis · counterfactual explanations",
        title="What should have been done differently?",
        lead=f"Out of {counted(summary['patients'], 'patient')} with sepsis, sampled from a model "
        f"of real intensive care, {summary['deaths']:,} died. For each death this page says which "
        f"treatment decisions, at most {cohort.k}, would have given the best chance of survival, "
        "how good that chance would have been, and how much of the answer rests on an assumption "
        "that data cannot test.",
        key_numbers=(
            ("patients sampled", f"{summary['patients']:,}"),
            ("deaths, all explained", f"{summary['deaths']:,}"),
            (f"could have been improved with at most {allowed}", f"{summary['improvable']:,}"),
            ("of these, improved in every causal model", f"{summary['guaranteed']:,}"),
        ),
        findings=_findings(cohort),
        panels=cohort_panels(cohort),
        cases=cohort.cases,
        leftover=_leftover(cohort),
        close_looks=looks,
        reading=_reading(cohort.k),
        not_claimed=NOT_CLAIMED,
        sources=(*SOURCES, _made_with(cohort)),
    )


def _findings(cohort: Cohort) -> list[str]:
    summary = cohort.summary
    if not cohort.cases:
        return ["No sampled patient died, so there is nothing to explain: sample more patients."]
    means = [SURVIVAL_CHANCE.write(value) for value in summary["mean_value_by_k"]]
    gains = "; ".join(
        f"{means[budget]} with at most {counted(budget, 'change')}"
        for budget in range(1, cohort.k + 1)
        if budget <= FEW or budget == cohort.k
    )
    findings = []
    if gains:
        findings.append(
            f"Averaged over all {summary['deaths']} deaths, the probability of survival rises "
            f"from 0 % to {gains}."
        )
    if cohort.improvable:
        findings.append(
            f"In {summary['guaranteed']} of the {summary['improvable']} improvable deaths some "
            "choice of changes helps in every causal model that fits the data. In "
            f"{summary['explanation_holds_in_every_model']} of them that is already true of the "
            "best explanation itself; in the others its full value rests on the causal "
            "assumption, and a more careful explanation gives less but gives it surely. "
            f"{summary['guaranteed_half']} deaths have a guaranteed survival probability of at "
            "least 50 %."
        )
    return findings


def _leftover(cohort: Cohort) -> str:
    rest = [case for case in cohort.cases if not case.improvable]
    if not rest:
        return ""
    names = ", ".join(case.name for case in rest)
    alone = len(cohort.without_alternative)
    reason = (
        f" In {'all' if alone == len(rest) else alone} of them the records show only one treatment "
        "for patients in every state they passed through, so there is nothing to compare it with."
    )
    return (
        f"{counted(len(rest), 'death')} would not have been improved by any admissible change: "
        f"{names}.{reason if alone else ''}"
    )


def _reading(k: int) -> list[str]:
    return [
        "A step is four hours of care. Steps count from 0. At each step a patient is in one of 713 "
        "states (groups of similar patients), and clinicians choose one of five levels each of "
        "intravenous fluids and vasopressors, 0 for none and 4 for most.",
        "The outcome is a probability of survival: 0 % for a death, 100 % for a discharge, and for "
        "whoever would still be in treatment when the observed patient died, the chance of "
        "surviving from there under usual care.",
        "An explanation keeps everything that happened, the patient's luck included, and asks what "
        f"would have happened had at most {k} decisions been different. What comes next depends on "
        "how the patient responds, so an explanation is a plan: a change has a probability.",
        "Only admissible changes are considered: treatments that clinicians chose often enough in "
        "that state for their effect to be known.",
        "Each value is exact, not sampled: status optimal with gap 0 means that no other plan "
        "with so few changes has a higher value in this model.",
        "Data alone cannot say what would have happened to the same patient under another "
        "treatment; that takes a causal model, here the Gumbel-Max model. The range gives the "
        "lowest and highest value over all causal models with the same transition probabilities. "
        "A narrow range does not depend on that choice; a wide one does. “With stability” leaves "
        "out models in which a state that became relatively less likely happens instead.",
        "“Guaranteed” is the value of the robust explanation: the plan with the best worst case "
        "over all those models. It gives up some expected survival for certainty.",
    ]


NOT_CLAIMED = (
    "This is not medical advice. ICU-Sepsis is a benchmark and its authors ask not to draw "
    "conclusions for medical practice from it.",
    "The patients are simulated. No record of a real person is shown.",
    "No unobserved confounding is assumed: that the recorded state holds all that guided both "
    "treatment and course. Real records do not guarantee it. The ranges cover other causal models, "
    "not a wrong model of the patients.",
    "The model is taken as known. Its transition probabilities are estimates from MIMIC-III, some "
    "from few patients, and their error is not in the numbers.",
    "These are answers in hindsight: they know how the patient responded. They show which "
    "decisions to review, not how to treat the next patient, and say nothing about blame.",
    "The ranking picks the largest improvements, which by selection tend to be optimistic.",
)

SOURCES = (
    "Model: ICU-Sepsis version 2 (package icu-sepsis 2.0.1, MIT licence), built from MIMIC-III. "
    "K. Choudhary, D. Gupta, P. S. Thomas: ICU-Sepsis: A Benchmark MDP Built from Real Medical "
    "Data, Reinforcement Learning Conference, 2024.",
    "Method: S. Tsirtsis, A. De, M. Gomez Rodriguez: Counterfactual Explanations in Sequential "
    "Decision Making Under Uncertainty, NeurIPS, 2021; here with an exact counterfactual law.",
)


def _made_with(cohort: Cohort) -> str:
    return (
        f"Made by counterplan {__version__}: counterplan demo --patients {len(cohort.episodes)} "
        f"--seed {cohort.seed} --k {cohort.k}. All numbers are in cases.csv beside this page."
    )
