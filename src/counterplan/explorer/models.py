"""The JSON of the API: what may be asked, checked at the door, and how answers are written.

Answers are plain dictionaries, described where they are given (`app.Service`). JSON has no infinite
numbers: they are the texts "inf" and "-inf", and what is not known is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic import StringConstraints as Letters

from counterplan.tables.parts import LONGEST_ID

# No table has longer episodes, more actions or larger budgets than this.
LARGEST = 10**6
MOST_EDITS, MOST_RULES, MOST_LINES, MOST_DOSES = 1_000, 10_000, 200, 1_000


def to_json(value: Any) -> bytes:
    """An answer as JSON; arrays are lists."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False).encode(errors="replace")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _encodable(text: str) -> str:
    text.encode()  # half a surrogate pair is no text: a UnicodeEncodeError is a ValueError
    return text


Text = Annotated[str, Letters(max_length=LONGEST_ID), AfterValidator(_encodable)]
Name = Annotated[str, Letters(min_length=1, max_length=LONGEST_ID), AfterValidator(_encodable)]
Place = Annotated[int, Field(ge=0, le=LARGEST)]
# What a client may call a job; the server's own names are shorter.
JobName = Annotated[str, Letters(pattern="^[0-9a-f]{24}$")]
Amount = Annotated[float, Field(allow_inf_nan=False)]
Status = Literal["optimal", "limit", "heuristic", "failed"]
Player = Literal["executed", "policy", "open_loop", "planned", "hindsight"]


class Error(BaseModel):
    """What went wrong, in one line."""

    error: str


class Asked(BaseModel):
    """Requests name what they know, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ListQuery(Asked):
    """Which lines of a list, in which order.

    status  none given means any
    search  part of the id
    """

    sort: str
    descending: bool = True
    offset: Annotated[int, Field(ge=0, le=10**9)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 25
    status: Annotated[tuple[Status, ...], Field(max_length=10)] = ()
    search: Text = ""


class CaseQuery(ListQuery):
    """Which cases.

    k                None for the largest of the run
    min_improvement  vouched for: the lower end of the interval, where there is one
    support          "yes", "no" or "" for both, and likewise
    established      whether all of the interval is an improvement
    outcome          "name=value" of what the table says
    changed          with these words in a change
    """

    sort: Literal[
        "low", "improvement", "relative", "gap", "factual", "value", "changes", "steps", "id"
    ] = "low"
    k: Place | None = None
    min_improvement: Amount | None = None
    max_changes: Place | None = None
    support: Literal["yes", "no", ""] = ""
    established: Literal["yes", "no", ""] = ""
    outcome: Annotated[tuple[Text, ...], Field(max_length=20)] = ()
    changed: Text = ""


class ScenarioQuery(ListQuery):
    """Which scenarios: those that lost at least so much in expectation."""

    sort: Literal[
        "expected_regret", "executed", "regret_policy", "regret_hindsight", "hindsight", "id"
    ] = "expected_regret"
    min_expected_regret: Amount | None = None


class Edit(Asked):
    """Another action at a step: its number, or its doses."""

    t: Place
    action: Place | Annotated[list[Amount], Field(min_length=1, max_length=MOST_DOSES)]


class WhatIfQuestion(Asked):
    """What if these actions had been taken?"""

    id: Name
    edits: Annotated[list[Edit], Field(max_length=MOST_EDITS)]


class SolveQuestion(Asked):
    """Find the best alternative with at most k changes, under rules.

    forbidden  actions that nothing may be changed to; one that was taken may stay
    fixed      steps whose action stays as it was
    ranges     of doses: the least and the most of each that may be advised
    anywhere   whether it may leave the data, though the run has not
    doubt      the weight of the worst causal model, of a discrete model; if not as the run had it
    risk       the share of a model's members that counts, the worst; likewise
    seconds    when to stop; the server's own limit holds as well
    job        a name for the job, by which it can be ended before there is any answer
    """

    kind: Literal["solve"]
    id: Name
    k: Place
    doubt: Annotated[float, Field(ge=0, le=1)] | None = None
    risk: Annotated[float, Field(gt=0, le=1)] | None = None
    forbidden: Annotated[list[Place], Field(max_length=MOST_RULES)] = []
    fixed: Annotated[list[Place], Field(max_length=MOST_RULES)] = []
    ranges: Annotated[list[tuple[Amount, Amount]], Field(max_length=MOST_DOSES)] = []
    anywhere: bool = False
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    job: JobName | None = None


class RestsQuestion(SolveQuestion):
    """What does the improvement of an answer rest on?

    edits  its changes; of a discrete model it is found anew
    """

    kind: Literal["rests"]  # type: ignore[assignment]
    edits: Annotated[list[Edit], Field(max_length=MOST_EDITS)] = []


class AdviseQuestion(Asked):
    """What would a planner do at step t of a scenario, where `player` has come to by then?"""

    kind: Literal["advise"]
    id: Name
    t: Place
    player: Player = "executed"
    planner: Literal["uct", "ments", "bts", "dents"] = "uct"
    simulations: Annotated[int, Field(ge=1, le=20_000)] = 1_000
    job: JobName | None = None
