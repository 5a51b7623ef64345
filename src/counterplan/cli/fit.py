"""`fit`: which kind of model a table asks for, and models of discrete episodes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplan.cli.options import FitOptions, SharedOptions
from counterplan.cli.support import first_given, keep_inputs, note, print_json, refuse
from counterplan.core.validation import counted
from counterplan.errors import FileError, InputError, TrainingError

if TYPE_CHECKING:
    from counterplan.scm.neural import NeuralSCM
    from counterplan.tables.fit import FitSettings
    from counterplan.tables.schema import Schema
    from counterplan.tables.stays import CohortSettings, Stays

# ----------------------------------------------------------------------------------------------
# Options of `fit` that are for one kind of model alone: which of them were given.


def neural_options(options: FitOptions) -> dict[str, bool]:
    """Those for continuous states."""
    return {
        "--hidden": options.hidden is not None,
        "--epochs": options.epochs is not None,
        "--lipschitz": options.lipschitz is not None,
        "--unconstrained": options.unconstrained,
    }


def tabular_options(options: FitOptions) -> dict[str, bool]:
    """Those for discrete states."""
    return {
        "--prior": options.prior is not None,
        "--neighbour-prior": options.neighbour_prior,
        "--value-unobserved": not options.bar_unobserved,
        "--mean-rewards": options.mean_rewards,
    }


def label_options(options: FitOptions) -> dict[str, bool]:
    """Those for discrete states that have no names in the table."""
    return {
        "--state-labels": options.state_labels is not None,
        "--action-labels": options.action_labels is not None,
    }


# ----------------------------------------------------------------------------------------------
# `fit` on tables of continuous states: learning a neural model, and how well it fits.

Learn = Callable[["CohortSettings"], "tuple[NeuralSCM, Stays]"]


def fit_cohort_table(options: FitOptions) -> None:
    """Learn from a table of ICU stays."""
    from counterplan.tables.stays import fit_cohort

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
    from counterplan.tables.stays import CohortSettings

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
    from counterplan.tables.stays import EDGES, poor_fit

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


# ----------------------------------------------------------------------------------------------
# `fit` on tables of discrete states: what was asked, and what came of it.


def settings_of(options: FitOptions) -> FitSettings:
    """How to learn, without names for states and actions."""
    from counterplan.tables.fit import FitSettings

    if options.prior is not None and options.neighbour_prior:
        raise InputError("--prior and --neighbour-prior exclude each other: give one of them")
    usual = 1.0 if options.prior is None else options.prior
    return FitSettings(
        prior=None if options.neighbour_prior else usual,
        bar_unobserved=options.bar_unobserved,
        mean_rewards=options.mean_rewards,
        support=options.support,
    )


def tell(options: FitOptions, summary: Mapping[str, Any], data: str) -> None:
    """Print what was learned; `data` says from what."""
    if options.as_json:
        print_json(summary)
        return
    rest = "barred" if options.bar_unobserved else "given their state's mean reward"
    text = (
        f"{summary['model']}: {counted(summary['states'], 'state')} and "
        f"{counted(summary['actions'], 'action')}{data}; {summary['observed_pairs']:,} of "
        f"{counted(summary['pairs'], 'pair')} of state and action were seen, others are {rest}"
    )
    typer.echo(text)


# ----------------------------------------------------------------------------------------------
# `schema`, and `fit` on a table with a schema.


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(SharedOptions):
    """Options of `counterplan schema`."""

    episodes: Annotated[
        Path, typer.Argument(help="Table of episodes: .csv or .parquet.", metavar="EPISODES")
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Schema file to write: .toml."),
    ] = None


def write_draft(options: SchemaOptions) -> None:
    """Draft the schema of a table; print it, or write it to a file."""
    from counterplan.core.files import atomic_file, check_target, suffix_of
    from counterplan.tables.draft import draft
    from counterplan.tables.schema import schema_toml

    if options.output is not None:
        suffix_of(options.output, (".toml",), "schema files")
        check_target(options.output)
        if options.output.exists():
            raise InputError(f"{options.output}: exists already; remove it or choose another name")
    found = draft(options.episodes)
    text = schema_toml(found.schema, found.head, found.comments)
    if options.output is not None:
        with atomic_file(options.output) as file:
            file.write(text.encode())
    if options.as_json:
        print_json(
            {
                "schema": found.schema.as_dict(),
                "comments": found.comments,
                "episodes": found.episodes,
                "rows": found.rows,
            }
        )
    elif options.output is None:
        typer.echo(text, nl=False)
    else:
        roles = found.schema.columns
        note(f"Wrote {options.output}: {len(roles)} columns. Read it and correct the roles.")


def fit_by_schema(options: FitOptions) -> None:
    """Learn the model that the schema asks for."""
    from counterplan.tables.fit import check_reward
    from counterplan.tables.layout import SchemaLayout
    from counterplan.tables.schema import read_schema

    assert options.schema is not None
    schema = read_schema(options.schema)
    try:
        check_reward(SchemaLayout(schema))
    except InputError as problem:
        raise FileError(f"{options.schema}: {problem}") from None
    if schema.is_discrete:
        _schema_fit_discrete(options, schema)
    else:
        _fit_continuous(options, schema)


def _schema_fit_discrete(options: FitOptions, schema: Schema) -> None:
    from counterplan.tables.fit import fit_discrete
    from counterplan.tables.grid import Grid
    from counterplan.tables.models import save_model

    why = f"is for continuous states, but those of {options.schema} are discrete"
    refuse(neural_options(options), why)
    _refuse_labels(options)
    found = fit_discrete(options.episodes, schema, settings_of(options))
    save_model(found.model, options.output)
    # A last row without an action is no pair.
    observed = found.counts.observed[:, : len(Grid(schema.of("action")))]
    summary = {
        "model": str(options.output),
        "table": found.summary,
        "episodes": int(found.counts.starts.sum()),
        "steps": int(found.counts.visits.sum()),
        "states": found.model.n_states,
        "actions": observed.shape[1],
        "pairs": observed.size,
        "observed_pairs": int(observed.sum()),
    }
    tell(options, summary, f"; {found.summary}")


def _fit_continuous(options: FitOptions, schema: Schema) -> None:
    from counterplan.tables.fit import fit_continuous

    why = f"is for discrete states, but those of {options.schema} are continuous"
    refuse(tabular_options(options), why)
    _refuse_labels(options)
    fit_neural(options, lambda settings: fit_continuous(options.episodes, schema, settings))


def _refuse_labels(options: FitOptions) -> None:
    why = f"and --schema exclude each other: write the labels into {options.schema}"
    refuse(label_options(options), why)


# ----------------------------------------------------------------------------------------------


def learn(options: FitOptions) -> None:
    """Learn the model that the table asks for, and say what came of it."""
    from counterplan.core.files import check_target, suffix_of
    from counterplan.tables.stays import is_cohort_table

    suffix_of(options.output, (".safetensors",), "model files")
    check_target(options.output)
    keep_inputs(options.output, (options.episodes, options.schema))
    if options.schema is not None:
        fit_by_schema(options)
        return
    if is_cohort_table(options.episodes):
        fit_cohort_table(options)
        return
    _fit_discrete(options)


def _fit_discrete(options: FitOptions) -> None:
    from counterplan.tables.fit import fit_model
    from counterplan.tables.models import save_model

    _refuse_neural(options)
    settings = replace(
        settings_of(options),
        state_labels=_names(options.state_labels, "--state-labels"),
        action_labels=_names(options.action_labels, "--action-labels"),
    )
    mdp, counts = fit_model(options.episodes, settings)
    save_model(mdp, options.output)
    summary = {
        "model": str(options.output),
        "episodes": int(counts.starts.sum()),
        "steps": int(counts.visits.sum()),
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "pairs": mdp.rewards.size,
        "observed_pairs": int(counts.observed.sum()),
    }
    steps = counted(int(counts.visits.sum()), "step")
    tell(options, summary, f" from {steps} of {counted(int(counts.starts.sum()), 'episode')}")


def _refuse_neural(options: FitOptions) -> None:
    from counterplan.core.files import check_readable
    from counterplan.tables.fit import check_kind

    if wrong := first_given(neural_options(options)):
        check_readable(options.episodes, "a table of episodes")
        check_kind(options.episodes)
        raise InputError(
            f"{wrong} is for neural models, but the states of {options.episodes} are discrete: "
            "leave it out, or give a --schema in which they are measurements"
        )


def _names(labels: str | None, option: str) -> list[str] | None:
    if labels is None:
        return None
    names = [name.strip() for name in next(csv.reader([labels], skipinitialspace=True), [])]
    if not names or not all(names):
        raise InputError(f"{option} {labels!r}: a name is empty; separate names by single commas")
    if len(set(names)) < len(names):
        raise InputError(f"{option} {labels!r}: a name occurs twice; give each its own")
    return names
