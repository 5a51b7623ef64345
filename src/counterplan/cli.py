"""The command line: parse, call, print."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import counterplan
from counterplan.cli_options import (
    DemoOptions,
    ExplainOptions,
    FitOptions,
    PlanOptions,
    ReproduceOptions,
)
from counterplan.cli_support import OneLineErrors, command, print_json, print_table, tracked
from counterplan.errors import CounterplanError, FileError, InputError

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.scm.tabular import TabularMDP

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Given what happened, what should have been done? Exact counterfactual explanations "
    "of sequential decisions.",
    epilog="Start with: counterplan demo",
)


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a letter of some label shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterplan {counterplan.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print version."),
    ] = False,
) -> None:
    pass


@app.command()
@command
def demo(options: DemoOptions) -> None:
    """Explain deaths in intensive care and write a page to open.

    Samples sepsis patients under usual care from the ICU-Sepsis model that comes with the package,
    finds what should have been done differently for those who died, and prints them ranked by how
    much it would have helped.
    """
    from counterplan.experiments.demo import run_demo
    from counterplan.viz.terminal import print_demo

    result = run_demo(options.output, options.patients, options.seed, options.k)
    if options.as_json:
        files = {"page": str(result.page), "figures": [str(path) for path in result.figures]}
        print_json({**files, "summary": result.summary, "deaths": result.table})
    else:
        print_demo(result)


@app.command()
@command
def fit(options: FitOptions) -> None:
    """Estimate a model from a table of episodes.

    The table has one row per step with the columns episode_id, t (0, 1, 2, ...), state, action and
    reward, what the step earned. States and actions are numbers from 0 up, or names given with
    --state-labels and --action-labels; a name that holds a comma goes into double quotes.

    Transition probabilities are posterior means under a Dirichlet prior; the reward of a state and
    action is the one observed for it. The same table always gives the same model.

    A sepsis cohort table (one row for each four hours of a stay: icustayid, bloc, ...) gives a
    neural model of its features instead, and so do stays whose doses are levels already
    (episode_id, t, a_vaso, a_iv, ...); both .csv or .parquet.
    """
    from counterplan.files.atomic import check_target
    from counterplan.files.contents import suffix_of
    from counterplan.io.cohorts import is_cohort_table
    from counterplan.io.fit import FitSettings, fit_model
    from counterplan.io.models import save_model

    suffix_of(options.output, (".safetensors",), "model files")
    check_target(options.output)
    if is_cohort_table(options.episodes):
        from counterplan.cli_cohort import fit_table

        fit_table(options)
        return
    _refuse_neural(options)
    if options.prior is not None and options.neighbour_prior:
        raise InputError("--prior and --neighbour-prior exclude each other: give one of them")
    usual = 1.0 if options.prior is None else options.prior
    settings = FitSettings(
        prior=None if options.neighbour_prior else usual,
        bar_unobserved=options.bar_unobserved,
        mean_rewards=options.mean_rewards,
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
    if options.as_json:
        print_json(summary)
        return
    rest = "barred" if options.bar_unobserved else "given their state's mean reward"
    text = (
        "{model}: {states} states and {actions} actions from {steps} steps of {episodes} episodes; "
        "{observed_pairs} of {pairs} pairs of state and action were seen, "
    )
    typer.echo(text.format(**summary) + f"others are {rest}")


def _refuse_neural(options: FitOptions) -> None:
    from counterplan.files.contents import check_readable

    given = {
        "--hidden": options.hidden is not None,
        "--epochs": options.epochs is not None,
        "--lipschitz": options.lipschitz is not None,
        "--unconstrained": options.unconstrained,
    }
    wrong = next((name for name, is_given in given.items() if is_given), None)
    if wrong:
        check_readable(options.episodes, "a table of episodes")
        raise InputError(
            f"{wrong} is for cohort tables, but {options.episodes} has no column icustayid or bloc"
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


@app.command()
@command
def explain(options: ExplainOptions) -> None:
    """Say what should have been done differently in each episode.

    For every episode of the table: the policy that changes at most k actions and would have led to
    the best expected outcome, all that was left to chance being the same. The table is ranked by
    improvement; the changes shown are those of the likeliest counterfactual course, each with the
    probability that the policy makes it.

    For the stays of a sepsis cohort table and a neural model: the doses that would have led to the
    lowest SOFA scores according to the model, with the proof that none are better.
    """
    from counterplan.cli_explanations import chosen, refuse_continuous
    from counterplan.io.cohorts import is_cohort_table
    from counterplan.io.episodes import read_episodes
    from counterplan.io.explanations import check_explanations_target, write_explanations
    from counterplan.io.models import load_model
    from counterplan.scm.neural import NeuralSCM

    if options.output is not None:
        check_explanations_target(options.output)
        _keep_inputs(options.output, options.episodes, options.model)
    mdp = load_model(options.model)
    is_cohort = is_cohort_table(options.episodes)
    if isinstance(mdp, NeuralSCM) != is_cohort:
        raise FileError(_mismatch(options, is_cohort))
    if isinstance(mdp, NeuralSCM):
        from counterplan.cli_cohort import explain_table

        explain_table(options, mdp)
        return
    refuse_continuous(options)
    labels = {"state_labels": mdp.state_labels, "action_labels": mdp.action_labels}
    every = read_episodes(options.episodes, **labels)
    episodes = chosen(options, every)
    try:
        for episode in episodes:
            mdp.check_episode(episode)
        records = _explained(options, mdp, episodes)
    except CounterplanError as problem:
        raise type(problem)(f"{options.episodes}: {problem}") from None
    document = {"k": options.k, "solver": options.solver.value, "explanations": records}
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        print_json(document)
    else:
        _print(options, records)


def _mismatch(options: ExplainOptions, is_cohort: bool) -> str:
    if is_cohort:
        return (
            f"{options.model}: holds a model of discrete states, but {options.episodes} is a "
            "cohort table; use `counterplan fit` on such a table to get a neural model"
        )
    return (
        f"{options.model}: holds a neural model, but {options.episodes} is no cohort table (with "
        "the columns icustayid, bloc, ... or episode_id, t, a_vaso, a_iv, ...); give one"
    )


def _keep_inputs(output: Path, *inputs: Path) -> None:
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise FileError(f"{output}: is read by this command; choose another name for results")


def _explained(
    options: ExplainOptions, mdp: TabularMDP, episodes: Sequence[Episode]
) -> list[dict[str, Any]]:
    """A record for each episode, largest improvement first."""
    from counterplan.cli_explanations import limits_of, solver_of
    from counterplan.counterfactual.explain import explain as explain_episode
    from counterplan.counterfactual.robust import value_interval
    from counterplan.counterfactual.solver import BudgetDP
    from counterplan.io.explanations import explanation_record
    from counterplan.scm.gumbel_max import GumbelMaxSCM

    scm, solver, limits = GumbelMaxSCM(mdp), solver_of(options, BudgetDP()), limits_of(options)
    found = []
    for episode in tracked(episodes, "explaining"):
        explanation = explain_episode(scm, episode, options.k, solver=solver, limits=limits)
        interval = value_interval(mdp, episode, explanation) if options.robust else None
        record = explanation_record(mdp, explanation, interval)
        found.append((explanation.improvement, record))
    found.sort(key=lambda pair: -pair[0])
    return [record for _, record in found]


def _print(options: ExplainOptions, records: Sequence[dict[str, Any]]) -> None:
    from counterplan.cli_explanations import Column, number, print_explanations

    def interval(record: Mapping[str, Any]) -> str:
        return f"{number(record['interval_low'])} to {number(record['interval_high'])}"

    extra = {"over causal models": Column("right", interval)} if options.robust else {}
    print_explanations(options, records, "episode", "", extra)


@app.command()
@command
def plan(options: PlanOptions) -> None:
    """Say what to do next in a planning problem, and what that is worth.

    The problems are those of the 2025 paper: fuel for a ship (bunkering), gas or electricity for a
    hybrid vehicle, when to exercise an option, or a basket of them. A tree search simulates futures
    from the state asked about (the start, unless --step, --price, --mode or --level say otherwise);
    next to its estimates stand bounds on the optimum, from hindsight and from a plan executed
    blindly, and the optimum itself where it can be computed.
    """
    from counterplan.cli_plan import answer

    answer(options)


@app.command()
@command
def reproduce(options: ReproduceOptions) -> None:
    """Draw the papers' figures anew, as PNG with their numbers as CSV."""
    # Read when numpy is loaded, below: run times should not count threads that wait for others.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from counterplan.experiments import registry

    titles = {name: figure.title for name, figure in registry.FIGURES.items()}
    if options.listing:
        if options.as_json:
            print_json(titles)
        else:
            print_table("", {"figure": "left", "shows": "left"}, titles.items())
        return
    if options.figures and options.every:
        raise InputError("name figures or give --all, not both")
    settings = registry.Options(
        quick=options.quick, sampled=options.sampled, seed=options.seed, data=options.data
    )
    written = registry.reproduce(options.figures or list(titles), options.output, settings)
    if options.as_json:
        print_json({"files": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(path)
