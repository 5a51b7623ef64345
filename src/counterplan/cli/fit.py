"""`fit`: which kind of model a table asks for, and models of discrete episodes."""

from __future__ import annotations

import csv
from dataclasses import replace

from counterplan.cli.fit_kinds import neural_options
from counterplan.cli.fit_tabular import settings_of, tell
from counterplan.cli.options import FitOptions
from counterplan.cli.support import first_given, keep_inputs
from counterplan.core.words import counted
from counterplan.errors import InputError


def learn(options: FitOptions) -> None:
    """Learn the model that the table asks for, and say what came of it."""
    from counterplan.files.atomic import check_target
    from counterplan.files.contents import suffix_of
    from counterplan.io.stay_models import is_cohort_table

    suffix_of(options.output, (".safetensors",), "model files")
    check_target(options.output)
    keep_inputs(options.output, (options.episodes, options.schema))
    if options.schema is not None:
        from counterplan.cli.schema import fit_by_schema

        fit_by_schema(options)
        return
    if is_cohort_table(options.episodes):
        from counterplan.cli.fit_neural import fit_cohort_table

        fit_cohort_table(options)
        return
    _fit_discrete(options)


def _fit_discrete(options: FitOptions) -> None:
    from counterplan.io.fit import fit_model
    from counterplan.io.models import save_model

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
    from counterplan.files.contents import check_readable
    from counterplan.io.fit import check_kind

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
