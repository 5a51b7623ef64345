"""The distinct explanations that a policy gives (Figure 4c of the 2021 paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from counterplan.core.episode import Episode
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.errors import InputError
from counterplan.viz.distinct import DistinctExplanation, distinct_explanations
from counterplan.viz.quantity import Quantity, share

SAMPLES = 1_000


@dataclass(frozen=True)
class ExplanationTable:
    """What the table shows.

    steps     the steps that any of the explanations changes
    rows      for each explanation and step: the new action, empty where it is kept
    observed  the action that was taken at each step
    margins   for each explanation: how often it is given, and the mean outcome
    """

    steps: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]
    observed: tuple[str, ...]
    margins: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """How the rows are called, the observed one last."""
        return (*(f"explanation {row + 1}" for row in range(len(self.rows))), "observed")

    @property
    def longest(self) -> int:
        """Letters in the longest cell."""
        return max(len(text) for row in (*self.rows, self.observed) for text in row)


def explanations_data(
    explanations: PolicyExplanation | Sequence[DistinctExplanation] | ExplanationTable,
    episode: Episode | None = None,
    action_name: Callable[[int], str] | None = None,
    *,
    most: int = 8,
    quantity: Quantity | None = None,
) -> ExplanationTable:
    """A row for each explanation, a column for each step that any of them changes.

    explanations  a policy's explanation, or those of `distinct_explanations`, most frequent first;
                  the first `most` are shown
    episode       its observed actions stand in the last row; a policy's explanation knows it
    action_name   a short name for an action; if not given the model's
    """
    if isinstance(explanations, ExplanationTable):
        return explanations
    if isinstance(explanations, PolicyExplanation):
        action_name = action_name or explanations.process.setting.mdp.action_name
        episode = explanations.episode
        explanations = distinct_explanations(explanations.sample(SAMPLES, seed=0), episode)
    if episode is None:
        raise InputError("explanations_figure: say which episode is explained: episode=")
    name, written = action_name or str, quantity or Quantity()
    shown = [explanation for explanation in explanations[:most] if explanation.changes]
    if not shown:
        raise InputError("explanations_figure: no explanation changes anything")
    steps = tuple(sorted({change.t for one in shown for change in one.changes}))
    rows = []
    for one in shown:
        new = {change.t: name(change.alternative) for change in one.changes}
        rows.append(tuple(new.get(t, "") for t in steps))
    margins = [(share(one.frequency), written.write(one.mean_outcome)) for one in shown]
    observed = tuple(name(int(episode.actions[t])) for t in steps)
    return ExplanationTable(steps, tuple(rows), observed, tuple(margins))
