"""Figures 4 and 6 of the 2021 paper (section 6, appendix E): single therapy patients, k = 3.

Figure 4 looks into the patient whose expected outcome improves most, figure 6 into five more:
spread evenly over the other patients who improve, from the least to the most. Outcomes and changes
have exact distributions; realizations are drawn for what the paper shows of them, that is the best
one and the unique explanations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from counterplan.errors import InputError
from experiments.figure import Drawn, Options, Track
from experiments.panels import canvas, set_title
from experiments.patient_panels import (
    LISTED_EXPLANATIONS,
    PatientView,
    add_outcome_legend,
    draw_course,
    draw_explanations,
    draw_outcomes,
)
from experiments.therapy import TOPICS
from experiments.therapy_sessions import (
    PATIENT_BUDGET,
    REALIZATIONS,
    Patient,
    Sessions,
    explain_patients,
    load_sessions,
)

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

MORE_PATIENTS = 5
OUTCOME = "outcome (sum of 5 − severity)"


def figure4(options: Options, track: Track) -> Drawn:
    """The patient with the largest relative improvement."""
    sessions = load_sessions(options)
    patient = _by_improvement(explain_patients(sessions, options, track))[-1]
    view = _view(patient, options)
    rows = _common_rows(view) + _explanation_rows(view)
    return Drawn(_draw4(view, sessions, options), _numbers(rows, sessions, options))


def figure6(options: Options, track: Track) -> Drawn:
    """Five more patients."""
    sessions = load_sessions(options)
    if len(sessions.episodes) < 2:
        raise InputError(
            f"{sessions.source}: has one patient, whom figure 4 shows; figure 6 needs more"
        )
    patients = _by_improvement(explain_patients(sessions, options, track))[:-1]
    views = [_view(patient, options) for patient in _spread_out(patients)]
    rows = [row for view in views for row in _common_rows(view)]
    return Drawn(_draw6(views, sessions, options), _numbers(rows, sessions, options))


def _by_improvement(patients: Sequence[Patient]) -> list[Patient]:
    return sorted(patients, key=lambda patient: patient.improvement)


def _spread_out(patients: Sequence[Patient]) -> list[Patient]:
    """Up to five patients at even distances among those who improve, the last included."""
    improved = [patient for patient in patients if patient.improvement > 0.0] or patients
    count = min(MORE_PATIENTS, len(improved))
    return [improved[place * len(improved) // count - 1] for place in range(1, count + 1)]


def _view(patient: Patient, options: Options) -> PatientView:
    explanation = patient.optimal[PATIENT_BUDGET]
    realizations = explanation.sample(REALIZATIONS, options.generator(patient.number))
    return PatientView(patient.name, explanation, realizations)


def _common_rows(view: PatientView) -> list[dict[str, Any]]:
    """The numbers in the panels that both figures have."""
    rows: list[dict[str, Any]] = [
        {"quantity": "observed outcome", "value": view.explanation.factual_value},
        {"quantity": "expected outcome", "value": view.explanation.value},
    ]
    for quantity, shares in (
        ("probability of outcome", view.distribution.probabilities),
        ("frequency of outcome", view.frequencies),
    ):
        for outcome, value in zip(view.distribution.values, shares, strict=True):
            rows.append({"quantity": quantity, "outcome": outcome, "value": value})
    for quantity, course in (
        ("probability of change", view.change_probabilities),
        ("observed severity", view.observed_states),
        ("severity in best realization", view.best_states),
    ):
        for t, value in enumerate(course):
            rows.append({"quantity": quantity, "t": t, "value": float(value)})
    return [{"patient": view.name, **row} for row in rows]


def _explanation_rows(view: PatientView) -> list[dict[str, Any]]:
    rows = []
    for number, explanation in enumerate(view.unique, start=1):
        changes = "; ".join(
            f"{change.t}: {TOPICS[change.observed]} > {TOPICS[change.alternative]}"
            for change in explanation.changes
        )
        name = {"patient": view.name, "explanation": number, "changes": changes}
        rows.append(
            {**name, "quantity": "frequency of explanation", "value": explanation.frequency}
        )
        rows.append(
            {**name, "quantity": "mean outcome of explanation", "value": explanation.mean_outcome}
        )
    return rows


def _numbers(rows: list[dict[str, Any]], sessions: Sessions, options: Options) -> pl.DataFrame:
    import polars as pl

    schema = {
        "patient": pl.String,
        "quantity": pl.String,
        "t": pl.Int64,
        "outcome": pl.Float64,
        "explanation": pl.Int64,
        "changes": pl.String,
        "value": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema).with_columns(
        k=pl.lit(PATIENT_BUDGET), kernel=pl.lit(options.kernel), data=pl.lit(sessions.source)
    )


def _draw4(view: PatientView, sessions: Sessions, options: Options) -> Drawing:
    heights = [2.2, 1.4, 0.5 + 0.23 * (1 + min(len(view.unique), LISTED_EXPLANATIONS))]
    title = _title(f"Patient {view.name}", sessions, options)
    drawing = canvas(7.2, 0.9 + sum(heights), title)
    outcomes, course, explanations = drawing.subplots(3, 1, height_ratios=heights)
    draw_outcomes(outcomes, view)
    outcomes.set_xlabel(OUTCOME)
    add_outcome_legend(outcomes, outcomes)
    set_title(outcomes, "(a)  distribution of the outcome")
    draw_course(course, view)
    set_title(course, "(b)  when topics are changed, and how severe the symptoms are")
    draw_explanations(explanations, view)
    set_title(explanations, f"(c)  {_listed(view)}")
    return drawing


def _listed(view: PatientView) -> str:
    """How many unique explanations there are, and how many of them are shown."""
    count = len(view.unique)
    if count > LISTED_EXPLANATIONS:
        return f"the {LISTED_EXPLANATIONS} most frequent of {count} unique explanations"
    return f"all {count} unique explanations" if count else "no explanation changes anything"


def _draw6(views: Sequence[PatientView], sessions: Sessions, options: Options) -> Drawing:
    title = _title("More patients", sessions, options)
    drawing = canvas(9.6, 0.9 + 1.5 * len(views), title)
    rows = drawing.subplots(len(views), 2, squeeze=False, width_ratios=[1.0, 1.9])
    for view, (outcomes, course) in zip(views, rows, strict=True):
        draw_outcomes(outcomes, view)
        draw_course(course, view)
        change = 100.0 * view.explanation.relative_improvement
        set_title(outcomes, f"patient {view.name}: expected {change:+.1f} %")
        if view is not views[-1]:
            course.set_xlabel("")
    rows[-1][0].set_xlabel(OUTCOME)
    add_outcome_legend(drawing, rows[0][0], loc="outside lower left", ncols=5)
    return drawing


def _title(what: str, sessions: Sessions, options: Options) -> str:
    return (
        f"{what}: optimal explanations with k = {PATIENT_BUDGET} "
        f"({sessions.source}, {options.kernel} kernel)"
    )
