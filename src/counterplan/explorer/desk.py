"""A run of explanations, opened: its model, its question, and its episodes one by one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from counterplan.cohort.cases import Terms, description_of, terms_of
from counterplan.cohort.explain_task import stored_subject
from counterplan.cohort.question import Question, question_from_dict
from counterplan.cohort.subject import ContinuousSubject, DiscreteSubject, Subject
from counterplan.explorer.folder import Folder
from counterplan.explorer.kept import Memo, Recent
from counterplan.explorer.ranking import Rankings
from counterplan.io.episode_parts import ID, Recorded, episodes_from_bytes
from counterplan.viz.data.label_sources import labels_of
from counterplan.viz.data.labels import Labels

# Episodes that are kept ready.
EPISODES = 64


class Desk:
    """All that is needed to answer a question about an episode of the run."""

    def __init__(self, out: Path) -> None:
        self.folder = Folder(out, ID)
        self.rankings = Rankings(self.folder)
        self.description: Mapping[str, Any] = description_of(self.folder.run)
        self.memo = Memo()
        self._recorded: Recent[Recorded] = Recent(EPISODES)

    @property
    def question(self) -> Question:
        """What was asked about every episode."""
        return question_from_dict(self.description["question"])

    @property
    def outcomes(self) -> list[str]:
        """Names of what the table tells of an episode besides."""
        return list(self.description["outcomes"])

    @cached_property
    def subject(self) -> Subject:
        """The model and what the episodes are about."""
        return stored_subject(self.description, self.folder.run.file)

    @cached_property
    def labels(self) -> Labels:
        """What states and actions are called."""
        subject = self.subject
        if isinstance(subject, DiscreteSubject):
            return labels_of(subject.mdp if subject.layout is None else subject.layout)
        assert isinstance(subject, ContinuousSubject)
        return labels_of(subject.layout)

    @cached_property
    def terms(self) -> Terms:
        """What an episode is called, and the unit of its times."""
        return terms_of(self.folder.run)

    def recorded(self, name: str) -> Recorded:
        """An episode by its id."""
        return self._recorded.get(name, lambda: self._read(name))

    def _read(self, name: str) -> Recorded:
        (found,) = episodes_from_bytes(self.folder.input_of(name))
        return found
