"""`fit`: learns the model that a table asks for.

A schema says what the states are; without one, a cohort table of intensive care gives a learned
model of continuous states and any other table of discrete episodes a tabular one. With --process
the table is a record of prices, and its law is what is learned. Options that are for another kind
of model are refused.
"""

from __future__ import annotations

import csv
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from counterplan.cli import support as cli
from counterplan.errors import FileError, InputError, TrainingError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplan.tables.fit import Fit
    from counterplan.tables.layout import SchemaLayout
    from counterplan.tables.quality import Finding
    from counterplan.tables.schema import Schema

# Units of a network; `scm.training` says the same, but takes long to load.
MOST_UNITS = 10_000
# Options for continuous states alone, for discrete ones, and for those without names in the table.
NETWORKS = ("hidden", "epochs", "lipschitz", "unconstrained")
LEARNED = ("learner", "members", *NETWORKS)
TABULAR = ("prior", "neighbour_prior", "bar_unobserved", "mean_rewards")
LABELS = ("state_labels", "action_labels")
# Of prices alone.
PRICES = ("time", "columns", "every", "families", "horizon", "figure")
# Of what there is to say about a table, as many lines.
MOST_FINDINGS = 6


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
class FitOptions(cli.TableOptions):
    """Options of `counterplan fit`."""

    output: Path = cli.output("Model file to write: .safetensors.", MISSING)
    schema: Path | None = cli.option(
        "What the columns of the table mean (.toml); `counterplan schema` drafts one."
    )
    prior: float | None = cli.option(
        "Tabular models: pseudo-count of every transition (1 if not given).", parse=cli.from_zero
    )
    neighbour_prior: bool = cli.option(
        "Tabular models with states in a natural order: pseudo-count 1 for staying or moving to a "
        "neighbour, 0.01 for all other transitions.",
        False,
    )
    bar_unobserved: bool = cli.option(
        "Pairs of state and action that never occur: bar them (reward -inf), so that no "
        "explanation rests on them, or let them earn the state's mean reward.",
        True,
        "--bar-unobserved/--value-unobserved",
    )
    mean_rewards: bool = cli.option(
        "Where the same state and action earned different rewards, take the mean instead of "
        "stopping with an error.",
        False,
    )
    state_labels: str | None = cli.option(
        "Names of the states 0, 1, ... separated by commas.", metavar="NAMES"
    )
    action_labels: str | None = cli.option(
        "Names of the actions 0, 1, ... separated by commas.", metavar="NAMES"
    )
    learner: Literal["smooth", "neural", "auto"] | None = cli.option(
        "Continuous states: learn with a smooth regression (the default), with networks (the "
        "default if their options are given; their claims are not calibrated), or with both to "
        "take networks where they predict held-out episodes clearly better."
    )
    members: int | None = cli.option(
        "Smooth models: draws from the posterior to keep (16).", parse=cli.whole_number(0, 1000)
    )
    hidden: int | None = cli.option(
        "Neural models: units of each network (200).", parse=cli.whole_number(1, MOST_UNITS)
    )
    epochs: int | None = cli.option(
        "Neural models: epochs at most (100).", parse=cli.whole_number(1)
    )
    lipschitz: tuple[float, float] | None = cli.option(
        "Neural models: Lipschitz constants of the location and scale networks (1.0,0.1); tighter "
        "ones make `explain` faster, looser ones fit better.",
        parse=_lipschitz,
        metavar="L_H,L_PHI",
    )
    unconstrained: bool = cli.option("Neural models: networks without such constants.", False)
    support: bool = cli.option(
        "Keep some of the data in the model (scaled states and actions, or counts), so that "
        "`explain` can tell how far it leaves them. Models to be passed on may do better without.",
        True,
        "--support/--no-support",
    )
    process: bool = cli.option(
        "The table is a record of prices or demand at equal steps: learn its law, for plans.", False
    )
    time: str | None = cli.option(
        "Prices: the column of times, if not the first of dates.", metavar="NAME"
    )
    columns: str | None = cli.option(
        "Prices: the columns to learn, separated by commas (all with numbers).", metavar="NAMES"
    )
    every: Literal["hour", "day", "week", "month"] | None = cli.option(
        "Prices: take the last row of each, so that it is the step of the law."
    )
    families: str | None = cli.option(
        "Prices: laws to choose from, of gbm, walk, log-ou, ou, log-seasonal, seasonal, regimes "
        "and bootstrap, separated by commas (all that apply).",
        metavar="NAMES",
    )
    horizon: int | None = cli.option(
        "Prices: steps of plans to come, to warn where the record does not vouch for them.",
        parse=cli.whole_number(1),
    )
    figure: Path | None = cli.option("Prices: draw held-out predictions, to a .png or .svg file.")


