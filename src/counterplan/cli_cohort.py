"""`fit` and `explain` on sepsis cohort tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli_options import ExplainOptions, FitOptions, SolverName
from counterplan.cli_support import note, print_json, print_table, tracked
from counterplan.errors import CounterplanError, FileError, InputError

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.core.problem import Solver
    from counterplan.domains.sepsis import SepsisCohort
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
    scm, cohort = fit_cohort(options.episodes, settings)
    scm.save(options.output)
    _print_fit(options, scm, cohort)


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


def _print_fit(options: FitOptions, scm: NeuralSCM, cohort: SepsisCohort) -> None:
    record = scm.about["training"]
    best = record["best_epoch"]
    summary = {
        "model": str(options.output),
        "episodes": len(cohort.episodes),
        "dropped": len(cohort.dropped),
        "transitions": record["transitions"] + record["validation_transitions"],
        "features": len(scm.about["features"]),
        "epochs": record["epochs"],
        "best_epoch": best,
        "validation_log_likelihood": -record["validation_nll"][best - 1],
        "lipschitz": {"location": scm.location.lipschitz, "scale": scm.scale.lipschitz},
        "dose_edges": scm.about["dose_edges"],
    }
    if options.as_json:
        print_json(summary)
        return
    typer.echo(
        f"{options.output}: {summary['features']} features, {summary['transitions']} transitions; "
        f"{cohort.summary()}; validation log-likelihood "
        f"{summary['validation_log_likelihood']:.3f} nats in epoch {best} of {record['epochs']}; "
        f"Lipschitz constants {scm.location.lipschitz:.4g} and {scm.scale.lipschitz:.4g}"
    )


def explain_table(options: ExplainOptions, scm: NeuralSCM) -> None:
    """Explain the stays of a table."""
    from counterplan.io.cohorts import cohort_for
    from counterplan.io.explanations import write_explanations

    if options.robust:
        raise InputError(
            "--robust is for discrete models: a neural model has one counterfactual, no range"
        )
    cohort = cohort_for(scm, options.model, options.episodes)
    episodes = _chosen(cohort, options.episode, options.episodes)
    try:
        records = _explained(options, scm, episodes)
    except CounterplanError as problem:
        raise type(problem)(f"{options.episodes}: {problem}") from None
    methods = sorted({record["method"] for record in records})
    document = {
        "k": options.k,
        "solver": options.solver.value,
        "method": ", ".join(methods),
        "explanations": records,
    }
    if options.output is not None:
        write_explanations(options.output, document)
    if options.as_json:
        print_json(document)
        return
    _print_explanations(options, records)
    if cohort.dropped and not options.episode:
        note(f"{cohort.summary()}.")


def _chosen(cohort: SepsisCohort, wanted: list[str] | None, path: Path) -> list[Episode]:
    known = {episode.id: episode for episode in cohort.episodes}
    for name in wanted or ():
        if name in cohort.dropped:
            raise FileError(f"{path}: stay {name!r} is left out: {cohort.dropped[name]}")
        if name not in known:
            shown = ", ".join(repr(known_name) for known_name in list(known)[:5])
            raise FileError(
                f"{path}: has no stay {name!r}; the first of its {len(known)} are {shown}"
            )
    return [known[name] for name in dict.fromkeys(wanted)] if wanted else list(cohort.episodes)


def _solver(options: ExplainOptions) -> Solver:
    from counterplan.counterfactual.astar import AStar
    from counterplan.counterfactual.baselines import Greedy, NoisyGreedy, Random

    solvers: dict[SolverName, Solver] = {
        SolverName.EXACT: AStar(),
        SolverName.GREEDY: Greedy(),
        SolverName.NOISY_GREEDY: NoisyGreedy(options.seed),
        SolverName.RANDOM: Random(options.seed),
    }
    return solvers[options.solver]


def _explained(
    options: ExplainOptions, scm: NeuralSCM, episodes: Sequence[Episode]
) -> list[dict[str, Any]]:
    """A record for each stay, largest improvement first."""
    from counterplan.core.limits import Limits
    from counterplan.counterfactual.explain import explain
    from counterplan.domains import sepsis
    from counterplan.io.cohorts import cohort_record

    limits = Limits() if options.seconds is None else Limits(seconds=options.seconds)
    solver, reward = _solver(options), sepsis.reward()
    records = []
    for episode in tracked(episodes, "explaining"):
        found = explain(
            scm,
            episode,
            options.k,
            actions=sepsis.action_set(episode),
            reward=reward,
            solver=solver,
            limits=limits,
        )
        records.append(cohort_record(found))
    return sorted(records, key=lambda record: -record["improvement"])


def _print_explanations(options: ExplainOptions, records: Sequence[dict[str, Any]]) -> None:
    from counterplan.io.explanations import changes_in_words
    from counterplan.viz.quantity import Quantity

    def number(value: float | str) -> str:
        return Quantity().write(float(value))

    columns = {
        "stay": "left",
        "observed": "right",
        "value": "right",
        "improvement": "right",
        "proof": "left",
        "changes": "left",
    }
    rows = []
    for record in records:
        proof = record["status"]
        if proof == "limit":
            proof = f"limit, gap {number(record['gap'])}"
        figures = [number(record[name]) for name in ("observed", "value", "improvement")]
        words = "\n".join(changes_in_words(record)) or "none"
        rows.append([str(record["episode"]), *figures, proof, words])
    count = "1 stay" if len(records) == 1 else f"{len(records)} stays"
    methods = ", ".join(sorted({record["method"] for record in records}))
    proof = methods if options.solver is SolverName.EXACT else "no bound"
    title = f"{count}, k = {options.k}, {options.solver.value} ({proof}), outcome: summed -SOFA"
    print_table(title, columns, rows)
    if options.output is not None:
        note(f"Wrote {options.output}.")
