"""How much goodness of fit a Lipschitz constraint costs: cross-validation over a grid (Figure 6).

Episodes are dealt into folds. For every pair (L_h, L_phi) and every fold, a model learns from the
other folds and is judged on the one it has not seen, neither for training nor to choose the epoch.
All models share one scaling, so that their likelihoods can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.training import Training, min_max_scaling
from counterplan.scm.transitions import Transitions

Constants: TypeAlias = tuple[float, float] | None


@dataclass(frozen=True)
class GridSettings:
    """What all models of a grid have in common; see `NeuralSCM.fit`."""

    hidden: int = 200
    epochs: int = 100
    fixed: int = 0
    training: Training = field(default_factory=Training)


@dataclass(frozen=True, eq=False)
class GridPoint:
    """How well models with these constants fit, in nats per transition and in the model's units.

    lipschitz   (L_h, L_phi), None for unconstrained
    train       (folds,) mean negative log-likelihood on the folds learned from
    validation  (folds,) on the fold left out
    """

    lipschitz: Constants
    train: FloatArray
    validation: FloatArray

    @property
    def train_mean(self) -> float:
        return float(self.train.mean())

    @property
    def validation_mean(self) -> float:
        return float(self.validation.mean())

    @property
    def validation_error(self) -> float:
        """Standard error of the mean over folds."""
        return float(self.validation.std(ddof=1) / np.sqrt(len(self.validation)))

    def decrease(self, reference: GridPoint) -> float:
        """Percentage by which the log-likelihood of unseen data is below that of a reference,
        usually the unconstrained model: what Figure 6 shows."""
        best = -reference.validation_mean
        return 100.0 * (best + self.validation_mean) / abs(best)


def cross_validate(
    episodes: Iterable[Episode] | Transitions,
    pair: Constants,
    *,
    folds: int = 5,
    settings: GridSettings | None = None,
    seed: int = 0,
) -> GridPoint:
    """A point of the grid, None for the unconstrained model; the same seed deals the same folds."""
    data = episodes if isinstance(episodes, Transitions) else Transitions.collect(episodes)
    chosen = settings or GridSettings()
    scaling = chosen.training.scaling or min_max_scaling(data)
    quiet = replace(chosen, training=replace(chosen.training, scaling=scaling, progress=False))
    dealt = data.parts(folds, np.random.default_rng(seed))
    losses = [_losses(data, left_out, pair, quiet, seed) for left_out in dealt]
    return GridPoint(pair, *np.array(losses).T)


def _losses(
    data: Transitions, left_out: IntArray, pair: Constants, settings: GridSettings, seed: int
) -> list[float]:
    """Mean negative log-likelihood on the episodes learned from, and on those left out, in the
    model's units: densities there are larger by the ranges of the features."""
    parts = data.of_episodes(np.setdiff1d(data.episode, left_out)), data.of_episodes(left_out)
    scm = NeuralSCM.fit(
        parts[0],
        hidden=settings.hidden,
        lipschitz=pair,
        epochs=settings.epochs,
        seed=seed,
        fixed=settings.fixed,
        training=settings.training,
    )
    assert scm.scaling is not None
    shift = np.log(scm.scaling.state_range[scm.fixed :]).sum()
    physical = [scm.log_likelihood(part.before, part.actions, part.after) for part in parts]
    return [-float(one.mean() + shift) for one in physical]