@cli.command()
def fit(options: FitOptions) -> None:
    """Learn a model from a table of episodes.

    A table of your own needs a --schema that says what its columns mean (`counterplan schema`
    drafts one): where all states are levels or labels a tabular model is estimated, where they are
    measurements a smooth or neural one is learned.

    Without a schema the table has one row per step with the columns episode_id, t (0, 1, 2, ...),
    state, action and reward, what the step earned. States and actions are numbers from 0 up, or
    names given with --state-labels and --action-labels; a name that holds a comma goes into double
    quotes. Transition probabilities are posterior means under a Dirichlet prior; the reward of a
    state and action is the one observed for it. The same table always gives the same model.

    Known without a schema are also sepsis cohort tables (one row for each four hours of a stay:
    icustayid, bloc, ...) and stays whose doses are levels already (episode_id, t, a_vaso, a_iv,
    ...), which give such models too.

    With --process the table has a column of times at equal steps and one or several of numbers:
    prices, demand, inflows. Laws are chosen by what they predict of the last part of the record;
    plans take the file, as does cp.processes.load.
    """
    from counterplan.core.files import check_target, suffix_of
    from counterplan.domains.sepsis_table import layout_of

    suffix_of(options.output, (".safetensors",), "model files")
    check_target(options.output)
    cli.keep_inputs(options.output, (options.table, options.schema))
    if options.process:
        cli.refuse(
            cli.given(options, "schema", *LEARNED, *TABULAR, *LABELS), "is not for --process"
        )
        _process(options)
        return
    cli.refuse(cli.given(options, *PRICES), "is for prices: give --process, too")
    schema = None if options.schema is None else _schema(options, options.schema)
    if schema is not None:
        is_discrete = schema.is_discrete
    elif is_discrete := layout_of(options.table) is None:
        _refuse_learned(options)
    else:
        why = f"is for tables of discrete episodes, but {options.table} is a cohort table"
        cli.refuse(cli.given(options, *TABULAR, *LABELS), why)
    if is_discrete:
        _tabular(options, schema)
    else:
        _learned(options, schema)


def _schema(options: FitOptions, path: Path) -> Schema:
    """What the schema says; options that do not go with it are refused."""
    from counterplan.tables.layout import check_reward
    from counterplan.tables.schema import read_schema

    schema = read_schema(path)
    try:
        check_reward(schema)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    if schema.is_discrete:
        why = f"is for continuous states, but those of {path} are discrete"
        cli.refuse(cli.given(options, *LEARNED), why)
    else:
        why = f"is for discrete states, but those of {path} are continuous"
        cli.refuse(cli.given(options, *TABULAR), why)
    why = f"and --schema exclude each other: write the labels into {path}"
    cli.refuse(cli.given(options, *LABELS), why)
    return schema


def _refuse_learned(options: FitOptions) -> None:
    from counterplan.core.files import check_readable
    from counterplan.tables.fit import check_kind

    wrong = cli.given(options, *LEARNED)
    if any(wrong.values()):
        check_readable(options.table, "a table of episodes")
        check_kind(options.table)
        cli.refuse(
            wrong,
            f"is for continuous states, but those of {options.table} are discrete: leave it "
            "out, or give a --schema in which they are measurements",
        )


# --- Continuous states --------------------------------------------------------------------------


def _learned(options: FitOptions, schema: Schema | None) -> None:
    from counterplan.domains.sepsis_table import fit_cohort
    from counterplan.tables.fit import fit_continuous

    if options.unconstrained and options.lipschitz is not None:
        raise InputError("--lipschitz and --unconstrained exclude each other: give one of them")
    if options.learner == "smooth":
        cli.refuse(cli.given(options, *NETWORKS), "is for networks, but --learner is smooth")
    named = {name: getattr(options, name) for name in ("learner", "members", "hidden", "epochs")}
    settings: Any = {"seed": options.seed}
    settings |= {name: value for name, value in named.items() if value is not None}
    if options.lipschitz is not None or options.unconstrained:
        settings["lipschitz"] = options.lipschitz
    try:
        if schema is None:
            found = fit_cohort(options.table, settings, options.support)
        else:
            found = fit_continuous(options.table, schema, settings, options.support)
    except TrainingError as problem:
        hint = "options --lipschitz and --epochs"
        raise TrainingError(f"{options.table}: {problem} ({hint})") from None
    found.model.save(options.output)
    _print_learned(options, found)


