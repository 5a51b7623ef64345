"""The shapes of the JSON API: what may be asked, and what is answered.

Answers are made from rows of a run's tables or from plain dicts: a field whose column has another
name says so (`validation_alias`), and everything else in a row is left out. JSON has no infinite
numbers: they are the texts "inf" and "-inf", and what is not known is null.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import StringConstraints as Letters

from counterplan.tables.parts import LONGEST_ID

# No table has longer episodes, more actions or larger budgets than this.
LARGEST = 10**6
MOST_EDITS, MOST_RULES, MOST_LINES = 1_000, 10_000, 200


def _encodable(text: str) -> str:
    text.encode()  # half a surrogate pair is no text: a UnicodeEncodeError is a ValueError
    return text


def _safe(value: Any) -> Any:
    if value is None:
        return None
    number = float(value)
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else "inf" if number > 0 else "-inf"


def _listed(values: Any) -> list[Any]:
    found: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    return found


Text = Annotated[str, Letters(max_length=LONGEST_ID), AfterValidator(_encodable)]
Name = Annotated[str, Letters(min_length=1, max_length=LONGEST_ID), AfterValidator(_encodable)]
Place = Annotated[int, Field(ge=0, le=LARGEST)]
Amount = Annotated[float, Field(allow_inf_nan=False)]
Number = Annotated[float | Literal["inf", "-inf"] | None, BeforeValidator(_safe)]
Numbers = Annotated[list[Number], BeforeValidator(_listed)]
Table = Annotated[list[list[Number]], BeforeValidator(_listed)]
Relative = Annotated[Number, Field(validation_alias="relative_improvement")]
Far = Annotated[bool | None, Field(validation_alias="far_from_data")]
Status = Literal["optimal", "limit", "heuristic", "failed"]
JobState = Literal["queued", "running", "done", "failed", "cancelled"]
Player = Literal["executed", "policy", "open_loop", "planned", "hindsight"]


class Asked(BaseModel):
    """Requests name what they know, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Shape(BaseModel):
    """An answer: made from rows by the names of columns, or from JSON by the names of fields."""

    model_config = ConfigDict(populate_by_name=True)


class Error(BaseModel):
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
    """Which scenarios: those that lost at least so much in expectation."""

    sort: Literal[
        "expected_regret", "executed", "regret_policy", "regret_hindsight", "hindsight", "id"
    ] = "expected_regret"
    min_expected_regret: Amount | None = None


class ListPage(Shape):
    """Some lines of a list of `total`."""

    total: int
    offset: int


class Budget(Shape):
    """What the run has for one k."""

    k: int
    value: Number
    bound: Number
    status: str


class Support(Shape):
    """How far the data carries."""

    supported: bool | None
    far: Far
    distance_max: Number
    distance_mean: Number
    unseen: Number = Field(validation_alias="unseen_probability")
    new_actions: int | None


class Claim(Shape):
    """What is claimed, how sure that is, and how it was found.

    value       what was optimised
    low, high   of the interval of the improvement
    harm        how likely it is worse than what was done
    guaranteed  the least value over causal models, and over what the data leaves open
    claim       "established", "not established", "no change", or "" where there is no answer
    """

    factual: Number
    value: Number
    improvement: Number
    relative: Relative
    low: Number = None
    high: Number = None
    harm: Number = None
    guaranteed: Number = None
    claim: str
    gap: Number
    status: str
    reason: str | None


class CaseLine(Claim):
    """A line of the list."""

    id: str = Field(validation_alias="episode_id")
    steps: int
    changes: list[str]
    new_actions: int | None
    far: Far
    supported: bool | None
    outcomes: dict[str, str | None]


class CasePage(ListPage):
    """Some lines of the list of cases."""

    k: int
    lines: list[CaseLine]


class Course(Shape):
    """States, actions and rewards, step by step.

    states   for each step the features
    actions  for each step the number of the action, null where nothing is decided
    changed  for each step how likely its action is changed
    band     for each step and feature between what nine in ten models lie, where there are several
    """

    states: Table
    band: tuple[Table, Table] | None = None
    actions: list[int | None]
    rewards: Numbers
    changed: Numbers


