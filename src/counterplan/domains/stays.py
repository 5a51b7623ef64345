"""Tables of ICU stays that need no schema of the user's, and models learned from them.

    CohortLayout   the sepsis cohort of the AI Clinician's pipeline (`domains.sepsis_table`)
    IcuLayout      four-hour steps as they were recorded, gaps and all (`domains.icu_episodes`)

Actions of both are five levels each of vasopressors and fluids, numbered 5 * vasopressor + fluids;
the reward is -SOFA. A model learned from doses remembers where their levels begin, so that a level
means the same dose in every table it is used on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from counterplan.core.table import table_columns
from counterplan.domains.icu_episodes import ACTIONS, IcuEpisodes, IcuLayout, read_episodes_4h
from counterplan.domains.sepsis_table import (
    SCHEMA,
    CohortLayout,
    DoseEdges,
    SepsisCohort,
    read_cohort,
)
from counterplan.errors import FileError, InputError
from counterplan.tables.fit import LearnedFit, LearnerSettings, learn
from counterplan.tables.stays import DRUGS

if TYPE_CHECKING:
    from counterplan.scm.learned import LearnedSCM

StayLayout: TypeAlias = CohortLayout | IcuLayout
EDGES = "dose_edges"


def layout_of(path: str | Path) -> StayLayout | None:
    """The kind of a table by its columns, None if it is no table of stays."""
    columns = set(table_columns(path))
    if columns & {SCHEMA.episode, SCHEMA.time}:
        return CohortLayout()
    return IcuLayout() if set(ACTIONS) <= columns else None


def fit_cohort(path: str | Path, settings: LearnerSettings, support: bool = True) -> LearnedFit:
    """Learn a model from a table; see `tables.fit.learn`."""
    layout = _layout(path)
    stays = read_episodes_4h(path) if isinstance(layout, IcuLayout) else read_cohort(path)
    try:
        scm = learn(stays.episodes, layout, settings, support)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    if isinstance(stays, SepsisCohort):
        edges = {drug: list(getattr(stays.edges, drug)) for drug in DRUGS}
        scm = replace(scm, about={**scm.about, EDGES: edges})
    return LearnedFit(scm, stays.episodes, len(stays.dropped), stays.summary(), layout)


def stays_for(
    scm: LearnedSCM, model: str | Path, table: str | Path
) -> tuple[IcuEpisodes | SepsisCohort, StayLayout]:
    """The stays of a table, with the dose levels of the cohort that the model was learned from."""
    layout = _layout(table)
    try:
        scm.check_schema(layout.features, layout.actions)
    except InputError as problem:
        raise FileError(f"{model}: does not fit {table}: {problem}; give another") from None
    if isinstance(layout, IcuLayout):
        return read_episodes_4h(table), layout
    return read_cohort(table, _edges(scm, model)), layout


def _layout(path: str | Path) -> StayLayout:
    layout = layout_of(path)
    if layout is None:
        raise FileError(f"{path}: is no table of ICU stays (columns icustayid, bloc, ...)")
    return layout


def _edges(scm: LearnedSCM, model: str | Path) -> DoseEdges:
    stored = scm.about.get(EDGES)
    if not isinstance(stored, Mapping) or set(stored) != set(DRUGS):
        raise FileError(
            f"{model}: does not say which doses make which level, so it was not learned from a "
            "cohort table; use `counterplan fit` on one"
        )
    try:
        return DoseEdges(*(tuple(map(float, stored[drug])) for drug in DRUGS))
    except (TypeError, ValueError) as problem:
        raise FileError(f"{model}: its dose levels are damaged: {problem}; fit it anew") from None