def _print_learned(options: FitOptions, found: Fit) -> None:
    from counterplan.domains.sepsis_table import EDGES
    from counterplan.tables.fit import UNCALIBRATED, poor_fit

    scm = found.model
    record = scm.about["training"]
    tried = {kind: -loss for kind, loss in record.get("tried_nll", {}).items()}
    counts = {key: record[key] for key in ("epochs", "best_epoch", "members") if key in record}
    summary = {
        "model": str(options.output),
        "table": found.summary,
        "episodes": len(found.episodes),
        "dropped": found.dropped,
        "transitions": record["transitions"] + record["validation_transitions"],
        "features": len(scm.about["features"]),
        **_advised(found.layout),
        "learner": scm.kind,
        "chosen": record["chosen"],
        **({"tried": tried} if tried else {}),
        **counts,
        "validation_log_likelihood": -scm.held_out_loss,
        "lipschitz": {"location": scm.location.lipschitz, "scale": scm.scale.lipschitz},
        **{f"{kind}_log_likelihood": -loss for kind, loss in record["reference_nll"].items()},
        EDGES: scm.about.get(EDGES),
        "findings": [asdict(one) for one in found.findings],
    }
    _print_findings(found.findings)
    better = poor_fit(scm)
    for line in scm.about.get("remarks", ()):
        if not better or better not in line:
            cli.note(line)
    if better:
        advice = "give more episodes, or more of what the next state depends on as columns"
        if scm.kind != "smooth":
            advice = (
                "train for more --epochs, on more episodes, or with larger --lipschitz constants"
            )
        cli.note(f"warning: {better}: do not trust explanations by this model; {advice}")
    if scm.kind == "neural":
        cli.note(UNCALIBRATED)
    if options.as_json:
        cli.print_json(summary)
        return
    how = f"{scm.kind} model"
    if "members" in counts:
        how += f" with {counts['members']} members"
    when = f" in epoch {counts['best_epoch']} of {counts['epochs']}" if "epochs" in counts else ""
    typer.echo(
        f"{options.output}: {how}; {summary['features']} features, {summary['transitions']} "
        f"transitions; {found.summary}; validation log-likelihood "
        f"{summary['validation_log_likelihood']:.3f} (linear regression: "
        f"{summary['linear_log_likelihood']:.3f}) nats{when}; "
        f"Lipschitz constants {scm.location.lipschitz:.4g} and {scm.scale.lipschitz:.4g}; "
        f"{found.layout.offer.fact}; {record['chosen']}"
    )


def _print_findings(findings: Sequence[Finding]) -> None:
    """The most important of what there is to say about a table; --json and reports have all."""
    for one in findings[:MOST_FINDINGS]:
        cli.note(f"{one.severity}: {f'column {one.column!r}: ' if one.column else ''}{one.text}")
    if (more := len(findings) - MOST_FINDINGS) > 0:
        cli.note(f"and {counted(more, 'more finding')} about the table, see --json")


def _advised(layout: SchemaLayout) -> dict[str, Any]:
    """How many combinations of the action columns there are, and how many may be advised; or
    between which bounds doses are."""
    if layout.doses:
        return {"doses": {column.name: column.bounds for column in layout.doses}}
    advised = layout.offer.actions
    counts = {"combinations": advised.size, "advised_combinations": int(advised.sum())}
    return {**counts, "min_count": layout.schema.min_count}


# --- Prices -------------------------------------------------------------------------------------


