"""Episodes whose actions are doses: a course of real numbers answers.

Where the schema gives an action bounds and no levels, an action is the vector of its doses, in the
units of the table. The search goes over all of them between the bounds and, inside the data, no
farther than the data does: doses within

    same = an eighth of the range of the doses that the model was learned from

count as the same, as those half a level apart do where there are five.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.doses import Doses
from counterplan.core.episode import Episode
from counterplan.core.reward import EpisodeReward
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.runs.explainer import ContinuousExplainer, PartChange
from counterplan.runs.question import Question
from counterplan.tables.schema import Column

if TYPE_CHECKING:
    from counterplan.scm.learned import LearnedSCM
    from counterplan.tables.layout import SchemaLayout

# Half of one of the steps between five levels, of the range of the data.
SAME = 0.125
NUMBER = r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)?\s*"
RANGE = re.compile(rf"\s*(.+?)\s*={NUMBER}\.\.{NUMBER}", re.DOTALL)


class DoseExplainer(ContinuousExplainer):
    """Episodes of a learned model whose actions are doses.

    doses  their columns
    """

    def __init__(self, scm: LearnedSCM, layout: SchemaLayout) -> None:
        super().__init__(scm, layout)
        self.doses = layout.doses
        self._worth = layout.learned.worth(layout.schema)

    @cached_property
    def _seen(self) -> tuple[FloatArray, FloatArray]:
        """(2, doses) between which doses the model was learned from; and how far they are the
        same."""
        scaling, n = self.scm.scaling, len(self.doses)
        if scaling is None:
            raise InputError("the model does not know the range of its doses: fit it anew")
        middle, wide = scaling.action_offset[:n], scaling.action_range[:n]
        return np.stack([middle - wide / 2, middle + wide / 2]), SAME * wide

    @cached_property
    def data_rule(self) -> str:
        if not (rule := super().data_rule):
            return ""
        within = [
            f"{dose.name} within {far:.3g} {dose.unit_beside}".rstrip()
            for dose, far in zip(self.doses, self._seen[1], strict=True)
        ]
        return f"{rule}; the same is {', '.join(within)}"

    def problem(self, episode: Episode, question: Question | None = None) -> Mapping[str, Any]:
        self.layout.check_actions(episode)
        low, high = self.box(question)
        more = len(self.layout.actions) - len(self.doses)  # what is replayed as it was

        def every(given: Any, rest: float = np.nan) -> FloatArray:
            return np.append(np.array(given, dtype=np.float64), [rest] * more)

        limits: dict[str, Any] = {
            name: every([getattr(dose, name) for dose in self.doses]) for name in ("step", "total")
        }
        same, worth = every(self._seen[1]), every(self._worth, 0.0)
        doses = Doses(every(low), every(high), **limits, worth=worth, same=same)
        return {"scm": self.scm, "actions": doses, "reward": self.layout.reward(episode)}

    def box(self, question: Question | None = None) -> FloatArray:
        """(2, doses) the bounds of the schema; of a question, of what it allows and, inside the
        data, of what was given there."""
        found = np.array([dose.bounds for dose in self.doses]).T
        if question is None:
            return found
        for name, low, high in _ranges(question.allow, self.doses):
            place = self.components.index(name)
            found[:, place] = max(low, found[0, place]), min(high, found[1, place])
            if not found[0, place] <= found[1, place]:
                raise InputError(f"allow {name}={low:g}..{high:g}: leaves nothing to advise")
        if not self.rule(question):
            return found
        seen, same = self._seen
        inside = np.clip(found, seen[0] - same, seen[1] + same)
        return np.where(inside[0] < inside[1], inside, found)

    def _read_rules(self, question: Question) -> Constraints:
        for kind in ("forbid", "cost"):
            if getattr(question, kind):
                example = self.doses[0].name
                raise InputError(
                    f"{kind}: doses are not listed; narrow them by allow, such as {example}=10..50"
                )
        self.box(question)
        return Constraints()

    def claims_in_words(self, question: Question) -> str:
        return (
            f"{super().claims_in_words(question)} Doses are searched until no others can bring 1 % "
            "more than the improvement, or a limit ends it: the gap says how much more may be left."
        )

    # --- Actions are vectors ---

    def rewards(self, episode: Episode, states: Any, actions: Any) -> FloatArray:
        reward, T = self.layout.reward(episode), len(states)
        taken = np.reshape(list(actions[: T - 1]), (T - 1, -1))
        earned = taken[:, : len(self.doses)] @ self._worth
        if isinstance(reward, EpisodeReward):
            return reward.by_step(states, earned)
        return np.asarray(reward(states) + np.append(earned, 0.0))

    def actions_taken(self, episode: Episode) -> list[Any]:
        given: list[Any] = episode.actions[: len(episode) - 1, : len(self.doses)].tolist()
        return [*given, None]

    def edits(self, changes: Sequence[Mapping[str, Any]], steps: Any) -> dict[int, Any]:
        names = [f"counterfactual_action:{dose.name}" for dose in self.doses]
        return {one["t"]: [steps[one["t"]][name] for name in names] for one in changes}

    def idle_parts(self, explanation: Any) -> Sequence[Sequence[str]]:
        """As where actions are listed; each component is tried without its change."""
        from counterplan.counterfactual.continuous.setting import prepare_sequence

        claim, found = explanation.interval, [list[str]() for _ in explanation.changes]
        pairs = [
            (number, change.t, int(part))
            for number, change in enumerate(explanation.changes)
            for differs in [np.flatnonzero(np.subtract(change.observed, change.alternative))]
            for part in (differs if len(differs) > 1 else ())
        ]
        if claim is None or not pairs:
            return found
        kept = np.repeat(explanation.actions[:, None], len(pairs), axis=1)
        for place, (_, t, part) in enumerate(pairs):
            kept[t, place, part] = explanation.observed[t, part]
        both = explanation.observed, explanation.actions
        vectors = np.concatenate([np.stack(both, axis=1), kept], axis=1)
        reward = self.layout.reward(explanation.episode)
        earned = vectors[:, :, : len(self.doses)] @ self._worth
        whole = reward if isinstance(reward, EpisodeReward) else EpisodeReward(reward)
        problem = replace(
            explanation.problem, actions=vectors, reward=replace(whole, actions=earned)
        )
        sequences = np.repeat(explanation.indices[None], len(pairs), axis=0)
        sequences[np.arange(len(pairs)), [t for _, t, _ in pairs]] = 2 + np.arange(len(pairs))
        without = prepare_sequence(problem).outcomes_by_member(sequences).mean(axis=1)
        off = claim.width / 2 / len(found)
        for (number, _, part), value in zip(pairs, without, strict=True):
            if not explanation.outcomes.mean() - value > off:
                found[number].append(self.components[part])
        return found

    def beyond(self, explanation: Any) -> list[str]:
        """What a plan by hand does that none that is advised may: which limits it does not keep."""
        from counterplan.core.doses import ROUNDING

        given = explanation.actions
        changed, found = explanation.indices.astype(np.bool_), list[str]()
        for dose, course, before in zip(self.doses, given.T, explanation.observed.T, strict=False):
            unit = f" {dose.unit_beside}".rstrip()
            moved = np.abs(np.diff(course))[changed[1:] | changed[:-1]].max(initial=0.0)
            if dose.step is not None and moved > dose.step * (1.0 + ROUNDING):
                by = f"{dose.name} moves by {moved:.4g}{unit} from row to row"
                found.append(f"{by}: at most {dose.step:g} is allowed")
            most = -np.inf if dose.total is None else max(dose.total, float(before.sum()))
            if dose.total is not None and course.sum() > most * (1.0 + ROUNDING):
                total = f"{dose.name} adds up to {course.sum():.4g}{unit}"
                found.append(f"{total}: at most {most:.4g} is allowed")
        return found

    def step_values(self, episode: Episode, states: Any, actions: Any) -> Sequence[Any]:
        return [*states.T, *([*values, None] for values in actions.T)]

    def action_name(self, action: Any) -> str:
        parts = zip(self.doses, action, strict=False)
        return ", ".join(
            f"{dose.name} {dose.amount(x)} {dose.unit_beside}".rstrip() for dose, x in parts
        )

    def change_text(self, observed: Any, alternative: Any) -> str:
        both = [*zip(self.doses, observed, alternative, strict=False)]
        # What looks the same is left out, unless nothing else changes.
        told = [one for one in both if one[0].amount(one[1]) != one[0].amount(one[2])]
        return ", ".join(
            f"{dose.name} {dose.amount(old)} -> {dose.amount(new)} {dose.unit_beside}".rstrip()
            for dose, old, new in told or both
        )

    def changed_parts(self, observed: Any, alternative: Any) -> list[PartChange]:
        both = zip(self.components, observed, alternative, strict=False)
        return [PartChange(name, float(old), float(new)) for name, old, new in both if old != new]


def _ranges(rules: Sequence[Any], doses: Sequence[Column]) -> list[tuple[str, float, float]]:
    """What a rule allows: "propofol=10..50 & remifentanil=..4"."""
    if len(rules) > 1:
        raise InputError(f"allow {rules[1]!r}: of doses there is one range each; join them by &")
    found, known = [], {dose.name: dose for dose in doses}
    for part in str(rules[0]).split("&") if rules else ():
        match = RANGE.fullmatch(part)
        if match is None or match[1] not in known:
            raise InputError(
                f"allow {rules[0]!r}: write the range of a dose, such as {doses[0].name}=10..50; "
                f"there are {', '.join(known)}"
            )
        both = zip(match.groups()[1:], known[match[1]].bounds, strict=True)
        low, high = (float(text) if text else bound for text, bound in both)
        found.append((match[1], low, high))
    return found
