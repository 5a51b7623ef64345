"""What `--json` prints, as models: JSON Schema files and docs/json.md are made from these.

`tools/json_schemas.py` writes docs/schemas, a file for each command, and the tables of keys in
docs/json.md; tests/cli/test_json.py checks what every command prints against them. The keys of an
explanation, of a scenario and of a finding are the fields of the classes that hold them elsewhere.
A key that need not be there may also be null.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getdoc
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from counterplan.cli.demo import SHOWN
from counterplan.domains.problems import described_parameters
from counterplan.planning.bounds import ValueBounds
from counterplan.runs.answer import OUTCOME, Answer, column_names
from counterplan.runs.explainer import Prediction as PredictionOfAnswer
from counterplan.runs.regret import ScenarioAnswer
from counterplan.tables.quality import Finding as FindingOfTable


def said(meaning: str) -> Any:
    """A key that is always there."""
    return Field(description=meaning)


def maybe(meaning: str) -> Any:
    """A key that may be missing, or null."""
    return Field(None, description=meaning)


Number = float | Literal["inf", "-inf"]


def _keys_of(kind: type, needed: Sequence[str] | None = None, **others: Any) -> dict[str, Any]:
    """The columns of a class as keys: their types, and their meanings by its docstring. Infinite
    numbers are texts; all keys are needed, unless it is said which."""
    hints = get_type_hints(kind) | others
    meanings = described_parameters(getdoc(kind) or "")
    names = column_names(kind)
    return {
        name: (
            Number | None if hints[name] == float | None else hints[name],
            (said if needed is None or name in needed else maybe)(meanings[name]),
        )
        for name in names
    }


class Change(BaseModel):
    """A change of an action."""

    t: int = said("the step, from 0 up")
    time: float = said("when it begins, in the unit of the table")
    hours: float | None = maybe("the same again, if that is hours")
    date: str | None = maybe("as a date, where the table has dates; time counts from its first row")
    observed: int | dict[str, float] = said(
        "discrete: the number of the action; continuous: the level of each part that changes"
    )
    alternative: int | dict[str, float] = said("what should have been done, likewise")
    observed_label: str | None = maybe("discrete: its name")
    alternative_label: str | None = maybe("discrete: its name")
    probability: float | None = maybe("discrete: how likely the policy makes this change")
    taken: int | None = maybe("how often the data has that action there")
    text: str = said("the same for people")


Prediction: Any = create_model("Prediction", **_keys_of(PredictionOfAnswer))
_needed = ("episode_id", "k", "steps", "status", "changes", "filled")
_others = {"changes": list[Change], "predicted": list[Prediction] | None}
_explanation = _keys_of(Answer, _needed, **_others)
del _explanation["n_changes"]
_outcome: Any = {
    "type": ["string", "null"],
    "description": "what the table says of the episode besides",
}
Explanation: Any = create_model(
    "Explanation",
    __config__=ConfigDict(json_schema_extra={"patternProperties": {f"^{OUTCOME}": _outcome}}),
    **_explanation,
)


class Explain(BaseModel):
    """To the terminal, or into one file."""

    k: int | list[int] = said("the number asked for; a list if several were")
    solver: str = said("as --solver")
    method: str | None = maybe("the methods of all explanations")
    notes: list[str] = said(
        "sentences about all of them: whether they stay inside the data, which actions are "
        "advised, and the rules that were given"
    )
    explanations: list[Explanation] = said("of every episode and k, by improvement")


class ExplainRun(BaseModel):
    """Into the folder of a run (-o OUT)."""

    out: str = said("the folder")
    parts: int = said("how many parts the run has")
    resumed: int = said("how many of them were there before")
    episodes: int = said("how many")
    optimal: int = said("how many answers are proved optimal")
    limit: int = said("how many searches met a limit: no answer is better than its bound")
    heuristic: int = said("how many are of a method without a proof")
    failed: int = said("how many could not be explained")
    notes: list[str] = said("sentences about all explanations")
    top: list[Explanation] = said("the ten surest or most improvable, for the largest k")


class Cases(BaseModel):
    """The review list."""

    run: str = said("the folder")
    k: int = said("the number of changes")
    by: str = said("the order")
    cases: list[Explanation] = said("all that pass the filters, or the first --limit")


Finding: Any = create_model("Finding", **_keys_of(FindingOfTable))


class FitTabular(BaseModel):
    """Discrete states."""

    model: str = said("the file that was written")
    table: str | None = maybe("with a schema: what was read, in words")
    episodes: int = said("how many")
    steps: int = said("how many")
    states: int = said("of the model")
    actions: int = said("of the model")
    pairs: int = said("of state and action")
    observed_pairs: int = said("in how many of them the data has been")
    combinations: int | None = maybe("with a schema: combinations of the action columns")
    advised_combinations: int | None = maybe("how many of them may be advised")
    min_count: int | None = maybe("how often one must occur for that")
    findings: list[Finding] = said("what is said about the table")


class Lipschitz(BaseModel):
    """Of two networks."""

    location: Number | None = said("of the network of the mean")
    scale: Number | None = said("of the network of the spread")


class Tried(BaseModel):
    """What was compared."""

    smooth: float = said("of the smooth model")
    neural: float = said("of the networks")


class FitLearned(BaseModel):
    """Continuous states."""

    model: str = said("the file that was written")
    table: str = said("what was read, in words")
    episodes: int = said("how many")
    dropped: int = said("episodes left out")
    transitions: int = said("how many steps it was learned from")
    features: int = said("columns of the state")
    combinations: int | None = maybe("listed actions: combinations of the action columns")
    advised_combinations: int | None = maybe("how many of them may be advised")
    min_count: int | None = maybe("how often one must occur for that")
    doses: dict[str, list[float]] | None = maybe("doses: between which numbers each is")
    learner: Literal["smooth", "neural"] = said("what was learned")
    chosen: str = said("why, in words")
    tried: Tried | None = maybe("with --learner auto: validation_log_likelihood of both")
    members: int | None = maybe("smooth models: how many draws from the posterior were kept")
    epochs: int | None = maybe("networks: how long they were trained")
    best_epoch: int | None = maybe("networks: which epoch was kept")
    validation_log_likelihood: float = said("nats for each transition, on held-out episodes")
    linear_log_likelihood: float = said(
        "the same of a linear model; fit warns if it is higher by more than 0.1 for each feature "
        "that moves: then do not use the model"
    )
    constant_log_likelihood: float = said("the same of a model in which nothing changes")
    lipschitz: Lipschitz = said("certified constants of the two networks")
    dose_edges: dict[str, list[float]] | None = said(
        "sepsis cohort tables: for each drug where the levels of doses begin"
    )
    findings: list[Finding] = said("what is said about the table")


class Parameter(BaseModel):
    """Of a law."""

    value: float = said("its estimate")
    se: float = said("its standard error")
    low: float = said("of its 90 % interval")
    high: float = said("of its 90 % interval")


class Law(BaseModel):
    """One that was tried."""

    law: str = said("its name")
    score: float = said("log density of a held-out step")
    lead: float = said("over the chosen law")
    lead_se: float = said("its standard error")
    covered: float = said("how often 90 % bands held")


class FitProcess(BaseModel):
    """Prices (--process)."""

    process: str = said("the file that was written")
    law: str = said("the law that was chosen")
    start: dict[str, float] = said("where plans begin: the last row, by column")
    rows: int = said("how many were read")
    remarks: list[str] = said("sentences about what was read")
    parameters: dict[str, Parameter] = said("of the law, per step")
    held_out: int = said("steps that laws were judged by")
    scores: list[Law] = said("all laws that were tried")
    coverage: dict[str, float] = said("how often 90 % bands held, by steps ahead")
    warnings: list[str] = said("what speaks against the law")


class Code(BaseModel):
    """Events of one kind."""

    code: str = said("a code")
    unit: str | None = said("its unit")
    events: int = said("of how many events")
    subjects: int = said("of how many subjects")
    low: float | None = Field(alias="5 %", description="quantile of its values")
    median: float | None = said("of its values")
    high: float | None = Field(alias="95 %", description="quantile of its values")


class EpisodesMade(BaseModel):
    """With --config."""

    table: str = said("the file that was written")
    schema_: str = Field(alias="schema", description="the schema file beside it")
    episodes: int = said("how many")
    rows: int = said("how many")
    notes: list[str] = said("what was left out, and why")


class EpisodesCodes(BaseModel):
    """Without --config."""

    codes: list[Code] = said("the frequent codes")


class Draft(BaseModel):
    """A first draft."""

    schema_: dict[str, Any] = Field(alias="schema", description="with the keys of a schema file")
    comments: dict[str, Any] = said("for each column and key, what was seen")
    episodes: int = said("how many")
    rows: int = said("how many")


class Report(BaseModel):
    """The page that was written."""

    report: str = said("the file")
    bytes: int = said("its size")
    figures: int = said("how many it has")


class Serve(BaseModel):
    """Printed once the server answers; it then runs on."""

    run: str = said("the folder")
    url: str = said("the address to open, with the token if one is needed")
    token: str | None = said("the token, if one is needed")
    process: int = said("the number of the process, to end it")


class PlanState(BaseModel):
    """Where a decision is made."""

    step: int = said("decisions made before")
    of: int = said("how many there are")
    exogenous: list[float] = said("price or mode")
    resource: list[float] = said("what is left")
    words: str = said("the same for people")


class Choice(BaseModel):
    """What could be done."""

    action: list[float] = said("one of them")
    words: str = said("the same for people")
    value: float | None = said("what the search thinks of it")
    se: float | None = said("how sure")
    simulations: int = said("how often tried")


Bounds: Any = create_model("Bounds", **_keys_of(ValueBounds))


class Plan(BaseModel):
    """A single decision."""

    domain: str = said("which problem")
    config: str | None = said("which of the paper's, if one")
    planner: str = said("which")
    clip: bool = said("whether values were kept within bounds")
    risk: str | None = said("what was planned for, null for the mean")
    seed: int = said("of whatever was drawn")
    state: PlanState = said("where the decision is made")
    action: list[float] = said("what to do, as numbers")
    words: str = said("the same for people")
    sense: Literal["min", "max"] = said("min if values are costs, max if they are rewards")
    unit: str = said("what values are counted in, empty where that is not known")
    value: float = said("what the plan is worth, evaluated with fresh rollouts")
    se: float | None = said("its standard error")
    choices: list[Choice] = said("the actions that the search compared")
    bounds: Bounds | None = said(
        "what the optimal value lies between; null where nothing but steps is known of the problem"
    )
    exact: float | None = said("the optimal value, where it can be computed")
    optimum_of: str | None = maybe("only with --risk: the mean, which bounds and exact are of")
    status: Literal["searched", "exact", "followed", "forced", "over"] = said(
        "searched: an estimate by simulation; exact: by dynamic programming; followed: what the "
        "basis does, a search was not better or not made; forced: there is only one action; over: "
        "nothing is left to decide"
    )
    basis: str | None = said("what a search without bounds of its own stands on, in words")
    stats: dict[str, float | None] = said("numbers about the search; these may change")


class DecisionChange(BaseModel):
    """A change of a decision."""

    t: int = said("the step, from 0 up")
    observed: list[float] = said("the amounts as they were")
    alternative: list[float] = said("as they should have been")
    text: str = said("the same for people")


_whole = ("scenario_id", "steps", "sense", "status")
_scenario = _keys_of(ScenarioAnswer, _whole, changes=list[DecisionChange] | None)
Scenario: Any = create_model("Scenario", **_scenario)


class Totals(BaseModel):
    """Sums over scenarios."""

    executed: float | None = maybe("what the decisions brought")
    hindsight: float | None = maybe("what foresight would have")
    without_foresight: float | None = maybe("what the best policy known would have")
    open_loop: float | None = maybe("what the plan for expected values would have")
    planned: float | None = maybe("what the planner would have")
    expected_regret: float | None = maybe("what the decisions lost when they were made")


class Judged(BaseModel):
    """Executed plans (--scenarios)."""

    out: str | None = said("the folder, if one")
    scenarios: int = said("how many")
    executed: int = said("how many of them say what was done")
    failed: int = said("how many could not be judged")
    sense: Literal["min", "max"] = said("min if values are costs, max if they are rewards")
    unit: str = said("what values are counted in, empty where that is not known")
    totals: Totals = said("sums over the scenarios (those that say what was done, if any do)")
    worst: list[Scenario] = said("those that lost most first; all without a folder, else twenty")
    failures: list[Scenario] = said("those that failed")


class Template(BaseModel):
    """A template (--scenarios-template)."""

    template: str = said("the file")
    scenarios: int = said("how many are in it")


_death = {name: _explanation[name] for name in SHOWN}
Death: Any = create_model(
    "Death", patient=(str, said("who")), **_death, changes=(list[str], said("in words"))
)


class Demo(BaseModel):
    """The three parts of the demo."""

    run: str = said("the folder of the run about deaths")
    reports: list[str] = said("files")
    figures: list[str] = said("files")
    summary: dict[str, Any] = said("counts and means under names that say what they are")
    deaths: list[Death] = said("the improvable ones, ranked by what is guaranteed")


# By command: the documents that it may print.
DOCUMENTS: dict[str, tuple[Any, ...]] = {
    "explain": (Explain, ExplainRun),
    "cases": (Cases,),
    "fit": (FitTabular, FitLearned, FitProcess),
    "episodes": (EpisodesMade, EpisodesCodes),
    "schema": (Draft,),
    "report": (Report,),
    "serve": (Serve,),
    "plan": (Plan, Judged, Template),
    "demo": (Demo,),
}
