"""The JSON of the API: what may be asked, checked at the door, and what is answered.

Answers are made as plain dictionaries and written as they are; tests hold every one against its
model here, from which the OpenAPI document is made. JSON has no infinite numbers: they are the
texts "inf" and "-inf", and what is not known is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from inspect import getdoc
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


# A number that may be infinite, or not known.
Number = float | Literal["inf", "-inf"] | None


def _meanings(schema: dict[str, Any], kind: Any) -> None:
    """The meanings of keys stand in the docstring of their model."""
    from counterplan.domains.problems import described_parameters

    text = getdoc(kind) or ""
    schema["description"] = text.partition("\n\n")[0].replace("\n", " ")
    for name, meaning in described_parameters(text).items():
        schema["properties"][name]["description"] = meaning


class Told(BaseModel):
    """What is said has these keys, all of them, and no others."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_meanings)


class Asked(BaseModel):
    """Requests name what they know, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_meanings)


class Error(Told):
    """What went wrong, in one line."""

    error: str


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
    """Which scenarios: those that lost at least so much, in expectation, or where that is not known
    against the best policy known."""

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


# --- What is answered -------------------------------------------------------------------------


class Part(Told):
    """A part of states (a feature) or of actions (a dose).

    title     its name with the unit
    unit      for where its name stands too
    fixed     whether it never changes
    ordered   whether more of it means anything
    better    what is: "higher" or "lower"
    bounds    of a dose that may be any number: the least and the most
    decimals  with how many it is written
    values    the numbers it may hold, where they are few
    labels    and their names
    """

    name: str
    title: str
    unit: str
    fixed: bool
    ordered: bool
    better: str | None
    bounds: tuple[float, float] | None
    decimals: int | None
    values: list[float] | None
    labels: list[str] | None


class Allowed(Told):
    """What the server allows.

    seconds  that a search may take
    jobs     that a client may have waiting or at work
    """

    seconds: float
    jobs: int


class About(Told):
    """What the run is about; what is of the other kind of run is empty.

    kind      "explain": episodes and what should have been done; "regret": plans and what they lost
    noun      what an item is called
    unit      of times
    complete  whether all parts are done
    budgets   the k that were asked about
    quantity  what values are: a unit, or a name
    values_in  what values are counted in, where that is known
    as_done   what the value of what was done is called
    rule      which alternatives are advised, in words
    features  what states are made of
    doses     the parts of actions
    actions   for each action its doses; none where doses are not listed: then an action is the list
              of its doses
    names     of the actions
    notes     sentences about all answers: which actions they advise, and the rules of the run
    barred    actions that no answer changes to, by these rules or since they hardly occur
    dial      what a search can be more or less careful about
    usual     where the run had it
    statuses  of searches: how each is called, and what it means
    sense     "min": values are costs
    planner   which planner decided along, if one did
    players   whose decisions are shown
    """

    kind: Literal["explain", "regret"]
    title: str
    noun: str
    unit: str = ""
    discrete: bool = False
    complete: bool
    parts: int
    done: int
    budgets: list[int] = []
    outcomes: list[str] = []
    quantity: str
    values_in: str = ""
    as_done: str = "Observed"
    solver: str
    rule: str = ""
    features: list[Part] = []
    doses: list[Part] = []
    actions: list[list[Number]] = []
    names: list[str] = []
    notes: list[str] = []
    barred: list[int] = []
    dial: Literal["doubt", "risk", ""] = ""
    usual: float | None = None
    statuses: dict[str, tuple[str, str]] = {}
    sense: Literal["min", "max"]
    planner: str | None = None
    players: list[Player] = []
    limits: Allowed
    version: str


class Bar(Told):
    """How many items have a number in a range."""

    low: float
    high: float
    count: int


class Overview(Told):
    """All items together, for one k.

    of           scenarios: whether losses are in expectation, or against what and with luck
    statuses     how many have each
    supported    how many answers have data under all of them, null where that is not known
    established  how many improvements are, null where no interval is known
    mean         of the improvement that is vouched for, or of the loss; likewise
    median       and
    largest      which is finite
    bars         how that is spread
    outcomes     what the table says of items besides: name -> values, none where they are many
    """

    k: int | None
    of: str
    total: int
    statuses: dict[str, int]
    supported: int | None
    established: int | None
    mean: Number
    median: Number
    largest: Number
    bars: list[Bar]
    outcomes: dict[str, list[str]]


class Claimed(Told):
    """What an answer claims, how sure that is, and how it was found.

    factual     the outcome that was
    value       what was optimised
    relative    the improvement as a share of the outcome that was
    low         where the interval of the improvement begins
    high        and ends
    harm        how likely it is worse than what was done
    guaranteed  the least value over causal models, and over what the data leaves open
    claim       how sure it is; "" where there is no answer
    gap         how much better an alternative may be
    reason      why there is no answer
    """

    factual: Number
    value: Number
    improvement: Number
    relative: Number
    low: Number
    high: Number
    harm: Number
    guaranteed: Number
    claim: Literal["established", "not established", "no change", ""]
    gap: Number
    status: Status
    reason: str | None


class CaseLine(Claimed):
    """A line of the list.

    changes      in words
    new_actions  how many are to actions that were hardly ever taken there
    far          whether it is far from the data
    supported    whether there is data under all of it
    outcomes     what the table says of the episode besides
    """

    id: str
    steps: int
    changes: list[str]
    new_actions: int | None
    far: bool | None
    supported: bool | None
    outcomes: dict[str, str | None]


class CaseList(Told):
    """Cases that meet all conditions, a page of them.

    total  how many there are on all pages
    """

    total: int
    offset: int
    k: int
    lines: list[CaseLine]


class Course(Told):
    """What happened, or would have, step by step.

    states   for each step its features
    band     between which nine in ten models lie: the lower ends, the upper ends
    actions  numbers of the actions, or their doses; null where nothing is decided
    changed  how likely each action is changed
    """

    states: list[list[Number]]
    band: tuple[list[list[Number]], list[list[Number]]] | None
    actions: list[int | list[Number] | None]
    rewards: list[Number]
    changed: list[Number]


class Change(Told):
    """A change of an action.

    observed     the number of the action, null where it is doses
    alternative  what should have been done: its number, or its doses
    text         all of it in words
    probability  how likely the policy makes this change
    taken        how often the new action was taken there in the data
    """

    t: int
    observed: int | None
    alternative: int | list[Number] | None
    text: str
    probability: Number
    taken: int | None


class Support(Told):
    """How far the data carries.

    far            whether some state is far from it
    distance_max   how far, in units of what is typical
    distance_mean  and on average
    unseen         the chance of taking an action in a state where nobody took it
    new_actions    changes to actions that were hardly ever taken there
    """

    supported: bool | None
    far: bool | None
    distance_max: Number
    distance_mean: Number
    unseen: Number
    new_actions: int | None


class Solution(Claimed):
    """An answer with its changes and its course.

    bound    no alternative can be better, by what was optimised
    holds    what holds regardless of what is not known, in a sentence
    risk     the share of members that counted
    doubt    the weight of the worst causal model
    advice   what to make of the status
    method   how it was found
    nodes    what the solver counted
    course   what it leads to
    notes    what else there is to say
    """

    k: int
    bound: Number
    holds: str
    risk: float | None
    doubt: float | None
    advice: str
    method: str | None
    nodes: int | None
    changes: list[Change]
    support: Support
    course: Course | None
    notes: list[str]


class Budgeted(Told):
    """What the run found for one k."""

    k: int
    value: Number
    bound: Number
    status: Status


class Legend(Told):
    """What numbers of courses stand for.

    names  for each feature: names of the values that occur
    order  for each feature: values that occur, from bad to good, where numbers do not say so
    """

    names: list[dict[str, str]]
    order: list[list[float]]


class Case(Legend):
    """An episode and the run's answer for k, null where it has none.

    times     when steps begin, in the table's unit
    dates     the same as dates, none where times are no dates
    filled    how many missing values were filled in
    outside   columns in which it lies far outside what the model has learned from
    fixed     steps at which nothing can change
    observed  what happened; nothing where the model knows nothing of such states
    budgets   all k of the run
    """

    id: str
    steps: int
    times: list[Number]
    dates: list[str]
    outcomes: dict[str, str | None]
    filled: int
    outside: str | None
    fixed: list[int]
    observed: Course
    budgets: list[Budgeted]
    answer: Solution | None


class Solved(Legend):
    """An answer that was just found."""

    answer: Solution


class WhatIf(Solved):
    """What other actions would have led to.

    milliseconds  how long that took on the server
    """

    milliseconds: float


class ScenarioLine(Told):
    """A line of the list.

    executed           what the decisions brought
    hindsight          what foresight would have brought
    without_foresight  what the best policy known would have
    planned            what the planner would have
    regret_hindsight   how much better hindsight is than what was done
    regret_policy      and how much better the policy
    expected_regret    what the decisions lost in expectation, when they were made
    costliest          the decision that lost most so, in words
    reason             why it could not be judged
    """

    id: str
    executed: Number
    hindsight: Number
    without_foresight: Number
    planned: Number
    regret_hindsight: Number
    regret_policy: Number
    expected_regret: Number
    costliest: str | None
    status: Status
    reason: str | None


class ScenarioList(Told):
    """Scenarios that meet all conditions, a page of them.

    total  how many there are on all pages
    """

    total: int
    offset: int
    lines: list[ScenarioLine]


class Seen(Told):
    """A number that was revealed, step by step.

    labels  where numbers stand for names
    """

    name: str
    values: list[Number]
    labels: list[str] | None


class Track(Told):
    """What a player did.

    value    what it came to
    words    the actions in words
    rewards  what each brought
    levels   the resource before each action and at the end
    """

    player: Player
    title: str
    value: Number
    actions: list[list[Number]]
    words: list[str]
    rewards: list[Number]
    levels: list[list[Number]]


class Scenario(Told):
    """A scenario and what everyone did along its path.

    policy           whose the policy without foresight is
    step             what a step is called
    tanks            what the numbers of the resource are called
    parts            and those of an action
    choices          what 0 and 1 of an action mean, where each is done or not
    states           where the executed decisions (or the policy's) were made, in words
    advised          what the policy would have done there
    expected_losses  what each executed decision lost in expectation
    """

    id: str
    sense: Literal["min", "max"]
    horizon: int
    line: ScenarioLine
    policy: str | None
    planner: str | None
    seen: list[Seen]
    step: str
    tanks: list[str]
    parts: list[str]
    choices: list[str]
    tracks: list[Track]
    states: list[str]
    advised: list[str] | None
    expected_losses: list[Number] | None


class Curve(Told):
    """What is left of an improvement, by how much an assumption is broken.

    low      where nine in ten draws begin
    high     and end
    tipping  where nothing is left
    """

    at: list[Number]
    mean: list[Number]
    low: list[Number]
    high: list[Number]
    tipping: Number


class Rests(Told):
    """What an improvement rests on.

    rho       by how much of luck is kept
    gamma     by the strength of a hidden cause
    ranges    discrete: of the value over all, over stable and over monotone causal models
    by_doubt  discrete: rows of a doubt, what is expected of the plan that it advises, and what is
              guaranteed
    """

    words: str
    rho: Curve | None
    gamma: Curve | None
    ranges: list[tuple[Number, Number]]
    by_doubt: list[tuple[Number, Number, Number]]


class Choice(Told):
    """An action that a planner tried, and what it seems to be worth."""

    words: str
    value: Number
    se: Number
    simulations: int


class Advice(Told):
    """What a planner would do.

    words      in words
    state      where
    value      what it seems to be worth, se: its standard error
    lower      what the optimum lies between, with standard errors
    exact      the optimum, where it is known
    bounds_of  "the mean", where the planner counts something else
    """

    t: int
    words: str
    state: str
    action: list[Number]
    value: Number
    se: Number
    lower: Number
    lower_se: Number
    upper: Number
    upper_se: Number
    exact: Number
    choices: list[Choice]
    planner: str
    bounds_of: str | None
    simulations: int


class Progress(Told):
    """How far a search is."""

    nodes: int
    value: Number
    bound: Number


class Job(Told):
    """A question that takes longer. One that was answered before is done at once.

    ahead    how many are served before it
    seconds  how long it has been at work
    limit    how long it may be
    error    why it failed
    solved   the answer to "solve"
    rests    that to "rests"
    advice   that to "advise"
    """

    job: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    ahead: int | None
    seconds: float
    limit: float
    progress: Progress | None
    error: str | None
    solved: Solved | None
    rests: Rests | None
    advice: Advice | None
