"""`fit`: learns the model that a table asks for.

A schema says what the states are; without one, a cohort table of intensive care gives a neural
model and any other table of discrete episodes a tabular one. Options that are for the other kind of
model are refused.
"""

from __future__ import annotations

import csv
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli.support import (
    SharedOptions,
    argument,
    command,
    from_zero,
    keep_inputs,
    note,
    option,
    output,
    print_json,
    refuse,
    whole_number,
)
from counterplan.core.validation import counted
from counterplan.errors import FileError, InputError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplan.scm.neural import NeuralSCM
    from counterplan.tables.fit import FitSettings
    from counterplan.tables.schema import Schema
    from counterplan.tables.stays import CohortSettings, Stays

# Units of a network; `scm.training` says the same, but takes long to load.
MOST_UNITS = 10_000


def _lipschitz(text: str) -> tuple[float, float]:
    wanted = "is not two positive numbers L_h,L_phi such as 1.0,0.1"
    try:
        location, scale = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(wanted) from None
    if not (0.0 < location < float("inf") and 0.0 < scale < float("inf")):
        raise ValueError(wanted)
    return location, scale


@dataclass(frozen=True, kw_only=True)
class FitOptions(SharedOptions):
    """Options of `counterplan fit`."""

    episodes: Path = argument("Table of episodes: .csv, .parquet or .json.", "EPISODES")
    output: Path = output("Model file to write: .safetensors.", MISSING)
    schema: Path | None = option(
        "What the columns of the table mean (.toml); `counterplan schema` drafts one.",
        metavar="PATH",
    )
    prior: float | None = option(
        "Tabular models: pseudo-count of every transition (1 if not given).",
        parse=from_zero,
        metavar="NUMBER",
    )
    neighbour_prior: bool = option(
        "Tabular models with states in a natural order: pseudo-count 1 for staying or moving to a "
        "neighbour, 0.01 for all other transitions.",
        False,
    )
    bar_unobserved: bool = option(
        "Pairs of state and action that never occur: bar them (reward -inf), so that no "
        "explanation rests on them, or let them earn the state's mean reward.",
        True,
        "--bar-unobserved/--value-unobserved",
    )
    mean_rewards: bool = option(
        "Where the same state and action earned different rewards, take the mean instead of "
        "stopping with an error.",
        False,
    )
    state_labels: str | None = option(
        "Names of the states 0, 1, ... separated by commas.", metavar="NAMES"
    )
    action_labels: str | None = option(
        "Names of the actions 0, 1, ... separated by commas.", metavar="NAMES"
    )
    hidden: int | None = option(
        "Neural models: units of each network (200).",
        parse=whole_number(1, MOST_UNITS),
        metavar="N",
    )
    epochs: int | None = option(
        "Neural models: epochs at most (100).", parse=whole_number(1), metavar="N"
    )
    lipschitz: tuple[float, float] | None = option(
        "Neural models: Lipschitz constants of the location and scale networks (1.0,0.1); tighter "
        "ones make `explain` faster, looser ones fit better.",
        parse=_lipschitz,
        metavar="L_H,L_PHI",
    )
    unconstrained: bool = option("Neural models: networks without such constants.", False)
    support: bool = option(
        "Keep some of the data in the model (scaled states and actions, or counts), so that "
        "`explain` can tell how far it leaves them. Models to be passed on may do better without.",
        True,
        "--support/--no-support",
    )

    @property
    def for_neural(self) -> dict[str, bool]:
        """Options for continuous states alone: which were given."""
        return {
            "--hidden": self.hidden is not None,
            "--epochs": self.epochs is not None,
            "--lipschitz": self.lipschitz is not None,
            "--unconstrained": self.unconstrained,
        }

    @property
    def for_tabular(self) -> dict[str, bool]:
        """Options for discrete states alone: which were given."""
        return {
            "--prior": self.prior is not None,
            "--neighbour-prior": self.neighbour_prior,
            "--value-unobserved": not self.bar_unobserved,
            "--mean-rewards": self.mean_rewards,
        }

    @property
    def for_labels(self) -> dict[str, bool]:
        """Options for discrete states that have no names in the table: which were given."""
        return {
            "--state-labels": self.state_labels is not None,
            "--action-labels": self.action_labels is not None,
        }


@command
def fit(options: FitOptions) -> None:
    """Learn a model from a table of episodes.

    A table of your own needs a --schema that says what its columns mean (`counterplan schema`
    drafts one): where all states are levels or labels a tabular model is estimated, where they are
    measurements a neural one is learned.

    Without a schema the table has one row per step with the columns episode_id, t (0, 1, 2, ...),
    state, action and reward, what the step earned. States and actions are numbers from 0 up, or
    names given with --state-labels and --action-labels; a name that holds a comma goes into double
    quotes. Transition probabilities are posterior means under a Dirichlet prior; the reward of a
    state and action is the one observed for it. The same table always gives the same model.

    Known without a schema are also sepsis cohort tables (one row for each four hours of a stay:
    icustayid, bloc, ...) and stays whose doses are levels already (episode_id, t, a_vaso, a_iv,
    ...), which give neural models.
    """
    from counterplan.core.files import check_target, suffix_of
    from counterplan.tables.stays import fit_cohort, is_cohort_table

    suffix_of(options.output, (".safetensors",), "model files")
    check_target(options.output)
    keep_inputs(options.output, (options.episodes, options.schema))
    table = options.episodes
    if options.schema is not None:
        _by_schema(options, options.schema)
    elif is_cohort_table(table):
        given = options.for_tabular | options.for_labels
        refuse(given, f"is for tables of discrete episodes, but {table} is a cohort table")
        _neural(options, lambda settings: fit_cohort(table, settings))
    else:
        _discrete(options)


