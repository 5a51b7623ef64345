"""Figure 6 of the 2023 paper: how much goodness of fit the Lipschitz constraint costs.

For every pair (L_h, L_phi), models learn from all folds but one and are judged by the mean
log-likelihood of the one left out; the figure shows by how many per cent it is lower than without
constraint. Likelihoods are densities in the model's units, so per cents compare models of the same
data only. No search is involved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from counterplan.domains import sepsis
from counterplan.scm.training import Training
from counterplan.viz import style
from experiments.continuous_study import LOCATION, SCALE, Study
from experiments.figure import Drawn, Options, Track
from experiments.neural_validation import Constants, GridPoint, GridSettings, cross_validate
from experiments.panels import canvas
from experiments.parts import Parts

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

Points: TypeAlias = Mapping[Constants, GridPoint]


@dataclass(frozen=True)
class Plan:
    """The grid and the number of folds."""

    locations: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    scales: tuple[float, ...] = (0.05, 0.1, 0.5, 1.0)
    folds: int = 5

    @property
    def pairs(self) -> list[Constants]:
        """The unconstrained model, then the grid."""
        return [None, *((h, phi) for h in self.locations for phi in self.scales)]


FULL = Plan()
QUICK = Plan(locations=(0.5, 1.0), scales=(0.1, 1.0), folds=2)


def figure6(options: Options, track: Track) -> Drawn:
    """The loss of log-likelihood over the grid."""
    study, plan = Study(options), QUICK if options.quick else FULL
    parts = Parts(options.parts, study.settings(figure="figure 6", plan=asdict(plan)))
    points: dict[Constants, GridPoint] = {}
    # One after the other: training uses all cores by itself.
    for pair in track(plan.pairs, len(plan.pairs), "cross-validation"):
        cell = parts.get([pair])
        if cell is None:
            cell = _validated(study, pair, plan)
            parts.put([pair], cell)
        points[pair] = GridPoint(pair, np.array(cell["train"]), np.array(cell["validation"]))
    return Drawn(_draw(points, study, plan), _numbers(points))


def _validated(study: Study, pair: Constants, plan: Plan) -> dict[str, Any]:
    settings = GridSettings(
        study.sizes.hidden,
        study.sizes.epochs,
        len(sepsis.FIXED),
        Training(scaling=sepsis.scaling(study.cohort), progress=False),
    )
    point = cross_validate(
        study.transitions, pair, folds=plan.folds, settings=settings, seed=study.options.seed
    )
    return {"train": point.train.tolist(), "validation": point.validation.tolist()}


def _numbers(points: Points) -> pl.DataFrame:
    import polars as pl

    rows = [
        {
            "L_h": None if pair is None else pair[0],
            "L_phi": None if pair is None else pair[1],
            "train_log_likelihood": -point.train_mean,
            "validation_log_likelihood": -point.validation_mean,
            "validation_se": point.validation_error,
            "decrease_percent": point.decrease(points[None]),
        }
        for pair, point in points.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _draw(points: Points, study: Study, plan: Plan) -> Drawing:
    free = points[None]
    losses = np.array(
        [[points[h, phi].decrease(free) for h in plan.locations] for phi in plan.scales]
    )
    title = (
        f"Goodness of fit under Lipschitz constraints, {study.sizes.simulated} simulated patients\n"
        f"{plan.folds}-fold cross-validation; without constraint "
        f"{-free.validation_mean:.2f} nats per transition"
    )
    drawing = canvas(6.2, 3.8, title)
    axes = drawing.subplots()
    colours = style.severity_colours()
    top = max(1.0, float(losses.max()))
    image = axes.imshow(losses, cmap=colours, vmin=0.0, vmax=top, origin="lower", aspect="auto")
    for row, column in np.ndindex(losses.shape):
        loss = float(losses[row, column])
        axes.text(
            column, row, f"{loss:.1f}".replace("-", "−"), ha="center", va="center",
            size=style.SMALL_SIZE, color=style.ink_on(colours(max(0.0, loss) / top)),
        )  # fmt: skip
    if LOCATION in plan.locations and SCALE in plan.scales:
        place = plan.locations.index(LOCATION), plan.scales.index(SCALE)
        axes.plot(
            *place, marker="s", markersize=30, markerfacecolor="none",
            markeredgecolor=style.COUNTERFACTUAL, markeredgewidth=1.8, clip_on=False,
        )  # fmt: skip
    style.bare_axes(axes)
    axes.set_xticks(range(len(plan.locations)), [f"{value:g}" for value in plan.locations])
    axes.set_yticks(range(len(plan.scales)), [f"{value:g}" for value in plan.scales])
    axes.set_xlabel("location network's constant $L_h$", size=style.TEXT_SIZE, color=style.INK)
    axes.set_ylabel("scale network's constant $L_\\phi$", size=style.TEXT_SIZE, color=style.INK)
    bar = drawing.colorbar(image, ax=axes, pad=0.02)
    bar.set_label("decrease in log-likelihood (%)", size=style.TEXT_SIZE, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL_SIZE, colors=style.SOFT_INK)
    bar.outline.set_visible(False)
    axes.set_title(
        "framed: the constants used elsewhere, as in the paper", loc="left", size=style.SMALL_SIZE,
        color=style.SOFT_INK,
    )  # fmt: skip
    return drawing
