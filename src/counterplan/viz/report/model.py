"""The model that the answers come from: how well it fits, what it was learned from, what it takes
for granted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterplan import __version__
from counterplan.core.validation import counted
from counterplan.runs.question import DiscreteExplainer
from counterplan.runs.run import Run
from counterplan.runs.store import Manifest
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.schema import Column
from counterplan.tables.stays import poor_fit
from counterplan.viz.page import Html, element, facts, items, join
from counterplan.viz.report.source import NOTES, Names, Source

# Values of a column that are listed one by one.
MOST_VALUES = 8


def model_section(source: Source) -> Html:
    """All of it."""
    model = source.model
    if isinstance(model, NeuralSCM):
        parts = [facts(*_neural_facts(model), class_="facts wide"), _fit(model)]
    else:
        parts = [facts(*_tabular_facts(model), class_="facts wide"), _counts(model)]
    notes = model.about.get(NOTES, ())
    if isinstance(notes, list) and all(isinstance(text, str) for text in notes):
        parts.append(items(*notes))
    return join(
        *parts,
        element("h3", "What it is about"),
        _columns(source),
        element("h3", "What it takes for granted"),
        items(*assumptions(source)),
    )


def poor_fit_of(source: Source) -> str | None:
    """What fits better than the model, None if nothing does or nothing is known."""
    model = source.model
    return poor_fit(model) if isinstance(model, NeuralSCM) and _training(model) else None


def _training(model: NeuralSCM) -> Mapping[str, Any]:
    """The record of a training, empty if there is none that can be read."""
    record: Any = model.about.get("training")
    try:
        numbers = [record[name] for name in ("transitions", "epochs", "best_epoch")]
        numbers += [record["validation_nll"][record["best_epoch"] - 1]]
        numbers += [record["reference_nll"][kind] for kind in ("linear", "constant")]
    except (KeyError, IndexError, TypeError):
        return {}
    return record if all(isinstance(number, int | float) for number in numbers) else {}


def _neural_facts(model: NeuralSCM) -> list[tuple[str, str]]:
    record = _training(model)
    features, components = model.location.state.shape[1], model.location.action.shape[1]
    pairs = [
        ("Kind", "neural: next state = location(state, action) + scale(state, action) × noise"),
        ("Size", ", ".join((
            counted(features, "feature"),
            counted(components, "input of actions", "inputs of actions"),
            counted(len(model.location.state), "hidden unit"),
        ))),
        ("Lipschitz constants, certified by singular values",
         f"{model.location.lipschitz:.4g} (location), {model.scale.lipschitz:.4g} (scale)"),
    ]  # fmt: skip
    if record:
        held = record.get("validation_transitions", 0)
        pairs += [
            ("Learned from", f"{record['transitions']:,} transitions; {held:,} others held out"),
            ("Epochs", f"{record['epochs']} trained, the best was number {record['best_epoch']}"),
        ]
    else:
        pairs.append(("Learned from", "not known: the model file has no record of its training"))
    seen = model.seen
    kept = "none" if seen is None else f"{len(seen.states):,} transitions"
    return [*pairs, ("Data kept to judge support", kept)]


def _fit(model: NeuralSCM) -> Html:
    """Log-likelihood of what was held out, beside two simple models."""
    record = _training(model)
    if not record:
        return element(
            "p",
            "How well the model fits is not known: its file has no record of its training.",
            class_="note weak",
        )
    loss = record["validation_nll"][record["best_epoch"] - 1]
    rows = [("this model", loss)]
    rows += [
        (f"{kind}: {words}", record["reference_nll"][kind])
        for kind, words in (
            ("linear", "regression on state and action"),
            ("constant", "neither state nor action matters"),
        )
    ]
    body = (
        element("tr", element("td", name), element("td", f"{-value:.3f}", class_="number"))
        for name, value in rows
    )
    heads = (
        element("th", "Model"),
        element("th", "Log-likelihood, higher is better", class_="number"),
    )
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    better = poor_fit(model)
    verdict = (
        f"Do not trust these explanations: {better}."
        if better
        else "No simple model fits what was held out clearly better. That does not make it right: "
        "compare it with what is known of the field."
    )
    return join(
        element("h3", "How well it fits"),
        element("p", "On transitions that were held out from training, in nats per transition:"),
        element("div", table, class_="narrow"),
        element("p", verdict, class_="note weak" if better else "note"),
    )


def _tabular_facts(model: TabularMDP) -> list[tuple[str, str]]:
    pairs = [
        ("Kind", "tabular: probabilities of the next state for every state and action"),
        ("Size", f"{model.n_states:,} states, {model.n_actions:,} actions"),
    ]
    if model.admissible is not None:
        allowed = int(model.admissible.sum())
        pairs.append(("Pairs of state and action that may be chosen",
                      f"{allowed:,} of {model.admissible.size:,}"))  # fmt: skip
    if model.visits is not None:
        seen = int((model.visits > 0).sum())
        pairs.append(("Pairs seen in the data", f"{seen:,} of {model.visits.size:,}"))
        pairs.append(("Transitions in the data", f"{int(model.visits.sum()):,}"))
    return pairs


def _counts(model: TabularMDP) -> Html:
    """How much data is under the probabilities."""
    if model.visits is None:
        return element(
            "p",
            "The model file does not say how often each action was taken in each state, so this "
            "report cannot tell which explanations leave the data.",
            class_="note weak",
        )
    seen = model.visits[model.visits > 0]
    few = int((seen < 10).sum())
    return element(
        "p",
        f"Of the {len(seen):,} pairs that were seen, {few:,} were seen fewer than ten times; the "
        f"median is {counted(int(np.median(seen)), 'time')}. Probabilities are estimates, and "
        "their error is not in the numbers of this report.",
        class_="note",
    )


def _columns(source: Source) -> Html:
    """The columns that the model and the question use, as the schema describes them."""
    heads = ("Column", "Role", "Unit", "Values", "Gaps", "Better")
    texts = [_column_texts(column) for column in _described(source)]
    told = [place for place in range(len(heads)) if any(text[place] for text in texts)]
    rows = (element("tr", *(element("td", text[place]) for place in told)) for text in texts)
    head = element("tr", *(element("th", heads[place]) for place in told))
    table = element("table", element("thead", head), element("tbody", *rows))
    note = f"Outcome: {source.outcome}. Higher is better."
    return join(element("div", table, class_="scroll"), element("p", note))


def _described(source: Source) -> Sequence[Column]:
    labels = source.labels
    layout = getattr(source.explainer, "layout", None)
    if isinstance(layout, SchemaLayout):
        return [column for column in layout.schema.columns if column.role != "ignore"]
    if layout is None:
        return [*labels.features, *labels.doses]
    # The built-in tables: leading features never change, further inputs are replayed as they were.
    fixed = [replace(column, role="fixed") for column in labels.features[: layout.fixed]]
    chosen = {dose.name for dose in labels.doses}
    replayed = [Column(name, "contextual") for name in layout.actions if name not in chosen]
    return [*fixed, *labels.features[layout.fixed :], *labels.doses, *replayed]


def _column_texts(column: Column) -> list[str]:
    names = column.labels or tuple(f"{level:g}" for level in column.levels or ())
    values = ", ".join(names[:MOST_VALUES])
    if len(names) > MOST_VALUES:
        values += f" and {len(names) - MOST_VALUES:,} more"
    if not names and (column.low is not None or column.high is not None):
        low, high = ("" if end is None else f"{end:g}" for end in (column.low, column.high))
        values = f"{low} to {high}".strip()
    better = column.better or ""
    if better and column.weight != 1.0:
        better += f", weight {column.weight:g}"
    gaps = "" if column.missing == "refuse" else column.missing
    return [column.name, column.role, column.unit, values, gaps, better]


def assumptions(source: Source) -> list[str]:
    """What no calculation can check."""
    common = [
        "No hidden confounding: the recorded state holds all that guided both the decisions and "
        "the course. Records rarely guarantee that.",
        "The state tells all that matters about the past (a Markov model), and the model is taken "
        "as known: the error of learning it is not in the numbers.",
    ]
    if isinstance(source.explainer, DiscreteExplainer):
        return [
            *common,
            "What was left to chance acts as in the Gumbel-Max model: a state that becomes "
            "relatively more likely under the other action does not give way to one that becomes "
            "less likely (counterfactual stability). Data cannot test this. "
            + (
                "The ranges over causal models show what rests on it."
                if source.question.robust
                else "With --robust a run also gives the range over every causal model that fits."
            ),
        ]
    return [
        *common,
        "What was left to chance is one vector of noise for each step, which the model infers from "
        "the course and which the other decisions do not change.",
        "The fitted form (location, scale, noise) holds between and beyond the data. Where an "
        "explanation leaves the data, the warnings of the cases say so.",
    ]


# ----------------------------------------------------------------------------------------------
# What was asked, of what, and by which versions: all that is needed to make a run again.

# Options whose values are ids of cases.
ABOUT_CASES = ("episode",)


def asked(manifest: Manifest) -> str:
    """The options of the run, as one would type them; ids are only counted."""
    texts = []
    for name, value in sorted(manifest.arguments.items()):
        if value is None or value is False:
            continue
        if name in ABOUT_CASES:
            texts.append(f"--{name} (for {counted(len(value), 'case')})")
        else:
            texts.append(
                f"--{name.replace('_', '-')}{'' if value is True else f' {_plain(value)}'}"
            )
    return " ".join([*texts, f"--seed {manifest.seed}"])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def provenance(run: Run) -> Html:
    """Options, checksums and versions."""
    manifest = run.manifest
    hashes: Mapping[str, str] = manifest.hashes
    pairs = [
        ("Options", asked(manifest)),
        *((f"SHA-256 of the {name.replace('_', ' ')}", hashes[name]) for name in sorted(hashes)),
        ("Versions", ", ".join(f"{name} {manifest.versions[name]}" for name in manifest.versions)),
        ("Repeatable", "yes, to the last digit on like machines" if manifest.repeatable
         else "no: limits in seconds depend on how busy the machine was"),
    ]  # fmt: skip
    return join(
        element("p", "The same table, model and options with the same versions give the same run."),
        facts(*pairs, class_="facts wide checksums"),
    )


def made_by(names: Names) -> list[str]:
    """The foot of the page."""
    texts = [f"Made by counterplan {__version__} from the folder of a run. Nothing in it is loaded "
             "from elsewhere; print it, or save it as PDF, with the browser."]  # fmt: skip
    if names.hidden:
        texts.append(
            "Ids are replaced by pseudonyms. These hide names, not courses: whoever knows a case "
            "by its numbers can still recognise it."
        )
    return texts


def incomplete(run: Run) -> str | None:
    """What to tell of a run that has not ended."""
    done, parts = len(run.done), run.manifest.parts
    if run.manifest.complete and done == parts:
        return None
    return f"The run is not complete: {done:,} of {parts:,} parts are done; the others are missing."
