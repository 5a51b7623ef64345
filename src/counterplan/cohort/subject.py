"""What episodes are about: the model that explains them, and the problem that each poses.

discrete     a tabular model; a policy answers
stays        a neural model of one of the built-in tables of intensive care
schema       either kind of model, on a table that a schema describes
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from counterplan.cohort.support import SeenData
from counterplan.cohort.words import DoseWords, LabelWords, SchemaWords, Words
from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.errors import InputError
from counterplan.scm.gumbel_max import GumbelMaxSCM
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP

if TYPE_CHECKING:
    from counterplan.cohort.question import Question
    from counterplan.core.result import Explanation
    from counterplan.io.schema_layout import SchemaLayout
    from counterplan.io.stay_tables import Layout


class Subject(ABC):
    """A model with what is needed to ask it about an episode."""

    is_discrete: ClassVar[bool]
    words: Words

    @property
    @abstractmethod
    def model(self) -> TabularMDP | NeuralSCM:
        """The model itself."""

    @abstractmethod
    def problem(self, episode: Episode) -> Mapping[str, Any]:
        """What `explain` takes for this episode: `scm`, and for vectors `actions` and `reward`."""

    def constraints(self, episode: Episode) -> Constraints:
        """What can never change in this episode."""
        return Constraints()

    def explain(self, episode: Episode, question: Question) -> Sequence[Explanation]:
        """The answers for all budgets."""
        from counterplan.counterfactual.explain import explain, frontier

        options: dict[str, Any] = {
            **self.problem(episode),
            "episode": episode,
            "constraints": question.constraints(self.constraints(episode)),
            "solver": question.solver_for(episode.id or ""),
            "limits": question.limits(),
        }
        if len(question.budgets) == 1:
            return [explain(k=question.budgets[0], **options)]
        # No more can change than there are steps: larger budgets have the same answer.
        longest = min(question.budgets[-1], len(episode))
        found = frontier(k_max=longest, **options)
        return [replace(found[min(k, longest)], k=k) for k in question.budgets]


class DiscreteSubject(Subject):
    """Episodes of a tabular model."""

    is_discrete = True

    def __init__(self, mdp: TabularMDP, layout: SchemaLayout | None = None) -> None:
        self.mdp, self.layout = mdp, layout
        self.words = LabelWords(mdp) if layout is None else SchemaWords(layout)
        self._scm = GumbelMaxSCM(mdp)

    @property
    def model(self) -> TabularMDP:
        return self.mdp

    def problem(self, episode: Episode) -> Mapping[str, Any]:
        return {"scm": self._scm}

    def constraints(self, episode: Episode) -> Constraints:
        return Constraints() if self.layout is None else self.layout.constraints(episode)

    @property
    def no_action(self) -> int | None:
        """The number that stands for no action in a last row, None where there is none."""
        return None if self.layout is None else self.layout.no_action


class ContinuousSubject(Subject):
    """Episodes of a neural model."""

    is_discrete = False

    def __init__(self, scm: NeuralSCM, layout: Layout, words: Words) -> None:
        self.scm, self.layout, self.words = scm, layout, words
        self.reward = layout.reward()
        self.seen = SeenData.of(scm)

    @property
    def model(self) -> NeuralSCM:
        return self.scm

    def problem(self, episode: Episode) -> Mapping[str, Any]:
        actions = self.layout.action_set(episode)
        return {"scm": self.scm, "actions": actions, "reward": self.reward}


# The built-in tables, as descriptions of tasks name them.
COHORT, ICU = "cohort", "icu"
DISCRETE, SCHEMA = "discrete", "schema"


def open_subject(model: TabularMDP | NeuralSCM, about: Mapping[str, Any]) -> Subject:
    """The subject that plain values stand for: "kind", and for that of a schema "schema"."""
    from counterplan.io.schema import schema_from_dict
    from counterplan.io.schema_layout import SchemaLayout, layout_of_model
    from counterplan.io.stay_tables import CohortLayout, IcuLayout

    kind = about["kind"]
    if kind == SCHEMA:
        own = layout_of_model(model)
        learned = None if own is None else own.learned
        layout = SchemaLayout(schema_from_dict(about["schema"]), learned)
        if isinstance(model, TabularMDP):
            return DiscreteSubject(model, layout)
        return ContinuousSubject(model, layout, SchemaWords(layout))
    if kind == DISCRETE and isinstance(model, TabularMDP):
        return DiscreteSubject(model)
    stays: dict[str, Layout] = {COHORT: CohortLayout(), ICU: IcuLayout()}
    if kind in stays and isinstance(model, NeuralSCM):
        return ContinuousSubject(model, stays[kind], DoseWords())
    raise InputError(f"a {type(model).__name__} has no answers about {kind!r}")