class ChangeAbout(Shape):
    """A change with all that is known of it.

    taken  how often the new action was taken there in the data
    """

    t: int
    observed: int
    alternative: int
    text: str
    probability: Number
    taken: int | None


class Answer(Claim):
    """An explanation, or a plan made by hand, with the course it leads to.

    holds        what holds regardless of what is not known, in a sentence
    risk, doubt  of what was optimised, where there are such
    """

    k: int
    bound: Number
    holds: str
    risk: Number = None
    doubt: Number = None
    advice: str
    method: str | None
    nodes: int | None
    changes: list[ChangeAbout]
    support: Support
    course: Course | None
    notes: list[str] = []


class Case(Shape):
    """An episode with what the run has about it.

    dates    when steps begin, none where times are no dates
    fixed    steps at which nothing can change
    budgets  all k of the run
    answer   for the k asked about, null where the run has none
    names    for each feature: names of the values that occur
    order    for each feature: values that occur, from bad to good, where numbers do not say so
    """

    id: str
    steps: int
    times: Numbers
    dates: list[str]
    outcomes: dict[str, str | None]
    filled: int
    outside: str | None
    fixed: list[int]
    observed: Course
    budgets: list[Budget]
    answer: Answer | None
    names: list[dict[str, str]]
    order: list[list[float]]


class Edit(Asked):
    """Another action at a step."""

    t: Place
    action: Place


class WhatIfQuestion(Asked):
    """What if these actions had been taken?"""

    id: Name
    edits: Annotated[list[Edit], Field(max_length=MOST_EDITS)]


class Solved(Shape):
    """An answer with the names and the order of what occurs in it, as in a case."""

    answer: Answer
    names: list[dict[str, str]]
    order: list[list[float]]


class WhatIfAnswer(Solved):
    """What a plan made by hand leads to, and what that took on the server."""

    milliseconds: float


class SolveQuestion(Asked):
    """Find the best alternative with at most k changes, under rules.

    forbidden  actions that nothing may be changed to; one that was taken may stay
    fixed      steps whose action stays as it was
    anywhere   whether it may leave the data, though the run has not
    doubt      the weight of the worst causal model, of a discrete model; if not as the run had it
    risk       the share of a model's members that counts, the worst; likewise
    seconds    when to stop; the server's own limit holds as well
    """

    kind: Literal["solve"]
    id: Name
    k: Place
    doubt: Annotated[float, Field(ge=0, le=1)] | None = None
    risk: Annotated[float, Field(gt=0, le=1)] | None = None
    forbidden: Annotated[list[Place], Field(max_length=MOST_RULES)] = []
    fixed: Annotated[list[Place], Field(max_length=MOST_RULES)] = []
    anywhere: bool = False
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None


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


class Curve(Shape):
    """The improvement by something that no data tells: its mean over models and between what nine
    in ten of them lie; and where nothing is left of it, null if nowhere."""

    at: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers
    tipping: Number


class Rests(Shape):
    """What an improvement rests on.

    words     in one sentence
    rho       by how much of luck is kept, of a continuous model, and
    gamma     by the strength of a hidden cause
    ranges    of the value over all, over stable and over monotone causal models, of a discrete one
    by_doubt  rows of a doubt, what is expected of the plan that it advises, and what is guaranteed
    """

    words: str
    rho: Curve | None = None
    gamma: Curve | None = None
    ranges: Table = []
    by_doubt: Table = []


class Progress(Shape):
    """How far a search has come: its best value, and what nothing can exceed."""

    nodes: int
    value: Number
    bound: Number


class Choice(Shape):
    """An action that could be taken now."""

    words: str
    value: Number
    se: Number
    simulations: int


class Advice(Shape):
    """What a planner would do, what the optimum lies between, and the optimum where it is known."""

    t: int
    words: str
    state: str
    action: Numbers
    value: Number
    se: Number
    lower: Number
    lower_se: Number
    upper: Number
    upper_se: Number
    exact: Number
    choices: list[Choice]
    planner: str
    simulations: int


