"""Names and units come from schemas, layouts and models."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_episodes import IcuLayout
from counterplan.domains.sepsis_table import CohortLayout
from counterplan.errors import InputError
from counterplan.viz import Labels, labels_of
from counterplan.viz.labels import Quantity, share, step_title, with_unit

from .results import CHANCE, SCHEMA, discrete, layout


def test_a_schema_and_its_layout_say_the_same() -> None:
    for source in (SCHEMA, layout(), labels_of(layout())):
        labels = labels_of(source)
        assert [with_unit(column) for column in labels.features] == ["ill (points)"]
        assert [with_unit(column) for column in labels.doses] == ["dose (mg)"]
        np.testing.assert_array_equal(labels.actions, [[0.0], [2.0], [5.0]])
        assert labels.states is not None
        np.testing.assert_array_equal(labels.states[:, 0], [0.0, 1.0, 2.0, 4.0])
        assert (labels.step, labels.unit) == (4.0, "h")
        assert labels.quantity.label == "Outcome (summed −ill, points)"


def test_a_model_remembers_its_schema() -> None:
    mdp = discrete()[0].with_data(about={"schema": SCHEMA.as_dict()})
    assert labels_of(cp.GumbelMaxSCM(mdp)).features == SCHEMA.features


def test_a_model_without_a_schema_has_its_own_labels() -> None:
    labels = labels_of(discrete()[0])
    assert labels.doses[0].labels == discrete()[0].action_labels
    assert labels.ticks(0) == ((0.0, "0"), (1.0, "1"), (2.0, "2"), (3.0, "3"))
    assert labels.text(0, 2.0) == "2"


@pytest.mark.parametrize("table", [CohortLayout(), IcuLayout()])
def test_tables_of_intensive_care_have_units(table: CohortLayout) -> None:
    labels = labels_of(table)
    assert [column.name for column in labels.features] == list(table.features)
    assert labels.title(labels.place()).lower() == "sofa (points)"
    assert labels.actions.shape == (25, 2)
    np.testing.assert_array_equal(labels.actions[7], [1.0, 2.0])  # 5 * vasopressor + fluids
    assert (labels.step, labels.unit) == (4.0, "h")


def test_icu_sepsis_numbers_its_doses_the_other_way_round() -> None:
    labels = labels_of(icu_sepsis.load())
    assert [column.name for column in labels.doses] == ["fluids", "vasopressor"]
    np.testing.assert_array_equal(labels.actions[7], [1.0, 2.0])
    assert labels.quantity.percent
    assert labels.states is not None
    assert np.isnan(labels.states[icu_sepsis.DEATH, 0])
    assert labels.endings[icu_sepsis.DEATH] == "died"


def test_names_alone() -> None:
    labels = Labels.named(["a", "b"], ["x"], [[0.0], [0.5]], step=2.0, unit="d")
    assert (labels.place(), labels.place("a"), labels.place(1)) == (1, 0, 1)
    np.testing.assert_array_equal(labels.values([[1.0, 2.0], [3.0, 4.0]], 1), [2.0, 4.0])
    assert Labels.named(["a"]).actions.shape == (0, 0)
    assert step_title("d") == "time (d)"
    assert step_title("") == "step"


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="no feature 2: there are a, b"):
        Labels.named(["a", "b"]).place(2)
    with pytest.raises(InputError, match="no features"):
        Labels.named([])
    with pytest.raises(InputError, match=r"1 doses, but actions of shape \(1, 2\)"):
        Labels.named(["a"], ["x"], [[0.0, 1.0]])
    with pytest.raises(InputError, match=r"expected \(S, 1\)"):
        Labels(SCHEMA.features, states=np.zeros((4, 2)))
    with pytest.raises(InputError, match=r"expected \(N, 0\)"):
        Labels(SCHEMA.features, actions=np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0 %"), (0.004, "< 1 %"), (0.25, "25 %"), (0.998, "> 99 %"), (1.0, "100 %")],
)
def test_share_never_claims_never_or_always(probability: float, text: str) -> None:
    assert share(probability) == text


def test_quantity_writes_percent_and_plain_numbers() -> None:
    assert CHANCE.write(0.8378) == "83.8 %"
    assert CHANCE.write(-0.0) == "0.0 %"
    assert CHANCE.write_gain(0.8378) == "+83.8 points"
    assert CHANCE.write_gain(-0.1) == "-10.0 points"
    assert CHANCE.write_range(0.0, 1.0) == "0.0 to 100.0 %"
    assert Quantity().write(12.34567) == "12.35"
    assert Quantity().write(float("-inf")) == "-inf"
    assert Quantity().write_range(1.0, 2.5) == "1 to 2.5"