def _process(options: FitOptions) -> None:
    """The law of a record of prices, told with its scores, parameters and warnings."""
    from counterplan.core.files import check_target, suffix_of
    from counterplan.planning.processes.fit import fit as fit_process

    if options.figure is not None:
        suffix_of(options.figure, (".png", ".svg"), "figures")
        check_target(options.figure)
        cli.keep_inputs(options.figure, (options.table, options.output))
    found = fit_process(
        options.table,
        time=options.time,
        columns=_names(options.columns, "--columns"),
        every=options.every,
        families=_names(options.families, "--families"),
        horizon=options.horizon,
        seed=options.seed,
    )
    found.save(options.output)
    if options.figure is not None:
        from counterplan.viz import process_figure, save_figure

        save_figure(process_figure(found), options.figure)
    for line in found.about["remarks"]:
        cli.note(line)
    for line in found.warnings:
        cli.note(f"warning: {line}")
    if options.as_json:
        start = dict(zip((*found.names, "second regime"), found.start.tolist(), strict=False))
        named = {name: one._asdict() for name, one in found.parameters.items()}
        about = found.about | {"parameters": named}
        cli.print_json({"process": str(options.output), "law": found.name, "start": start, **about})
        return
    held = ", ".join(f"{share:.0%} {steps} ahead" for steps, share in found.coverage.items())
    typer.echo(
        f"{options.output}: {found.name}, from {counted(found.about['rows'], 'row')} of "
        f"{', '.join(found.names)}; 90 % bands held in {held} of "
        f"{counted(found.about['held_out'], 'held-out step')}"
    )
    cli.print_table(
        "log density of a held-out step, lead over the chosen law, and how often 90 % bands held",
        {"law": "left", "score": "right", "lead": "right", "error": "right", "held": "right"},
        [
            [one["law"], *(f"{one[key]:.4f}" for key in ("score", "lead", "lead_se")),
             f"{one['covered']:.0%}"]
            for one in found.scores
        ],
    )  # fmt: skip
    cli.print_table(
        f"parameters, per step{', in logs' if found.logs else ''}",
        {"parameter": "left", "estimate": "right", "error": "right", "90 % interval": "right"},
        [
            [name, f"{one.value:.5g}", f"{one.se:.2g}", f"{one.low:.5g} to {one.high:.5g}"]
            for name, one in found.parameters.items()
        ],
    )


# --- Tabular models ---------------------------------------------------------------------------


def _tabular(options: FitOptions, schema: Schema | None) -> None:
    from counterplan.tables.fit import FitSettings, fit_discrete, fit_model
    from counterplan.tables.models import save_model
    from counterplan.tables.schema import Grid

    if options.prior is not None and options.neighbour_prior:
        raise InputError("--prior and --neighbour-prior exclude each other: give one of them")
    usual = 1.0 if options.prior is None else options.prior
    settings = FitSettings(
        prior=None if options.neighbour_prior else usual,
        bar_unobserved=options.bar_unobserved,
        mean_rewards=options.mean_rewards,
        state_labels=_names(options.state_labels, "--state-labels"),
        action_labels=_names(options.action_labels, "--action-labels"),
        support=options.support,
    )
    if schema is None:
        found = fit_model(options.table, settings)
    else:
        found = fit_discrete(options.table, schema, settings)
    mdp, counts = found.model, found.counts
    # A last row without an action is no pair.
    observed = counts.observed[:, : len(Grid(schema.of("action"))) if schema else None]
    save_model(mdp, options.output)
    summary = {
        "model": str(options.output),
        **({} if schema is None else {"table": found.summary}),
        "episodes": int(counts.starts.sum()),
        "steps": int(counts.visits.sum()),
        "states": mdp.n_states,
        "actions": observed.shape[1],
        "pairs": observed.size,
        "observed_pairs": int(observed.sum()),
        **({} if schema is None else _advised(found.layout)),
        "findings": [asdict(one) for one in found.findings],
    }
    _print_findings(found.findings)
    for line in mdp.about.get("remarks", ()):
        cli.note(line)
    _print_tabular(options, summary, "" if schema is None else f"; {found.layout.offer.fact}")


def _print_tabular(options: FitOptions, summary: dict[str, Any], more: str) -> None:
    if options.as_json:
        cli.print_json(summary)
        return
    steps, episodes = counted(summary["steps"], "step"), counted(summary["episodes"], "episode")
    data = f"; {summary['table']}" if "table" in summary else f" from {steps} of {episodes}"
    rest = "barred" if options.bar_unobserved else "given their state's mean reward"
    typer.echo(
        f"{summary['model']}: {counted(summary['states'], 'state')} and "
        f"{counted(summary['actions'], 'action')}{data}; {summary['observed_pairs']:,} of "
        f"{counted(summary['pairs'], 'pair')} of state and action were seen, others are {rest}"
        f"{more}"
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
