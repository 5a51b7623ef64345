"""`fit` on tables of continuous states: learning a neural model, and how well it fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from counterplan.cli.fit_kinds import label_options, tabular_options
from counterplan.cli.options import FitOptions
from counterplan.cli.support import note, print_json, refuse
from counterplan.errors import InputError, TrainingError

if TYPE_CHECKING:
    from counterplan.io.stay_models import CohortSettings
    from counterplan.io.stay_tables import Stays
    from counterplan.scm.neural import NeuralSCM


Learn = Callable[["CohortSettings"], "tuple[NeuralSCM, Stays]"]


def fit_cohort_table(options: FitOptions) -> None:
    """Learn from a table of ICU stays."""
    from counterplan.io.stay_models import fit_cohort

    given = {**tabular_options(options), **label_options(options)}
    refuse(given, f"is for tables of discrete episodes, but {options.episodes} is a cohort table")
    fit_neural(options, lambda settings: fit_cohort(options.episodes, settings))


def fit_neural(options: FitOptions, learn: Learn) -> None:
    """Learn a neural model and say how well it fits."""
    try:
        scm, stays = learn(_settings(options))
    except TrainingError as problem:
        hint = "options --lipschitz and --epochs"
        raise TrainingError(f"{options.episodes}: {problem} ({hint})") from None
    scm.save(options.output)
    _print_fit(options, scm, stays)


def _settings(options: FitOptions) -> CohortSettings:
    from counterplan.io.stay_models import CohortSettings

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


def _print_fit(options: FitOptions, scm: NeuralSCM, stays: Stays) -> None:
    from counterplan.io.stay_models import EDGES, poor_fit

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
            "on more episodes, or allow larger --lipschitz constants"
        )
    if options.as_json:
        print_json(summary)
        return
    typer.echo(
        f"{options.output}: {summary['features']} features, {summary['transitions']} transitions; "
        f"{stays.summary}; validation log-likelihood "
        f"{summary['validation_log_likelihood']:.3f} (linear regression: "
        f"{summary['linear_log_likelihood']:.3f}) nats in epoch {best} of {record['epochs']}; "
        f"Lipschitz constants {scm.location.lipschitz:.4g} and {scm.scale.lipschitz:.4g}"
    )
