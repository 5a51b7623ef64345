"""The distinct explanations that a policy gives (Figure 4c of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.explained import SAMPLES, is_policy
from counterplan.viz.quantity import Quantity, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
    from counterplan.counterfactual.discrete.distributions import Realizations

# Behind actions as they were taken.
UNCHANGED = "#eceef1"


class DistinctExplanation(NamedTuple):
    """A set of changes with the share of realizations that make them and their mean outcome."""

    changes: tuple[Change, ...]
    frequency: float
    mean_outcome: float


def distinct_explanations(
    realizations: Realizations, episode: Episode
) -> tuple[DistinctExplanation, ...]:
    """All distinct action sequences among sampled counterfactual episodes, most frequent first; the
    observed one has no changes."""
    sequences, member, counts = np.unique(
        realizations.actions, axis=0, return_inverse=True, return_counts=True
    )
    totals = np.bincount(member.reshape(-1), weights=realizations.outcomes)
    observed = episode.actions
    return tuple(
        DistinctExplanation(
            tuple(
                Change(int(t), int(observed[t]), int(sequences[i, t]))
                for t in np.flatnonzero(sequences[i] != observed)
            ),
            float(counts[i] / len(realizations.outcomes)),
            float(totals[i] / counts[i]),
        )
        for i in np.argsort(-counts, kind="stable")
    )


def explanations_figure(
    explanations: PolicyExplanation | Sequence[DistinctExplanation],
    episode: Episode | None = None,
    action_name: Callable[[int], str] | None = None,
    *,
    most: int = 8,
    quantity: Quantity | None = None,
) -> Figure:
    """A table with a row for each explanation and a column for each step that any of them changes:
    new actions dark, the observed ones pale below them, frequency f and mean outcome r beside them.

    explanations  a policy's explanation, or those of `distinct_explanations`, most frequent first;
                  the first `most` are shown
    episode       its observed actions stand in the last row; a policy's explanation knows it
    action_name   a short name for an action; if not given the model's
    """
    distinct: Any = explanations
    if is_policy(explanations):
        action_name = action_name or explanations.process.setting.mdp.action_name
        episode = explanations.episode
        distinct = distinct_explanations(explanations.sample(SAMPLES, seed=0), episode)
    if episode is None:
        raise InputError("explanations_figure: say which episode is explained: episode=")
    name, quantity = action_name or str, quantity or Quantity()
    shown = [explanation for explanation in distinct[:most] if explanation.changes]
    if not shown:
        raise InputError("explanations_figure: no explanation changes anything")
    steps = sorted({change.t for one in shown for change in one.changes})
    rows = [{change.t: name(change.alternative) for change in one.changes} for one in shown]
    rows.append({t: name(int(episode.actions[t])) for t in steps})
    cell = max(0.62, 0.085 * max(len(text) for row in rows for text in row.values()))
    figure = style.new_figure(2.6 + cell * len(steps), 0.55 + 0.3 * len(rows))
    axes = figure.add_subplot()
    style.bare_axes(axes)
    for line, row in enumerate(rows):
        colour = style.COUNTERFACTUAL if line < len(shown) else UNCHANGED
        for column, t in enumerate(steps):
            if row.get(t):
                axes.barh(line, 0.94, left=column - 0.47, height=0.84, color=colour)
                style.write(axes, column, line, row[t], color=style.ink_on(colour))
    beside = (len(steps) - 0.1, len(steps) + 0.75)
    for place, heading in zip(beside, ("f", "r"), strict=True):
        style.write(axes, place, -0.75, heading, size=style.TEXT_SIZE, style="italic")
    for line, one in enumerate(shown):
        style.write(axes, beside[0], line, share(one.frequency))
        style.write(axes, beside[1], line, quantity.write(one.mean_outcome))
    names = [*(f"explanation {line + 1}" for line in range(len(shown))), "observed"]
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_xlim(-0.55, len(steps) + 1.25)
    axes.set_ylim(len(shown) + 0.5, -0.5)
    axes.set_xticks(range(len(steps)), [f"step {t}" for t in steps])
    axes.xaxis.tick_top()
    return figure
