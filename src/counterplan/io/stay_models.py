"""Models learned from tables of ICU stays, and explanations of the stays in them.

A model learned from doses remembers where their levels begin, so that a level means the same dose
in every table it is used on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import whole_number
from counterplan.domains.sepsis import DoseEdges
from counterplan.errors import FileError, InputError
from counterplan.io.stay_tables import Layout, Stays, layout_of
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.seen import collect_seen
from counterplan.scm.training import MOST_UNITS, Training, constants
from counterplan.scm.transitions import Transitions

EDGES = "dose_edges"
# In the model's units, where what it has learned from lies between -0.5 and 0.5: beyond that by
# more than the whole range.
FAR = 1.5
# Nats per transition and feature by which a fit may be worse than a linear one without a warning.
TOLERATED = 0.1


@dataclass(frozen=True)
class CohortSettings:
    """How a model is learned from a cohort; see `NeuralSCM.fit`.

    support  keep some of the data in the model, to tell how far explanations leave it
    """

    hidden: int = 200
    epochs: int = 100
    lipschitz: tuple[float, float] | None = (1.0, 0.1)
    seed: int = 0
    support: bool = True

    def __post_init__(self) -> None:
        whole_number(self.hidden, "hidden", 1, MOST_UNITS)
        whole_number(self.epochs, "epochs", minimum=1)
        constants(self.lipschitz)


class Outlier(NamedTuple):
    """A state far outside what a model has learned from, `low` to `high`."""

    stay: str | None
    column: str
    value: float
    low: float
    high: float


def is_cohort_table(path: str | Path) -> bool:
    """Whether the columns of the file are those of a table of ICU stays."""
    return layout_of(path) is not None


def fit_cohort(path: str | Path, settings: CohortSettings) -> tuple[NeuralSCM, Stays]:
    """Learn a model from a table."""
    layout = _layout(path)
    stays = layout.read(path, None)
    try:
        scm = learn(stays.episodes, layout, settings)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    if stays.edges is None:
        return scm, stays
    edges = {drug: list(getattr(stays.edges, drug)) for drug in ("vasopressor", "fluids")}
    return replace(scm, about={**scm.about, EDGES: edges}), stays


def learn(episodes: Sequence[Episode], layout: Layout, settings: CohortSettings) -> NeuralSCM:
    """A model of the episodes of a table."""
    transitions = Transitions.collect(episodes, None, layout.features, layout.actions)
    scm = NeuralSCM.fit(
        transitions,
        hidden=settings.hidden,
        lipschitz=settings.lipschitz,
        epochs=settings.epochs,
        seed=settings.seed,
        fixed=layout.fixed,
        training=Training(scaling=layout.scaling(episodes)),
    )
    if not settings.support:
        return scm
    return replace(scm, seen=collect_seen(transitions, scm.scaling, settings.seed))


def poor_fit(scm: NeuralSCM) -> str | None:
    """Which simple model fits clearly better than this one, with its log-likelihood; None if none
    does."""
    record = scm.about["training"]
    loss = record["validation_nll"][record["best_epoch"] - 1]
    worst = loss - TOLERATED * len(scm.noise_cholesky)
    for kind, words in (
        ("constant", "a constant, which looks at neither states nor actions,"),
        ("linear", "linear regression"),
    ):
        reference = record["reference_nll"][kind]
        if reference < worst:
            return f"{words} fits the held-out episodes better ({-reference:.3f} nats)"
    return None


def stays_for(scm: NeuralSCM, model: str | Path, table: str | Path) -> tuple[Stays, Layout]:
    """The stays of a table, with the dose levels of the cohort that the model was learned from."""
    layout = _layout(table)
    try:
        scm.check_schema(layout.features, layout.actions)
    except InputError as problem:
        raise FileError(f"{model}: does not fit {table}: {problem}; give another") from None
    edges = _edges(scm, model) if layout.has_doses else None
    return layout.read(table, edges), layout


def outliers(scm: NeuralSCM, layout: Layout, episode: Episode) -> list[Outlier]:
    """For each column with states far outside what the model has learned from, the farthest."""
    if scm.scaling is None:
        return []
    distance = np.abs(scm.scaling.encode_states(episode.states))
    found = []
    for column in np.flatnonzero(distance.max(axis=0) > FAR):
        middle, width = scm.scaling.state_offset[column], scm.scaling.state_range[column]
        value = float(episode.states[distance[:, column].argmax(), column])
        ends = float(middle - width / 2), float(middle + width / 2)
        found.append(Outlier(episode.id, layout.features[column], value, *ends))
    return found


def _layout(path: str | Path) -> Layout:
    layout = layout_of(path)
    if layout is None:
        raise FileError(f"{path}: is no table of ICU stays (columns icustayid, bloc, ...)")
    return layout


def _edges(scm: NeuralSCM, model: str | Path) -> DoseEdges:
    stored = scm.about.get(EDGES)
    if not isinstance(stored, Mapping) or set(stored) != {"vasopressor", "fluids"}:
        raise FileError(
            f"{model}: does not say which doses make which level, so it was not learned from a "
            "cohort table; use `counterplan fit` on one"
        )
    try:
        vasopressor, fluids = (
            tuple(map(float, stored[drug])) for drug in ("vasopressor", "fluids")
        )
        return DoseEdges(vasopressor, fluids)  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        raise FileError(f"{model}: its dose levels are damaged: {problem}; fit it anew") from None