def _by_schema(options: FitOptions, path: Path) -> None:
    from counterplan.tables.fit import check_reward, fit_continuous
    from counterplan.tables.layout import SchemaLayout
    from counterplan.tables.schema import read_schema

    schema = read_schema(path)
    try:
        check_reward(SchemaLayout(schema))
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    if schema.is_discrete:
        refuse(options.for_neural, f"is for continuous states, but those of {path} are discrete")
    else:
        refuse(options.for_tabular, f"is for discrete states, but those of {path} are continuous")
    refuse(options.for_labels, f"and --schema exclude each other: write the labels into {path}")
    if schema.is_discrete:
        _discrete_by_schema(options, schema)
    else:
        _neural(options, lambda settings: fit_continuous(options.episodes, schema, settings))


# --- Neural models ----------------------------------------------------------------------------


def _neural(
    options: FitOptions, learn: Callable[[CohortSettings], tuple[NeuralSCM, Stays]]
) -> None:
    from counterplan.tables.stays import CohortSettings

    if options.unconstrained and options.lipschitz is not None:
        raise InputError("--lipschitz and --unconstrained exclude each other: give one of them")
    usual = CohortSettings(seed=options.seed, support=options.support)
    given = {name: getattr(options, name) for name in ("hidden", "epochs", "lipschitz")}
    settings = replace(usual, **{name: one for name, one in given.items() if one is not None})
    if options.unconstrained:
        settings = replace(settings, lipschitz=None)
    try:
        scm, stays = learn(settings)
    except TrainingError as problem:
        hint = "options --lipschitz and --epochs"
        raise TrainingError(f"{options.episodes}: {problem} ({hint})") from None
    scm.save(options.output)
    _print_fit(options, scm, stays)


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


# --- Tabular models ---------------------------------------------------------------------------


def _discrete(options: FitOptions) -> None:
    from counterplan.core.files import check_readable
    from counterplan.tables.fit import check_kind, fit_model
    from counterplan.tables.models import save_model

    if any(options.for_neural.values()):
        check_readable(options.episodes, "a table of episodes")
        check_kind(options.episodes)
        refuse(
            options.for_neural,
            f"is for neural models, but the states of {options.episodes} are discrete: leave it "
            "out, or give a --schema in which they are measurements",
        )
    settings = replace(
        _settings(options),
        state_labels=_names(options.state_labels, "--state-labels"),
        action_labels=_names(options.action_labels, "--action-labels"),
    )
    found = fit_model(options.episodes, settings)
    mdp, counts = found.model, found.counts
    save_model(mdp, options.output)
    episodes, steps = int(counts.starts.sum()), int(counts.visits.sum())
    summary = {
        "model": str(options.output),
        "episodes": episodes,
        "steps": steps,
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "pairs": mdp.rewards.size,
        "observed_pairs": int(counts.observed.sum()),
    }
    _tell(options, summary, f" from {counted(steps, 'step')} of {counted(episodes, 'episode')}")


def _discrete_by_schema(options: FitOptions, schema: Schema) -> None:
    from counterplan.tables.fit import fit_discrete
    from counterplan.tables.models import save_model
    from counterplan.tables.schema import Grid

    found = fit_discrete(options.episodes, schema, _settings(options))
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
    _tell(options, summary, f"; {found.summary}")


def _settings(options: FitOptions) -> FitSettings:
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


def _names(labels: str | None, option: str) -> list[str] | None:
    if labels is None:
        return None
    names = [name.strip() for name in next(csv.reader([labels], skipinitialspace=True), [])]
    if not names or not all(names):
        raise InputError(f"{option} {labels!r}: a name is empty; separate names by single commas")
    if len(set(names)) < len(names):
        raise InputError(f"{option} {labels!r}: a name occurs twice; give each its own")
    return names


def _tell(options: FitOptions, summary: dict[str, Any], data: str) -> None:
    """Prints what was learned; `data` says from what."""
    if options.as_json:
        print_json(summary)
        return
    rest = "barred" if options.bar_unobserved else "given their state's mean reward"
    typer.echo(
        f"{summary['model']}: {counted(summary['states'], 'state')} and "
        f"{counted(summary['actions'], 'action')}{data}; {summary['observed_pairs']:,} of "
        f"{counted(summary['pairs'], 'pair')} of state and action were seen, others are {rest}"
    )
