"""Labels of everything that knows names: schemas, layouts of tables, models."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.icu_sepsis import DEATH, SURVIVAL, IcuSepsis
from counterplan.domains.icu_sepsis import LEVELS as DOSE_LEVELS
from counterplan.domains.sepsis_table import HOURS
from counterplan.errors import InputError
from counterplan.io.dose_changes import DRUGS
from counterplan.io.schema import Column, Schema
from counterplan.io.schema_grid import Grid
from counterplan.io.schema_layout import SchemaLayout, layout_of_model
from counterplan.io.stay_tables import CohortLayout, IcuLayout, Layout
from counterplan.scm.gumbel_max import GumbelMaxSCM
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.viz.data.labels import Labels
from counterplan.viz.quantity import Quantity

Named: TypeAlias = Labels | Schema | Layout | TabularMDP | GumbelMaxSCM | NeuralSCM | IcuSepsis
# Units of the built-in tables of intensive care, by column.
UNITS = {
    "age": "days", "FiO2_1": "share", "paO2": "mmHg", "Platelets_count": "10⁹/L",
    "Total_bili": "mg/dL", "GCS": "points", "MeanBP": "mmHg", "Creatinine": "mg/dL",
    "output_4hourly": "mL", "SOFA": "points",
}  # fmt: skip
ICU_UNITS = {
    "age": "years", "hr": "1/min", "map": "mmHg", "resp": "1/min", "fio2": "%", "po2": "mmHg",
    "lact": "mmol/L", "bili": "mg/dL", "plt": "10⁹/L", "crea": "mg/dL", "urine": "mL",
    "sofa": "points",
}  # fmt: skip


def labels_of(source: Named) -> Labels:
    """The names that a schema, a layout, a model or a shipped problem has for its numbers."""
    if isinstance(source, Labels):
        return source
    if isinstance(source, GumbelMaxSCM):
        source = source.mdp
    if isinstance(source, TabularMDP | NeuralSCM):
        return _of_model(source)
    if isinstance(source, Schema):
        source = SchemaLayout(source)
    if isinstance(source, SchemaLayout):
        return _of_schema(source)
    if isinstance(source, CohortLayout | IcuLayout):
        return _of_stays(source)
    if isinstance(source, IcuSepsis):
        return _of_icu_sepsis(source)
    raise InputError(
        f"{type(source).__name__} has no names for features and doses: pass a SchemaLayout, or "
        "viz.Labels.named(features, doses, actions)"
    )


def _of_schema(layout: SchemaLayout) -> Labels:
    schema, states = layout.schema, layout.states
    return Labels(
        schema.features,
        layout.choices.columns,
        layout.choices.vectors,
        None if states is None else states.vectors,
        step=schema.step,
        unit=schema.unit,
    )


def _of_model(model: TabularMDP | NeuralSCM) -> Labels:
    layout = layout_of_model(model)
    if layout is not None:
        return _of_schema(layout)
    if isinstance(model, NeuralSCM):
        raise InputError(
            "the model remembers no schema, so its features have no names: pass a layout, or "
            "viz.Labels.named(features, doses, actions)"
        )
    states = tuple(model.state_name(state) for state in range(model.n_states))
    actions = tuple(model.action_name(action) for action in range(model.n_actions))
    return Labels(
        (Column("state", "state", labels=states),),
        (Column("action", "action", labels=actions),),
        _numbered(model.n_actions),
        _numbered(model.n_states),
    )


def _of_stays(layout: CohortLayout | IcuLayout) -> Labels:
    """The tables of intensive care: five levels each of two drugs, the SOFA score to be lowered."""
    units = UNITS if isinstance(layout, CohortLayout) else ICU_UNITS
    merits = layout.reward().gradient(len(layout.features))
    features = tuple(
        Column(name, "state", unit=units.get(name, ""), better="lower" if merit < 0 else None)
        for name, merit in zip(layout.features, merits, strict=True)
    )
    doses = Grid(tuple(_levels(drug) for drug in DRUGS))
    return Labels(features, doses.columns, doses.vectors, step=float(HOURS), unit="h")


def _of_icu_sepsis(model: IcuSepsis) -> Labels:
    """Discrete states with a severity; the last three are no states of illness."""
    score = np.where(np.arange(len(model.sofa)) < DEATH, model.sofa, np.nan)[:, np.newaxis]
    doses = Grid((_levels("fluids"), _levels("vasopressor")))
    return Labels(
        (Column("SOFA", "state", unit="points", better="lower"),),
        doses.columns,
        doses.vectors,
        score,
        {DEATH: "died", SURVIVAL: "alive"},
        outcome=Quantity("survival probability", percent=True),
    )


def _levels(drug: str) -> Column:
    levels = tuple(float(level) for level in range(DOSE_LEVELS))
    return Column(drug, "action", unit="level", levels=levels)


def _numbered(count: int) -> FloatArray:
    return np.arange(count, dtype=np.float64)[:, np.newaxis]
