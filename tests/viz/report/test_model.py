"""What a report says about its model: fit, data, columns, and nothing that it cannot know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import FileError
from counterplan.runs.question import Question
from counterplan.viz.report import report
from counterplan.viz.report.explain import training_of
from counterplan.viz.report.page import ReportOptions, environment

from ...runs.models import continuous_episodes, discrete_episodes, small_mdp, small_scm
from ..reader import read
from .runs import explain_run

TRAINING: dict[str, Any] = {
    "transitions": 900,
    "validation_transitions": 100,
    "epochs": 3,
    "best_epoch": 2,
    "validation_nll": [4.0, 2.5, 3.0],
    "reference_nll": {"linear": 2.6, "constant": 9.0},
}


def text_of(folder: Path, about: dict[str, Any]) -> str:
    """The report of a neural model that tells this of itself."""
    scm = small_scm()
    model = replace(scm, about={**scm.about, **about})
    run = explain_run(folder, model, continuous_episodes(scm, 3), Question((1,), nodes=100))
    return read(report(run, ReportOptions(cases=1)).html).text


def test_the_fit_beside_simple_models(tmp_path: Path) -> None:
    text = text_of(tmp_path, {"training": TRAINING})
    for words in ("-2.500", "-2.600", "-9.000", "900 transitions; 100 others held out",
                  "the best was number 2", "No simple model fits"):  # fmt: skip
        assert words in text, words
    assert "The model fits poorly" not in text


def test_a_poor_fit_is_said_first(tmp_path: Path) -> None:
    training = {**TRAINING, "reference_nll": {"linear": 1.0, "constant": 9.0}}
    text = text_of(tmp_path, {"training": training})
    summary, _, rest = text.partition("What was asked")
    assert "The model fits poorly: linear regression fits the held-out episodes better" in summary
    assert "Do not trust these explanations" in rest


@pytest.mark.parametrize(
    "training",
    [None, [], {}, {**TRAINING, "validation_nll": []}, {**TRAINING, "epochs": "many"}],
)
def test_a_record_of_a_training_that_cannot_be_read(training: Any) -> None:
    assert training_of(training) == {}
    assert training_of(TRAINING) == TRAINING


def test_columns_as_the_schema_has_them(tmp_path: Path) -> None:
    text = text_of(tmp_path, {"notes": ["Learned <somewhere>."]})
    for words in ("contextual", "mg", "higher, weight 0.5", "Learned <somewhere>."):
        assert words in text, words
    assert "How well the model fits is not known" in text
    assert "Outcome: summed −level + 0.5 × pressure. Higher is better." in text


def test_counts_of_a_tabular_model(tmp_path: Path) -> None:
    mdp = small_mdp()
    run = explain_run(tmp_path, mdp, discrete_episodes(mdp, 3), Question((1,)))
    text = read(report(run, ReportOptions()).html).text
    assert mdp.visits is not None
    seen = mdp.visits[mdp.visits > 0]
    assert f"Of the {len(seen)} pairs that were seen" in text
    assert "counterfactual stability" in text


def test_a_model_that_keeps_nothing_of_its_data(tmp_path: Path) -> None:
    mdp = small_mdp().with_data(None)
    bare = cp.TabularMDP(
        np.array([[mdp.row(s, a) for a in range(3)] for s in range(4)]), mdp.rewards
    )
    run = explain_run(tmp_path, bare, discrete_episodes(mdp, 3), Question((1,)))
    text = read(report(run, ReportOptions()).html).text
    assert "Whether explanations leave the data is not known" in text
    assert "does not say how often each action was taken" in text


def told(folder: Path, about: dict[str, Any]) -> str:
    mdp = small_mdp()
    model = mdp.with_data(mdp.visits, about)
    run = explain_run(folder, model, discrete_episodes(mdp, 6), Question((0, 1)))
    return read(report(run, ReportOptions(cases=2)).html).text


def test_what_a_model_calls_its_outcome_and_its_states(tmp_path: Path) -> None:
    severity = {"name": "SOFA", "unit": "points", "better": "lower", "values": [1, 2.5, 4, None]}
    outcome = {"name": "survival probability", "percent": True}
    text = told(tmp_path, {"outcome": outcome, "severity": severity})
    assert "Outcome: survival probability. Higher is better." in text
    assert "SOFA as it was and as it would have been" in text
    assert "%" in text


@pytest.mark.parametrize(
    "severity",
    [[], {"name": "SOFA"}, {"name": "SOFA", "values": [1, 2]}, {"name": "SOFA", "values": "1234"},
     {"name": "SOFA", "values": [1, 2, 3, 4], "better": "sideways"}],
)  # fmt: skip
def test_a_severity_that_does_not_fit(tmp_path: Path, severity: Any) -> None:
    with pytest.raises(FileError, match="severity"):
        told(tmp_path, {"severity": severity})


def size_of(model: cp.NeuralSCM) -> str:
    """What the page says about its size."""
    pieces = '{% import "macros.html" as m %}{% include "explain/learned.html" %}'
    page = environment().from_string(pieces).render(model=model, training={})
    return read(page).text.split("Size")[1].split("Lipschitz")[0]


def test_one_input_is_told_as_one() -> None:
    weights = {"state": (1, 1), "bias": 1, "action": (1, 1), "output": (1, 1), "output_bias": 1}
    network = {name: np.ones(shape) for name, shape in weights.items()}
    one = cp.NeuralSCM.from_weights(network, network, np.eye(1), 0)
    assert size_of(one) == "1 feature, 1 input of actions, 1 hidden unit "
    assert size_of(small_scm()) == "3 features, 2 inputs of actions, 6 hidden units "
