"""Actions, changes and times of an episode in words, and changes of vectors part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from counterplan.domains.sepsis_table import LEVELS
from counterplan.io.dose_changes import DRUGS

if TYPE_CHECKING:
    from counterplan.io.schema_layout import SchemaLayout
    from counterplan.scm.tabular import TabularMDP


class PartChange(NamedTuple):
    """A component of an action that is `alternative` instead of `observed`."""

    name: str
    observed: float
    alternative: float


class Words(ABC):
    """How an episode is talked about.

    unit        of times, empty where steps are counted
    components  what an action consists of; none where it is one thing
    """

    unit: str = ""
    components: tuple[str, ...] = ()

    @property
    @abstractmethod
    def count(self) -> int:
        """How many actions there are, numbered from 0 up."""

    @abstractmethod
    def action(self, action: int) -> str:
        """An action."""

    @abstractmethod
    def change(self, observed: int, alternative: int) -> str:
        """What is changed about an action."""

    def parts(self, observed: int, alternative: int) -> list[PartChange]:
        """The components that change; none where an action has none."""
        return []

    def when(self, time: float) -> str:
        """When a step begins."""
        return f"at {time:g} {self.unit}" if self.unit else f"step {time:g}"


@dataclass(frozen=True)
class LabelWords(Words):
    """Actions that a model has names for: "step 3: rest -> walk"."""

    mdp: TabularMDP

    @property
    def count(self) -> int:
        return self.mdp.n_actions

    def action(self, action: int) -> str:
        return self.mdp.action_name(action)

    def change(self, observed: int, alternative: int) -> str:
        return f"{self.action(observed)} -> {self.action(alternative)}"


class DoseWords(Words):
    """Levels of two drugs, numbered 5 * vasopressor + fluids: "at 8 h: vasopressor 0 -> 2"."""

    unit = "h"
    components = DRUGS
    count = LEVELS**2

    def action(self, action: int) -> str:
        levels = divmod(action, LEVELS)
        return ", ".join(f"{drug} {level}" for drug, level in zip(DRUGS, levels, strict=True))

    def change(self, observed: int, alternative: int) -> str:
        moved = self.parts(observed, alternative)
        return ", ".join(f"{part.name} {part.observed} -> {part.alternative}" for part in moved)

    def parts(self, observed: int, alternative: int) -> list[PartChange]:
        levels = zip(DRUGS, divmod(observed, LEVELS), divmod(alternative, LEVELS), strict=True)
        return [PartChange(drug, old, new) for drug, old, new in levels if old != new]


class SchemaWords(Words):
    """Actions as a schema calls them."""

    def __init__(self, layout: SchemaLayout) -> None:
        self._layout = layout
        self.unit = layout.schema.unit
        self.components = tuple(column.name for column in layout.choices.columns)

    @property
    def count(self) -> int:
        return len(self._layout.choices)

    def action(self, action: int) -> str:
        return self._layout.action_name(action)

    def change(self, observed: int, alternative: int) -> str:
        return self._layout.change_in_words(observed, alternative)

    def parts(self, observed: int, alternative: int) -> list[PartChange]:
        layout = self._layout
        if layout.no_action in (observed, alternative):
            return []
        columns, vectors = layout.choices.columns, layout.choices.vectors
        both = zip(columns, vectors[observed], vectors[alternative], strict=True)
        moved = [(column.name, float(old), float(new)) for column, old, new in both if old != new]
        return [PartChange(*part) for part in moved]
