"""`fit` and `explain` on sepsis cohort tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli_explanations import (
    Column,
    chosen,
    limits_of,
    number,
    print_explanations,
    solver_of,
)
from counterplan.cli_options import COHORT_SECONDS, ExplainOptions, FitOptions, SolverName
from counterplan.cli_support import note, print_json, tracked
from counterplan.errors import CounterplanError, FileError, InputError, TrainingError

if TYPE_CHECKING:
    from counterplan.io.cohorts import Outlier
    from counterplan.io.stay_tables import Layout, Stays
    from counterplan.scm.neural import NeuralSCM


def fit_table(options: FitOptions) -> None:
    """Learn a neural model and say how well it fits."""
    from counterplan.io.cohorts import CohortSettings, fit_cohort

    _refuse_tabular(options)
    usual = CohortSettings(seed=options.seed)
    lipschitz = usual.lipschitz if options.lipschitz is None else options.lipschitz
    settings = CohortSettings(
        usual.hidden if options.hidden is None else options.hidden,
        usual.epochs if options.epochs is None else options.epochs,
        None if options.unconstrained else lipschitz,
        options.seed,
    )
    try:
        scm, stays = fit_cohort(options.episodes, settings)
    except TrainingError as problem:
        hint = "options --lipschitz and --epochs"
        raise TrainingError(f"{options.episodes}: {problem} ({hint})") from None
    scm.save(options.output)
    _print_fit(options, scm, stays)


def _refuse_tabular(options: FitOptions) -> None:
    given = {
        "--prior": options.prior is not None,
        "--neighbour-prior": options.neighbour_prior,
        "--value-unobserved": not options.bar_unobserved,
        "--mean-rewards": options.mean_rewards,
        "--state-labels": options.state_labels is not None,
        "--action-labels": options.action_labels is not None,
    }
    wrong = next((name for name, is_given in given.items() if is_given), None)
    if wrong:
        raise InputError(
            f"{wrong} is for tables of discrete episodes, but {options.episodes} is a cohort table"
        )
    if options.unconstrained and options.lipschitz is not None:
        raise InputError("--lipschitz and --unconstrained exclude each other: give one of them")


def _print_fit(options: FitOptions, scm: NeuralSCM, stays: Stays) -> None:
    from counterplan.io.cohorts import EDGES, poor_fit

    record = scm.about["training"]
    best = record["best_epoch"]
    summary = {
        "model": str(options.output),
        "table": stays.summary,
        "episodes": len(stays.episodes),
        "dropped": len(stays.dropped),
        "transitions": record["transitions"] + record["validation_transitions"],
        "features": len(scm.about["features"]),
        "epochs": record["epochs"],
        "best_epoch": best,
        "validation_log_likelihood": -record["validation_nll"][best - 1],
        "lipschitz": {"location": scm.location.lipschitz, "scale": scm.scale.lipschitz},
        **{f"{kind}_log_likelihood": -loss for kind, loss in record["reference_nll"].items()},
        EDGES: scm.about.get(EDGES),
    }
    if better := poor_fit(scm):
        note(
            f"warning: {better}: do not trust explanations by this model; train for more --epochs, "
            "on more stays, or allow larger --lipschitz constants"
        )
    if options.as_json:
        print_json(summary)
        return
    typer.echo(
        f"{options.output}: {summary['features']} features, {summary['transitions']} transitions; "
        f"{stays.summary}; validation log-likelihood "
        f"{summary['validation_log_likelihood']:.3f} nats in epoch {best} of {record['epochs']}; "
        f"Lipschitz constants {scm.location.lipschitz:.4g} and {scm.scale.lipschitz:.4g}"
    )


def explain_table(options: ExplainOptions, scm: NeuralSCM) -> None:
    """Explain the stays of a table."""
    from counterplan.io.cohorts import stays_for
    from counterplan.io.explanations import write_explanations

    if options.robust:
        raise InputError(
            "--robust is for discrete models: a neural model has one counterfactual, no range"
        )
    stays, layout = stays_for(scm, options.model, options.episodes)
    asked = _asked(options, stays)
    try:
        records = _explained(options, scm, asked, layout)
    except CounterplanError as problem:
        raise type(problem)(f"{options.episodes}: {problem}") from None
    methods = ", ".join(sorted({record["method"] for record in records}))
    document = {
        "k": options.k,
        "solver": options.solver.value,
        "method": methods,
        "explanations": records,
    }
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        print_json(document)
        return
    proof = methods if options.solver is SolverName.EXACT else "no bound"
    detail = f" ({proof}), outcome: summed -SOFA"
    print_explanations(options, records, "stay", detail, {"proof": Column("left", _proof)})
    if not options.episode:
        note(f"{stays.summary}.")


def _asked(options: ExplainOptions, stays: Stays) -> Stays:
    """Those to be explained."""
    for name in options.episode or ():
        if name in stays.dropped:
            reason = stays.dropped[name]
            raise FileError(f"{options.episodes}: stay {name!r} is left out: {reason}")
    hours = {episode.id: times for episode, times in zip(stays.episodes, stays.hours, strict=True)}
    asked = chosen(options, stays.episodes, "stay")
    return replace(
        stays, episodes=tuple(asked), hours=tuple(hours[episode.id] for episode in asked)
    )


def _explained(
    options: ExplainOptions, scm: NeuralSCM, stays: Stays, layout: Layout
) -> list[dict[str, Any]]:
    """A record for each stay, largest improvement first."""
    from counterplan.core.constraints import Constraints
    from counterplan.counterfactual.astar import AStar
    from counterplan.counterfactual.explain import explain
    from counterplan.io.cohorts import outliers, stay_record

    far = [outliers(scm, layout, episode) for episode in stays.episodes]
    _warn_of_outliers([outlier for found in far for outlier in found])
    solver, limits = solver_of(options, AStar()), limits_of(options, COHORT_SECONDS)
    records = []
    parts = list(zip(stays.episodes, stays.hours, far, strict=True))
    for episode, hours, outside in tracked(parts, "explaining"):
        found = explain(
            scm,
            episode,
            options.k,
            actions=layout.action_set(episode),
            reward=layout.reward(),
            constraints=Constraints(max_move=options.max_move),
            solver=solver,
            limits=limits,
        )
        records.append(stay_record(found, hours, outside))
    return sorted(records, key=lambda record: -record["improvement"])


def _warn_of_outliers(found: Sequence[Outlier]) -> None:
    if not found:
        return
    stay, column, value, low, high = found[0]
    others = len(found) - 1
    more = f" (and {others} more like it, see far_outside_training in --json)" if others else ""
    note(
        f"warning: stay {stay!r}, column {column!r}: {value:g} is far outside what the model has "
        f"learned from, {low:g} to {high:g}; what it says about this stay means nothing{more}"
    )


def _proof(record: Mapping[str, Any]) -> str:
    status = str(record["status"])
    return f"limit, gap {number(record['gap'])}" if status == "limit" else status
