"""The models that answer a question about an episode.

An `Explainer` is a model with all that it takes to put a `Question` to an episode: the problem that
the episode poses, the names of actions, and the data that the model was learned from.

    discrete     a tabular model; a policy answers
    stays        a neural model of one of the built-in tables of intensive care
    schema       either kind of model, on a table that a schema describes; with doses see
                 `dose_explainer`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplan.core.constraints import Constraints, policy_rule
from counterplan.core.episode import Episode
from counterplan.core.limits import ProgressCallback
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.runs.question import EXACT, RULES, Question, read_rules
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.models import outcome_of_model
from counterplan.tables.schema import Column, Grid

if TYPE_CHECKING:
    from counterplan.core.result import Explanation
    from counterplan.counterfactual.support import Support
    from counterplan.scm.learned import LearnedSCM
    from counterplan.scm.row_sets import RowSets
    from counterplan.scm.support import Outlier
    from counterplan.tables.layout import SchemaLayout
    from counterplan.tables.parts import Recorded

STATE, ACTION = "state", "action"
# The doubt of the exact solver unless another is asked for.
DEFAULT_DOUBT = 0.2
# Draws of luck behind a tipping rho: half of them opposites, they tell more than 50 that are not.
TIPPING_DRAWS = 8
# Intervals of a value by the causal models that are admitted, see `value_interval`.
INTERVALS = {"interval": "none", "stable": "stable", "monotone": "monotone"}
# Sets of rules that a model has ready.
SOME_RULES = 16


@dataclass(frozen=True)
class PartChange:
    """A component of an action that is `alternative` instead of `observed`."""

    name: str
    observed: float
    alternative: float


@dataclass(frozen=True)
class Prediction:
    """What a column that counts at the end is predicted to be.

    name     which column
    factual  for what was done
    value    for the alternative
    low      where the 95 % interval of that begins
    high     and where it ends
    text     in words: "readmitted 31% -> 18% (12% to 25%)"
    """

    name: str
    factual: float
    value: float
    low: float
    high: float
    text: str

    @classmethod
    def of(cls, name: str, is_share: bool, *numbers: float) -> Prediction:
        """With words: a share is one of 1 among 0 and 1."""
        words = (f"{one:.0%}" if is_share else f"{one:.4g}" for one in numbers)
        factual, value, low, high = numbers
        text = "{} {} -> {} ({} to {})".format(name, *words)
        return cls(name, factual, value, low, high, text)


class Explainer(ABC):
    """A model with what is needed to ask it about an episode, and the names of its actions.

    layout        of the table, None where the model alone names states and actions
    unit          of times, empty where steps are counted
    components    what an action consists of; none where it is one thing
    n_actions     how many actions there are, numbered from 0 up
    step_columns  what a trajectory says of each step, beside its reward
    choices       the actions, and
    states        of a discrete model the states, by their names
    """

    is_discrete: ClassVar[bool]
    layout: SchemaLayout | None
    choices: Grid
    states: Grid | None
    step_columns: tuple[str, ...] = (STATE, ACTION)

    def __init__(self, model: TabularMDP | LearnedSCM, layout: SchemaLayout | None) -> None:
        self.model, self.layout = model, layout
        self.unit, self.components = "", tuple[str, ...]()
        if layout is not None:
            self.unit, self.n_actions = layout.schema.unit, len(layout.choices)
            self.components = tuple(column.name for column in layout.choices.columns)
            self.choices, self.states = layout.choices, layout.states
        # By question: the same for every episode.
        self.rules = lru_cache(SOME_RULES)(self._read_rules)

    def decisions(self, episode: Episode) -> int:
        """At how many steps something was decided: all, or all but the last."""
        is_over = not self.is_discrete or episode.actions[-1] == len(self.choices)
        return len(episode) - bool(is_over)

    @abstractmethod
    def problem(self, episode: Episode, question: Question | None = None) -> Mapping[str, Any]:
        """What `explain` takes for this episode: `scm`, and for vectors `actions` and `reward`. No
        question is asked about a plan by hand."""

    def constraints(self, episode: Episode, question: Question) -> Constraints:
        """What an episode rules out, the question, and that which hardly occurs in the data."""
        last, move = self.decisions(episode), None
        kept = [step % last for step in question.keep if -last <= step < last]
        if self.is_discrete:
            kept += range(last, len(episode))
        elif self.layout is not None:
            move = self.layout.max_move(question.max_move)
        rules, supported = self.rules(question), question.supported
        return replace(rules, fixed_steps=kept, max_move=move, supported=supported)

    @cached_property
    def data_rule(self) -> str:
        """How alternatives can be kept inside the data, in words; empty where the model has kept
        nothing that tells."""
        if self.is_discrete:
            return policy_rule() if getattr(self.model, "visits", None) is not None else ""
        from counterplan.counterfactual.support import sequence_rule_of

        return sequence_rule_of(self.model)

    def rule(self, question: Question) -> str:
        """How the answers to a question are kept inside the data; empty where they are not."""
        return "" if question.supported is False else self.data_rule

    def _read_rules(self, question: Question) -> Constraints:
        """What its rules stand for, among the actions that may be advised."""
        rules = question.allow, question.forbid, question.cost
        found = read_rules(self.choices, self.states, *rules)
        if self.layout is None:
            return found
        offer = self.layout.offer
        allowed = np.asarray(found.allowed) & offer.actions
        if question.allow and not allowed.any():
            why = f" {offer.note}" if offer.note else ""
            raise InputError(
                f"allow: leaves nothing to advise: allow other actions, or forbid fewer.{why}"
            )
        # A tabular model also counts the action that stands for none: nobody can choose that.
        more = getattr(self.model, "n_actions", allowed.size) - allowed.size
        return replace(found, allowed=np.pad(allowed, (0, more)))

    def notes(self, question: Question) -> list[str]:
        """What to know of the answers to a question: whether they stay inside the data, which
        actions they advise, its rules, what is good and how well that is known."""
        found = [f"Inside the data: {self.data_rule}."]
        if not self.data_rule:
            found = ["The model has kept none of its data: explanations may leave it unnoticed."]
        elif question.supported is False:
            found = ["Anywhere: also where the data that the model was learned from has nothing."]
        found += [] if self.layout is None else [self.layout.offer.note]
        for name, words in RULES.items():
            said = [
                self.action_name(rule) if isinstance(rule, int) and name != "keep" else str(rule)
                for rule in getattr(question, name)
            ]
            found.append(f"{words}: {', '.join(said)}." if said else "")
        found.append(self.claims_in_words(question))
        if self.layout is not None and self.layout.schema.of("reward", "cost"):
            words = self.layout.schema.outcome_in_words
            found.append(f"What is added up: {words}; more is better.")
        warned: Any = self.model.about.get("findings", ())
        about = [one["column"] or one["kind"] for one in warned if one["severity"] == "warning"]
        if self.layout is not None and not self.layout.schema.is_plain:
            schema = self.layout.schema
            replayed = [one for one in schema.components if one.role == "contextual"]
            told = [one.name for one in (*schema.features, *replayed)]
            unseen = [one.name for one in schema.of("ignore")]
            found.append(
                "Assumes that what was done was chosen by what these columns say, or by chance: "
                f"{', '.join(told)}" + (f" (not used: {', '.join(unseen)})." if unseen else ".")
            )
        if about:
            names = ", ".join(dict.fromkeys(about))
            found.append(f"The table behind the model has drawn warnings: {names} (see fit).")
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(
                f"Not established: what the table leaves out matters for {names} (see fit)."
            )
        return [*filter(None, found), *self.model.about.get("remarks", ())]

    @property
    def left_out(self) -> list[str]:
        """The columns whose next value depends on more than a row of the model's table tells; if
        there are any, no answer is established."""
        warned: Any = self.model.about.get("findings", ())
        return [*dict.fromkeys(one["column"] for one in warned if one["kind"] == "memory")]

    @abstractmethod
    def claims_in_words(self, question: Question) -> str:
        """What claims are made of: by what they were chosen, and what they leave open."""

    @abstractmethod
    def completed(self, question: Question) -> Question:
        """A question with the risk or doubt that it leaves to the model; raises where it asks for
        one that the model has no use for."""

    def explain(
        self, episode: Episode, question: Question, progress: ProgressCallback | None = None
    ) -> Sequence[Explanation]:
        from counterplan.counterfactual.explain import explain, frontier

        question = self.completed(question)
        dials = {name: getattr(question, name) for name in ("risk", "doubt")}
        options: dict[str, Any] = {
            **self.problem(episode, question),
            **{name: value for name, value in dials.items() if value is not None},
            "episode": episode,
            "progress": progress,
            "constraints": self.constraints(episode, question),
            "solver": question.solver_for(episode.id or ""),
            "limits": question.limits(),
        }
        if len(question.budgets) == 1:
            return [explain(k=question.budgets[0], **options)]
        # No more can change than there are steps: larger budgets have the same answer.
        longest = min(question.budgets[-1], len(episode))
        found = frontier(k_max=longest, **options)
        return [replace(found[min(k, longest)], k=k) for k in question.budgets]

    @abstractmethod
    def rewards(self, episode: Episode, states: Any, actions: Any) -> FloatArray:
        """(T,) what each step of a path of an episode is worth; actions are numbers."""

    def left_over(self, recorded: Recorded) -> FloatArray | float:
        """(T,) what the table says that steps earned beyond what the model does: noise, which an
        alternative keeps."""
        return 0.0

    def observed(self, recorded: Recorded) -> float | None:
        """What the table says that an episode earned, where it does."""
        return None if self.layout is None else self.layout.observed(recorded)

    @property
    def as_done(self) -> str:
        """What the value of what was done is called: where an end is learned, it is the model's."""
        is_learned = self.layout is not None and self.layout.schema.finals
        return "By the model" if is_learned else "Observed"

    @property
    def outcome(self) -> str:
        """What an outcome is, in words: as the model calls it, or else what is added up; empty
        where nothing says it."""
        if (named := outcome_of_model(self.model)) is not None:
            name, unit, _ = named
            return f"{name} ({unit})" if unit else name
        return "" if self.layout is None else self.layout.schema.outcome_in_words

    def pays_at_end_only(self, explanation: Any) -> Sequence[bool]:
        """Which changes would cost more than they bring, were it counted what usually follows."""
        return [False] * len(explanation.changes)

    def idle_parts(self, explanation: Any) -> Sequence[Sequence[str]]:
        """Of each change of several components: those of which the data does not tell that changing
        them, too, helps."""
        return [()] * len(explanation.changes)

    @abstractmethod
    def actions_taken(self, episode: Episode) -> list[Any]:
        """Each action of an episode, its number or its doses; None where nothing was decided."""

    def edits(self, changes: Sequence[Mapping[str, Any]], steps: Any) -> dict[int, Any]:
        """The changes of a row of results as `replay` takes them; `steps` are the rows of its
        trajectory, by t."""
        return {one["t"]: one["alternative"] for one in changes}

    def support(self, explanation: Any) -> Support:
        """How far an explanation leaves the data that the model was learned from."""
        found: Support = explanation.support
        return found

    def change_probabilities(self, explanation: Any) -> FloatArray | None:
        """(T, A) how likely a policy makes each change, None where changes are certain."""
        return None

    @abstractmethod
    def said(
        self, recorded: Recorded, explanation: Any, question: Question | None
    ) -> dict[str, Any]:
        """How sure an improvement is and what follows from it, by the fields of an `Answer`; what
        the model has nothing to say of is left out."""

    def tipping(self, explanation: Any) -> dict[str, Any]:
        """What would undo an improvement and no data rules out, by the fields of an `Answer`."""
        return {}

    def outliers(self, recorded: Recorded) -> tuple[Outlier, ...] | None:
        """For each column with states far outside what the model has learned from, or of those that
        it left out as implausible, the farthest; None where states have no distance."""
        return None

    @abstractmethod
    def paths(self, explanation: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """States and numbers of actions: what was, and what would have been."""

    def step_values(self, episode: Episode, states: Any, actions: Any) -> Sequence[Any]:
        """What `step_columns` hold along a path of an episode."""
        return states, actions

    def step_labels(self, T: int, states: Any, actions: Any) -> dict[str, list[str | None]]:
        """Names along a path of T steps, by the columns of a trajectory."""
        names = [self.action_name(action) for action in actions]
        return {"action_label": [*names, *[None] * (T - len(names))]}

    def action_name(self, action: Any) -> str:
        layout, number = self.layout, int(action)
        return self.choices.name(number) if layout is None else layout.action_name(number)

    def change_text(self, observed: Any, alternative: Any) -> str:
        """What is changed about an action: "rest -> walk", "vasopressor 0 -> 2"."""
        assert self.layout is not None
        return self.layout.change_in_words(observed, alternative)

    def changed_parts(self, observed: Any, alternative: Any) -> list[PartChange]:
        """The components that change; none where an action has none."""
        layout = self.layout
        if layout is None or layout.no_action in (observed, alternative):
            return []
        vectors = layout.choices.vectors
        both = zip(self.components, vectors[observed], vectors[alternative], strict=True)
        return [PartChange(name, float(old), float(new)) for name, old, new in both if old != new]

    @property
    def has_dates(self) -> bool:
        return self.layout is not None and bool(self.layout.schema.dates)

    def time_text(self, time: float, date: str | None = None) -> str:
        """When a step begins: "at 8 h", "step 3", "on 2024-03-31"."""
        if date:
            return f"on {date}"
        return f"at {time:g} {self.unit}" if self.unit else f"step {time:g}"


def named_grid(what: str, names: Iterable[str]) -> Grid:
    """States or actions of a model that has no columns for them."""
    return Grid((Column(what, what, labels=tuple(names)),))


class DiscreteExplainer(Explainer):
    """Episodes of a tabular model: a policy answers. Without a layout the model names actions."""

    is_discrete = True

    def __init__(self, mdp: TabularMDP, layout: SchemaLayout | None = None) -> None:
        self.mdp, self.n_actions = mdp, mdp.n_actions
        self.choices = named_grid("action", map(mdp.action_name, range(mdp.n_actions)))
        self.states = named_grid("state", map(mdp.state_name, range(mdp.n_states)))
        super().__init__(mdp, layout)

    @cached_property
    def _problem(self) -> Mapping[str, Any]:
        from counterplan.scm.gumbel import GumbelMaxSCM

        return {"scm": GumbelMaxSCM(self.mdp)}

    def problem(self, episode: Episode, question: Question | None = None) -> Mapping[str, Any]:
        return self._problem

    @property
    def no_action(self) -> int | None:
        """The number that stands for no action in a last row, None where there is none."""
        return None if self.layout is None else self.layout.no_action

    def rewards(self, episode: Episode, states: Any, actions: Any) -> FloatArray:
        return self.mdp.rewards_along(states, actions)

    def pays_at_end_only(self, explanation: Any) -> Sequence[bool]:
        from counterplan.tables.rewards import expected_after

        values, T = self._ahead, len(explanation.episode)
        if values is None:
            return super().pays_at_end_only(explanation)
        horizon, found = len(values) // 2, []
        for t, *pair in explanation.changes:
            state, left = explanation.most_likely.states[t], T - 1 - t
            gains = [
                float(np.diff((self.mdp.rewards + expected_after(self.mdp, ahead))[state, pair])[0])
                for ahead in values[[left, left + horizon] if left <= horizon else []]
            ]
            found.append(bool(gains) and gains[0] > 0.0 > gains[1])
        return found

    @cached_property
    def _ahead(self) -> FloatArray | None:
        """What steps to come usually earn, None where nothing is known or it is counted already."""
        from counterplan.tables.rewards import values_ahead

        ends, visits = self.mdp.about.get("ends"), self.mdp.visits
        if self.layout is None or ends is None or visits is None:
            return None
        if self.layout.schema.final == "value":
            return None
        return values_ahead(self.mdp, visits, len(self.layout.choices), 2 * ends["horizon"])

    def actions_taken(self, episode: Episode) -> list[Any]:
        return [None if a == self.no_action else int(a) for a in episode.actions]

    def step_labels(self, T: int, states: Any, actions: Any) -> dict[str, list[str | None]]:
        both = zip(("state_label", "action_label"), self._names, (states, actions), strict=True)
        return {label: [names[int(one)] for one in along] for label, names, along in both}

    @cached_property
    def _names(self) -> tuple[list[str], list[str]]:
        """Of all states, and of all actions."""
        assert self.states is not None
        return self.states.names(), [*map(self.action_name, range(self.mdp.n_actions))]

    def support(self, explanation: Any) -> Support:
        from counterplan.counterfactual.support import policy_support

        states, changes = explanation.most_likely.states, explanation.changes
        return policy_support(explanation.process, states, changes, self.no_action)

    def change_probabilities(self, explanation: Any) -> FloatArray | None:
        found: FloatArray = explanation.change_probabilities()
        return found

    def completed(self, question: Question) -> Question:
        if question.risk is not None:
            if question.doubt:
                raise InputError(
                    "risk and doubt are two ways to be careful, about the data and about the "
                    "causal model: give one of them"
                )
            if self.mdp.counts is None:
                raise InputError(
                    "risk is for models that know their data: this one has no counts to draw "
                    "others from; doubt is about the causal model"
                )
            return replace(question, doubt=None)
        usual = DEFAULT_DOUBT if question.solver == EXACT else 0.0
        return question if question.doubt is not None else replace(question, doubt=usual)

    def claims_in_words(self, question: Question) -> str:
        question = self.completed(question)
        doubt, risk = question.doubt, question.risk
        chosen = "Chosen as if Gumbel-Max were certain"
        if doubt:
            chosen = (
                f"Chosen with doubt {doubt:g}: so much weight has the worst causal model at every "
                "step"
            )
        if risk is not None:
            chosen = (
                f"Chosen for the mean over the worst {risk:.0%} of tables that half of the data "
                "admits; improvements are means over those of the other half, with intervals of "
                "90 %"
            )
        least = "Guaranteed is what holds in every causal model of these states that fits"
        sets = "" if self._row_sets is None else f", and in {self._row_sets.words}"
        return f"{chosen}. {least}{sets}."

    @cached_property
    def _row_sets(self) -> RowSets | None:
        """What the data leaves open, None where the model does not know its counts."""
        if self.mdp.counts is None:
            return None
        from counterplan.scm.row_sets import RowSets

        return RowSets.credible(self.mdp)

    def said(
        self, recorded: Recorded, explanation: Any, question: Question | None
    ) -> dict[str, Any]:
        found, last = [], int(explanation.episode.states[-1])
        for end in self.mdp.about.get("ends", {}).get("columns", ()):
            after = (explanation.expected_end(end[name]) for name in ("mean", "low", "high"))
            found.append(Prediction.of(end["name"], end["is_share"], end["mean"][last], *after))
        return {"predicted": tuple(found) or None, **self.claim(explanation, question)}

    def claim(self, explanation: Any, question: Question | None) -> dict[str, Any]:
        """What holds whatever is left open; no question was asked about a plan by hand."""
        asked = {} if question is None else {"doubt": self.completed(question).doubt}
        share = getattr(explanation, "share", None)  # of draws of the table that chose it
        if share is not None:
            low, high = explanation.interval
            ends = {"improvement_low": low, "improvement_high": high}
            asked = {"risk": share, "harm": explanation.harm, **ends}
        least = explanation.least_in(self.mdp, self._row_sets)
        rounding = 1e-9 * max(1.0, abs(explanation.factual_value))
        found = {"guaranteed": least, "established": least > explanation.factual_value + rounding}
        if question is not None and question.robust:
            for name, assumed in INTERVALS.items():
                low, high = explanation.interval_in(self.mdp, assumed)
                found |= {f"{name}_low": low, f"{name}_high": high}
        return asked | found

    def paths(self, explanation: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        episode, path = explanation.episode, explanation.most_likely
        return (episode.states, episode.actions), (path.states, path.actions)

    def change_text(self, observed: Any, alternative: Any) -> str:
        if self.layout is None:
            return f"{self.action_name(observed)} -> {self.action_name(alternative)}"
        return super().change_text(observed, alternative)


class ContinuousExplainer(Explainer):
    """Episodes of a neural model: a sequence of actions answers."""

    is_discrete = False
    layout: SchemaLayout

    def __init__(self, scm: LearnedSCM, layout: SchemaLayout) -> None:
        self.scm = scm
        self._implausible = layout.implausible(getattr(scm, "about", {}))
        if not layout.schema.of("reward", "cost"):
            layout.reward()
        names = {STATE: layout.features, ACTION: layout.actions}
        self.step_columns = tuple(f"{kind}:{name}" for kind in names for name in names[kind])
        super().__init__(scm, layout)

    def problem(self, episode: Episode, question: Question | None = None) -> Mapping[str, Any]:
        reward = self.layout.reward(episode)
        return {"scm": self.scm, "actions": self.layout.action_set(episode), "reward": reward}

    def rewards(self, episode: Episode, states: Any, actions: Any) -> FloatArray:
        from counterplan.core.reward import EpisodeReward

        reward = self.layout.reward(episode)
        if not isinstance(reward, EpisodeReward):
            return np.asarray(reward(states))
        T, taken = len(states), list(actions[: len(states) - 1])
        earned = reward.of_actions(T - 1, len(self.layout.choices))
        return reward.by_step(states, earned[np.arange(T - 1), taken])

    def left_over(self, recorded: Recorded) -> FloatArray | float:
        episode, given = recorded.episode, recorded.rewards
        if given is None or self.layout.learned.step is None:
            return 0.0
        reward: Any = self.layout.reward(episode)
        taken = self.actions_taken(episode)
        own = self.rewards(episode, episode.states, taken)
        own[-1] = reward.state(episode.states[-1:])[0]
        merits = [column.merit for column in self.layout.schema.features]
        return np.nan_to_num(given + episode.states @ merits - own)

    def pays_at_end_only(self, explanation: Any) -> Sequence[bool]:
        from counterplan.counterfactual.continuous.member import prepare_member

        schema, following = self.layout.schema, self.layout.learned.following
        if following is None or schema.final == "value" or not explanation.changes:
            return super().pays_at_end_only(explanation)
        model = prepare_member(explanation.problem, explanation.problem.scm)
        steps = [change.t for change in explanation.changes]
        # The whole sequence, and without one change each.
        fewer = np.repeat(explanation.indices[None], 1 + len(steps), axis=0)
        fewer[np.arange(1, len(fewer)), steps] = model.observed[steps]
        states = model.trajectories(fewer)
        earned = model.earned(states, fewer)
        ahead = following.along(schema, explanation.episode)
        later = ahead(model.in_episode_units(states[:, -1]))
        gains, lost = earned[0] - earned[1:], later[1:] - later[0]
        return [bool(one) for one in (gains > 0.0) & (lost > gains)]

    def idle_parts(self, explanation: Any) -> Sequence[Sequence[str]]:
        """Those that add less than a change's share of what the claim may be off by. The spread of
        members alone is too small: where a drug does nothing they agree on some small effect."""
        from counterplan.counterfactual.continuous.setting import prepare_sequence

        claim, many = explanation.interval, len(explanation.changes)
        off = None if claim is None else claim.width / 2 / max(many, 1)
        vectors, found, setting = self.layout.choices.vectors, list[list[str]](), None
        for t, observed, alternative in explanation.changes:
            found.append([])
            differs = np.flatnonzero(vectors[observed] != vectors[alternative])
            if len(differs) < 2 or off is None:
                continue
            for part in differs:
                kept = vectors[alternative].copy()
                kept[part] = vectors[observed, part]
                (same,) = np.nonzero((vectors == kept).all(axis=1))
                if not same.size:  # a combination that nobody chose
                    continue
                setting = setting or prepare_sequence(explanation.problem)
                actions = explanation.actions.copy()
                actions[t] = same[0]
                without = setting.outcomes_by_member(actions[None]).mean()
                if not explanation.outcomes.mean() - without > off:
                    found[-1].append(self.components[part])
        return found

    def actions_taken(self, episode: Episode) -> list[Any]:
        from counterplan.scm.point import action_indices, action_vectors

        # Nothing is decided in the last state.
        vectors = action_vectors(self.layout.action_set(episode), len(episode) - 1)
        return [*map(int, action_indices(episode, vectors)), None]

    def completed(self, question: Question) -> Question:
        from counterplan.counterfactual.continuous.setting import DEFAULT_RISK

        if question.doubt:
            raise InputError(
                "doubt is for discrete models: elsewhere what would have happened is one"
            )
        members = getattr(self.scm, "members", ())
        if question.risk is not None and not members:
            raise InputError("risk is for models with members: this one is a single network")
        usual = DEFAULT_RISK if members and question.risk is None else question.risk
        return replace(question, risk=usual, doubt=None)

    def claims_in_words(self, question: Question) -> str:
        risk, members = self.completed(question).risk, getattr(self.scm, "members", ())
        if risk is None:
            return (
                "Claims carry no interval: the model is one network and does not know how sure it "
                "is; `counterplan fit --learner smooth` makes one that does."
            )
        return (
            f"Improvements are means over {len(members)} models that the data admits, with "
            f"intervals of 90 %; chosen for the mean over the worst {risk:.0%} of them."
        )

    def said(
        self, recorded: Recorded, explanation: Any, question: Question | None
    ) -> dict[str, Any]:
        found = {"predicted": self._predictions(explanation)}
        if (risk := explanation.problem.risk) is None:
            return found
        low, high = explanation.interval
        if (room := self.layout.room(recorded)) is not None:  # what ended well cannot end better
            low = min(low, room)
        return {
            **found,
            "risk": risk,
            "improvement_low": low,
            "improvement_high": high,
            "harm": explanation.harm,
            "established": low > 0.0 and not self.left_out,
        }

    def _predictions(self, explanation: Any) -> tuple[Prediction, ...] | None:
        from counterplan.tables.rewards import coded

        ends = np.stack([explanation.episode.states[-1], explanation.states[-1]])
        before, after = coded(self.layout.schema.features, ends)
        found = [
            Prediction.of(one.name, one.is_share, one.interval(before)[0], *one.interval(after))
            for one in self.layout.learned.finals
        ]
        return tuple(found) or None

    def tipping(self, explanation: Any) -> dict[str, Any]:
        from counterplan.counterfactual.sensitivity import tipping_points

        rho, gamma = tipping_points(self.scm, explanation.episode, explanation, TIPPING_DRAWS)
        return {"tipping_rho": rho, "tipping_gamma": gamma}

    def outliers(self, recorded: Recorded) -> tuple[Outlier, ...]:
        from counterplan.scm.support import Outlier, outliers

        names = self.layout.features
        found = outliers(self.scm.scaling, names, recorded.episode, self._implausible)
        if reward := self.layout.odd_reward(recorded):
            found.append(Outlier(recorded.episode.id, *reward))
        return tuple(found)

    def paths(self, explanation: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        episode = explanation.episode
        return (episode.states, explanation.observed), (explanation.states, explanation.actions)

    def step_values(self, episode: Episode, states: Any, actions: Any) -> Sequence[Any]:
        vectors = self.layout.action_set(episode)[np.arange(len(episode) - 1), actions]
        return [*states.T, *([*values, None] for values in vectors.T)]
