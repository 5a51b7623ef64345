"""`fit` and `explain` on sepsis cohort tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from counterplan.cli_options import FitOptions
from counterplan.cli_support import note, print_json
from counterplan.errors import InputError, TrainingError

if TYPE_CHECKING:
    from counterplan.io.cohorts import CohortSettings
    from counterplan.io.stay_tables import Stays
    from counterplan.scm.neural import NeuralSCM


def fit_table(options: FitOptions) -> None:
    """Learn a neural model and say how well it fits."""
    from counterplan.io.cohorts import fit_cohort

    _refuse_tabular(options)
    try:
        scm, stays = fit_cohort(options.episodes, settings_of(options))
    except TrainingError as problem:
        hint = "options --lipschitz and --epochs"
        raise TrainingError(f"{options.episodes}: {problem} ({hint})") from None
    scm.save(options.output)
    print_fit(options, scm, stays)


def settings_of(options: FitOptions) -> CohortSettings:
    """How to learn a neural model."""
    from counterplan.io.cohorts import CohortSettings

    if options.unconstrained and options.lipschitz is not None:
        raise InputError("--lipschitz and --unconstrained exclude each other: give one of them")
    usual = CohortSettings(seed=options.seed)
    lipschitz = usual.lipschitz if options.lipschitz is None else options.lipschitz
    return CohortSettings(
        usual.hidden if options.hidden is None else options.hidden,
        usual.epochs if options.epochs is None else options.epochs,
        None if options.unconstrained else lipschitz,
        options.seed,
        options.support,
    )


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


def print_fit(options: FitOptions, scm: NeuralSCM, stays: Stays) -> None:
    """Say what was learned from how much, and how well it fits."""
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
