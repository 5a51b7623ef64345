"""Names and units come from schemas, layouts and models; changes of doses are said in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.result import Change
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_episodes import IcuLayout
from counterplan.domains.sepsis_table import CohortLayout
from counterplan.errors import InputError
from counterplan.tables.schema import Column
from counterplan.viz import Labels, Move, labels_of
from counterplan.viz.labels import moves_of, step_title, value_names, with_unit

from .results import ODD, SCHEMA, discrete, layout


def test_a_schema_and_its_layout_say_the_same() -> None:
    for source in (SCHEMA, layout(), labels_of(layout())):
        labels = labels_of(source)
        assert [with_unit(column) for column in labels.features] == ["ill (points)"]
        assert [with_unit(column) for column in labels.doses] == ["dose (mg)"]
        np.testing.assert_array_equal(labels.actions, [[0.0], [2.0], [5.0]])
        assert labels.states is not None
        np.testing.assert_array_equal(labels.states[:, 0], [0.0, 1.0, 2.0, 4.0])
        assert (labels.step, labels.unit) == (4.0, "h")
        assert labels.quantity.label == "Outcome (summed −ill in points)"


def test_a_unit_that_a_name_says_already_is_not_said_twice() -> None:
    column = Column("systolic (mmHg)", "state", unit="mmHg", better="lower")
    assert with_unit(column) == "systolic (mmHg)"
    schema = replace(SCHEMA, columns=(column, *SCHEMA.columns[1:]), kind="continuous")
    assert schema.outcome_in_words == "−systolic (mmHg)"


def test_a_model_remembers_its_schema_or_has_labels_of_its_own() -> None:
    mdp = discrete()[0]
    remembers = mdp.with_data(about={"schema": SCHEMA.as_dict()})
    assert labels_of(cp.GumbelMaxSCM(remembers)).features == SCHEMA.features
    labels = labels_of(mdp)
    assert labels.doses[0].labels == mdp.action_labels
    assert value_names(labels.features[0]) == {0.0: "0", 1.0: "1", 2.0: "2", 3.0: "3"}
    assert labels.text(0, 2.0) == "2"


@pytest.mark.parametrize("table", [CohortLayout(), IcuLayout()])
def test_tables_of_intensive_care_have_units(table: CohortLayout) -> None:
    labels = labels_of(table)
    assert [column.name for column in labels.features] == list(table.features)
    assert labels.title(labels.place()).lower() == "sofa (points)"
    assert [with_unit(dose) for dose in labels.doses] == ["vasopressor (level)", "fluids (level)"]
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
    assert (step_title("d"), step_title("")) == ("time (d)", "step")


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(InputError, match="no feature 2: there are a, b"):
        Labels.named(["a", "b"]).place(2)
    with pytest.raises(InputError, match="no features"):
        Labels.named([])
    with pytest.raises(InputError, match=r"actions have shape \(1, 2\), expected \(N, 1\)"):
        Labels.named(["a"], ["x"], [[0.0, 1.0]])
    with pytest.raises(InputError, match=r"expected \(S, 1\)"):
        Labels(SCHEMA.features, states=np.zeros((4, 2)))
    with pytest.raises(InputError, match=r"expected \(N, 0\)"):
        Labels(SCHEMA.features, actions=np.zeros((3, 2)))
    with pytest.raises(InputError, match="str has no names for features"):
        labels_of("names")  # type: ignore[arg-type]


def test_moves_say_levels_by_their_labels_with_direction_and_size() -> None:
    labels = labels_of(layout())
    up, down = moves_of([Change(0, 0, 2), Change(1, 2, 1)], labels)
    assert (up.label, up.size, up.direction) == ("no → full", 5.0, 1)
    assert (down.label, down.size, down.direction) == (f"full → {ODD}", -3.0, -1)
    (other,) = moves_of([Change(0, 0, 2)], labels_of(discrete()[0]))
    assert (other.what, other.label, other.direction) == ("action", "none → rest", 0)
    assert [Move(0, "x", 3.0, after).label for after in (5.0, 2.5)] == ["+2", "−0.5"]