class JobAbout(Shape):
    """A job and how far it is.

    ahead    how many are served before it
    seconds  how long it has been at work
    limit    how long it may be
    """

    job: str
    state: JobState
    ahead: int
    seconds: float
    limit: float
    progress: Progress | None
    error: str | None
    solved: Solved | None = None
    rests: Rests | None = None
    advice: Advice | None = None


class ScenarioLine(Shape):
    """A line of the list of scenarios."""

    id: str = Field(validation_alias="scenario_id")
    executed: Number
    hindsight: Number
    without_foresight: Number
    planned: Number
    regret_hindsight: Number
    regret_policy: Number
    expected_regret: Number
    costliest: str | None
    status: str
    reason: str | None


class ScenarioPage(ListPage):
    """Some lines of the list of scenarios."""

    lines: list[ScenarioLine]


class Track(Shape):
    """What one player did: actions, what each brought, and the resource before each and at the end.

    words  the actions in words
    """

    player: str
    title: str
    value: Number
    actions: Table
    words: list[str]
    rewards: Numbers
    levels: Table


class Series(Shape):
    """What was revealed, step by step; `labels` where numbers stand for names."""

    name: str
    values: Numbers
    labels: list[str] | None


class Scenario(Shape):
    """A realised path with what everyone did along it.

    step             what a step is called
    tanks, parts     what the numbers of the resource and of an action are called
    choices          what 0 and 1 of an action mean, where each is done or not
    states           where the executed decisions (or the policy's) were made, in words
    advised          what the policy would have done there
    expected_losses  what each executed decision lost in expectation
    """

    id: str
    sense: str
    horizon: int
    line: ScenarioLine
    policy: str | None
    planner: str | None
    seen: list[Series]
    step: str
    tanks: list[str]
    parts: list[str]
    choices: list[str]
    tracks: list[Track]
    states: list[str]
    advised: list[str] | None
    expected_losses: Numbers | None


class ColumnAbout(Shape):
    """A feature of states, or a part of actions.

    title    the name with the unit
    ordered  whether more of it means anything
    better   "lower" or "higher" where the column says what is good
    values   the numbers it may hold, where they are few
    labels   their names
    """

    name: str
    title: str
    unit: str
    fixed: bool
    ordered: bool
    better: str | None
    values: list[float] | None
    labels: list[str] | None


class Limits(Shape):
    """What the server allows."""

    seconds: float
    jobs: int


class RunAbout(Shape):
    """What a run is about.

    kind      "explain": episodes and what should have been done; "regret": plans and what they lost
    budgets   the k that were asked about
    as_done   what the value of what was done is called
    features  what states are made of
    doses     the parts of actions
    actions   for each action its doses
    names     for each action its name
    notes     sentences about all answers: which actions they advise, and the rules of the run
    barred    actions that no answer changes to, by these rules or since they hardly occur
    dial      what a search can be more or less careful about: "doubt", "risk" or nothing, and
    usual     where the run had it
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
    as_done: str = "Observed"
    solver: str
    rule: str = ""
    features: list[ColumnAbout] = []
    doses: list[ColumnAbout] = []
    actions: Table = []
    names: list[str] = []
    notes: list[str] = []
    barred: list[int] = []
    dial: Literal["doubt", "risk", ""] = ""
    usual: Number = None
    sense: str
    planner: str | None = None
    players: list[str] = []
    limits: Limits
    version: str


class Bar(Shape):
    """How many items lie from `low` to `high`."""

    low: float
    high: float
    count: int


class Overview(Shape):
    """All items of a run together, for one k.

    bars         how the improvement that is vouched for, or the loss, is spread
    established  how many improvements are, null where no interval is known
    """

    k: int | None
    total: int
    statuses: dict[str, int]
    supported: int | None = None
    established: int | None = None
    mean: Number
    median: Number
    largest: Number
    bars: list[Bar]
    outcomes: dict[str, list[str]]
