"""Models straight from tables: tabular ones of discrete states, learned ones of continuous
states: smooth, or neural.

A model learned with a schema remembers it. In tabular models R(s, a) is what the table says that a
pair earned, or what its schema says of the state; pairs that never occur are barred (-inf), or earn
the mean of their state's other pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.shown import takes
from counterplan.core.table import table_columns
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import FileError, InputError
from counterplan.scm.estimate import (
    TransitionCounts,
    count_transitions,
    estimate_mdp,
    neighbour_prior,
)
from counterplan.scm.learned import FitSettings as NeuralSettings
from counterplan.scm.learned import LearnedSCM, NeuralSCM
from counterplan.scm.smooth import SmoothSCM
from counterplan.scm.support import collect_seen
from counterplan.scm.tabular import TabularMDP
from counterplan.scm.training import Training
from counterplan.scm.transitions import Transitions, can_spare
from counterplan.tables.episodes import open_episodes, plain_schema
from counterplan.tables.layout import (
    ACTIONS,
    ENDS,
    IMPLAUSIBLE,
    LEARNED,
    LOWEST,
    MEANS,
    NO_ACTION,
    REMARKS,
    REWARD,
    SCHEMA,
    SchemaLayout,
    check_reward,
)
from counterplan.tables.memory import memory
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.quality import (
    FINDINGS,
    WARNING,
    Finding,
    discrete_findings,
    filled_gaps,
    findings,
    plausible_means,
)
from counterplan.tables.reader import CheckedTable, open_table
from counterplan.tables.rewards import (
    end_by_state,
    expected_after,
    is_cost_name,
    is_curved,
    learn_rewards,
    values_ahead,
)
from counterplan.tables.schema import VALUE, Schema, read_schema

log = logging.getLogger(__name__)
UNDERSTOOD = (
    "discrete episodes (episode_id, t, state, action, reward), a sepsis cohort (icustayid, bloc, "
    "...) or ICU stays in four-hour steps (episode_id, t, a_vaso, a_iv, ...)"
)
# Nats per transition and feature by which a fit may be worse than a linear one without a warning.
TOLERATED_LOSS = 0.1
# Of what is left unexplained: a share that is worth a word.
NOTABLE = 0.1
LEARNERS = ("smooth", "neural", "auto")
# Nats per transition and feature by which networks must be better to be chosen, and transitions
# below which they never were, wherever the truth is known (docs/ground-truth.md).
CLEARLY, MANY = 0.05, 20_000
UNCALIBRATED = "warning: claims of networks are not calibrated: they have no interval"
# Settings of networks.
NETWORKS = ("hidden", "lipschitz", "epochs", "progress")
# A dense (S, A, S) table of this many numbers takes 2 GiB.
LARGEST_TABLE = 2**28


@dataclass(frozen=True)
class FitSettings:
    """How to estimate a tabular model.

    prior           one pseudo-count for every transition, None for the neighbour prior
    bar_unobserved  give pairs that never occur the reward -inf, else their state's mean reward
    mean_rewards    average where the same pair earned different rewards, else refuse
    state_labels    names of the states 0, 1, ..., None if the file has numbers up to the largest
    action_labels   likewise
    support         keep the counts of pairs in the model, to tell how far explanations leave them
    """

    prior: float | None = 1.0
    bar_unobserved: bool = True
    mean_rewards: bool = False
    state_labels: Sequence[str] | None = None
    action_labels: Sequence[str] | None = None
    support: bool = True


class Fit(NamedTuple):
    """A model, one line about its table, what its schema makes of it, what there is to say about
    its quality; of a discrete one what was counted, of a learned one the episodes it was learned
    from and how many more the table has."""

    model: Any
    summary: str
    layout: SchemaLayout
    findings: Sequence[Finding] = ()
    counts: Any = None
    episodes: Sequence[Episode] = ()
    dropped: int = 0


def fit_model(path: str | Path, settings: FitSettings) -> Fit:
    """The posterior-mean model of a plain file of episodes."""
    check_kind(path)
    with open_episodes(path, settings.state_labels, settings.action_labels) as table:
        if not table.schema.rewards:
            raise FileError(
                f"{path}: has no rewards, which a model needs; add a column 'reward' (JSON: "
                '"rewards" in each episode) with what each step earned'
            )
        every = list(table)
        S, A = len(settings.state_labels or ()), len(settings.action_labels or ())
        S = S or 1 + max(int(one.episode.states.max()) for one in every)
        A = A or 1 + max(int(one.episode.actions.max()) for one in every)
        if S * A * S > LARGEST_TABLE:
            raise FileError(
                f"{path}: {S} states and {A} actions make a model too large for memory; number "
                "both from 0 up without gaps, or group the states"
            )
        return _fit_tabular(table, [every], SchemaLayout(plain_schema(S, A)), settings)


def check_kind(path: str | Path) -> None:
    """A table about something else is told what there could be; slips in one are told later."""
    columns = table_columns(path)
    if len(columns) > 1 and not {"state", "action"} & set(columns):
        found = ", ".join(repr(name[:40]) for name in columns[:8])
        raise FileError(
            f"{path}: no column 'state' or 'action': found {found}; a model can be learned from "
            f"{UNDERSTOOD}; for a table of your own: counterplan schema "
            f"{quote(str(path))} -o schema.toml, then give --schema schema.toml"
        )


# --- By a schema ------------------------------------------------------------------------------


class LearnerSettings(NeuralSettings, total=False):
    """How to learn a model of continuous states.

    learner  "smooth", "neural", or "auto": smooth, unless networks predict held-out episodes
             clearly better. If not given, networks are tried where settings of theirs are, or where
             there are many transitions and jax is installed
    members  of a smooth model
    """

    learner: Literal["smooth", "neural", "auto"]
    members: int


@takes(LearnerSettings, FitSettings)
def fit(
    table: Any, schema: Schema | str | Path | Mapping[str, Any], **settings: Any
) -> TabularMDP | LearnedSCM:
    """A model of what a table holds, as its schema describes it.

    table     a file, or a frame of polars or pandas
    schema    what the columns mean: a schema, its file, TOML text, or plain values

    States that are measurements give a `SmoothSCM`, or networks where they predict clearly better:
    which, and why, is in `model.about["training"]["chosen"]`. Discrete states give a `TabularMDP`.
    """
    described = read_schema(schema)
    kind: Any = FitSettings if described.is_discrete else LearnerSettings
    if unknown := [name for name in settings if name not in kind.__annotations__]:
        states = "discrete states" if described.is_discrete else "measurements"
        there = ", ".join(kind.__annotations__)
        raise TypeError(f"fit: unknown argument {unknown[0]!r} for {states}: there are {there}")
    fitted = (fit_discrete if described.is_discrete else fit_continuous)(
        table, described, kind(**settings)
    )
    return fitted.model  # type: ignore[no-any-return]


def fit_continuous(
    path: Any, schema: Schema, settings: LearnerSettings, support: bool = True
) -> Fit:
    """Learn a model from a table with continuous states."""
    layout = SchemaLayout(schema)
    check_reward(schema)
    with open_table(path, schema) as table:
        found, summary, filled = Rows(list(table)), table.summary(), table.filled
        remarks = doubtful_costs(table)
    if is_curved(schema, found):
        fitted = fit_continuous(path, schema.with_reward_as_state, settings, support)
        reward = schema.rewards[0]
        why = (
            f"column {reward.name!r}: is a curved function of the other states of its row: learned "
            f"as a state of its own, of which {'more' if reward.merit > 0 else 'less'} is better"
        )
        known = fitted.model.about
        model = replace(fitted.model, about={**known, REMARKS: [*remarks, why, *known[REMARKS]]})
        return fitted._replace(model=model)
    means = plausible_means(found, layout, table.means)
    if any(filled[name].mean and mean != table.means[name] for name, mean in means.items()):
        with open_table(path, schema, means) as table:
            found = Rows(list(table))
    about: dict[str, object] = {SCHEMA: schema.as_dict(), MEANS: means}
    try:
        exact, learned, more = learn_rewards(schema, found)
        if exact is not None:
            about[REWARD] = {"weights": exact.weights.tolist(), "constant": exact.constant}
        about |= {LEARNED: asdict(learned), REMARKS: [*remarks, *more]}
        described, told = examined(found, layout, settings, support, about)
    except InputError as problem:
        raise FileError(f"{table.path}: {problem}") from None
    episodes = [one.episode for one in found.every]
    return Fit(described, summary, layout, told, episodes=episodes)


def examined(
    table: Rows,
    layout: SchemaLayout,
    settings: LearnerSettings,
    support: bool,
    about: Mapping[str, Any],
) -> tuple[LearnedSCM, list[Finding]]:
    """A model of the episodes of a table that keeps to the ranges of its columns, and what is
    doubtful about both; the model remembers it, besides what is told `about` it."""
    told = findings(table, layout)
    scm = learn(table, layout, settings, support)
    remarks = [*about.get(REMARKS, ())]
    if better := poor_fit(scm):
        remarks.append(f"warning: {better}: do not trust explanations by this model")
    # What a poor model leaves says nothing about the table.
    remembered = [] if better else memory(scm, table.every, layout)
    told = [*remembered, *told, *persistent(scm, layout)]
    lowest = dict(zip(layout.features, table.ranges[0].tolist(), strict=True))
    known = {**about, LOWEST: lowest, REMARKS: remarks}
    known[FINDINGS] = [asdict(one) for one in told]
    limits = layout.ranges(known)[layout.fixed :]
    limited = limits if np.isfinite(limits).any() else None
    return replace(scm, about={**scm.about, **known}, limits=limited), told


def learn(
    table: Rows, layout: SchemaLayout, settings: LearnerSettings, support: bool
) -> LearnedSCM:
    """A model of the episodes of a table; steps from or to a state that was filled in are not
    learned from, for they look as if nothing that was done mattered.

    support  keep some of them in it, to tell how far explanations leave the data
    """
    # In an order of their own, so that the table's does not matter.
    ordered = sorted(table.every, key=lambda one: one.episode.id or "")
    every = Transitions.collect(
        [one.episode for one in ordered], None, layout.features, layout.actions
    )
    told = every.without(np.concatenate([one.guesses for one in ordered]))
    measured = [place for place, one in enumerate(layout.schema.components) if one.size is None]
    transitions = told.plausible(measured)
    scaling, learner = layout.scaling(table), _learner(settings, len(transitions))
    found: dict[str, LearnedSCM] = {}
    options: dict[str, Any] = dict(settings)
    if learner != "neural":
        own: Any = {key: options[key] for key in ("seed", "members") if key in options}
        found["smooth"] = SmoothSCM.fit(transitions, **own, fixed=layout.fixed, scaling=scaling)
    if learner != "smooth":
        own = {key: options[key] for key in ("seed", *NETWORKS) if key in options}
        training = Training(scaling=scaling)
        if learner == "auto":
            own = {"lipschitz": None, **own}
        network = NeuralSCM.fit(transitions, **own, fixed=layout.fixed, training=training)
        found["neural"] = network
    scm, why = _chosen(found, "learner" in settings)
    log.info("fitted a %s model to %d transitions", scm.kind, len(transitions))
    scm = replace(scm, about={**scm.about, "training": {**scm.about["training"], **why}})
    if not layout.doses:
        chosen = every.actions[:, : len(layout.choices.columns)]
        layout.counts = np.bincount(layout.choices.cells(chosen), minlength=len(layout.choices))
        scm = replace(scm, about={**scm.about, ACTIONS: layout.occurring()})
    if apart := layout.set_apart(table):
        scm = replace(scm, about={**scm.about, IMPLAUSIBLE: apart})
    if not support:
        return scm
    return replace(scm, seen=collect_seen(transitions, scm.scaling, settings.get("seed", 0)))


def _learner(settings: LearnerSettings, transitions: int) -> str:
    """What to learn with; settings of networks are for networks."""
    usual = "auto" if transitions >= MANY and find_spec("jax") else "smooth"
    implied = "neural" if any(key in settings for key in NETWORKS) else usual
    learner = settings.get("learner", implied)
    if learner not in LEARNERS:
        raise InputError(f"unknown learner {learner!r}: use one of {', '.join(LEARNERS)}")
    return learner


def persistent(scm: LearnedSCM, layout: SchemaLayout) -> list[Finding]:
    """Features whose unexplained part stays with an episode: something is not in the table."""
    found, moving = [], layout.features[layout.fixed :]
    for name, shares in zip(moving, scm.about["training"].get("effects", ()), strict=False):
        if (total := sum(shares.values())) < NOTABLE:
            continue
        ways = [
            f"{share:.0%} {'as a level of its own' if way == 'level' else f'with {way}'}"
            for way, share in sorted(shares.items(), key=lambda item: -item[1])
        ]
        text = (
            f"{min(total, 1.0):.0%} of what the model leaves unexplained stays with the episode "
            f"({', '.join(ways)}): episodes differ in something that no column tells. It is read "
            "off each episode's own course; a column for it would make answers surer, and if it "
            "also guided the actions, improvements are biased"
        )
        found.append(Finding(WARNING, "persistence", name, text, scm.about["training"]["episodes"]))
    return found


def _chosen(found: Mapping[str, LearnedSCM], is_asked: bool) -> tuple[LearnedSCM, dict[str, Any]]:
    """The model to use, with what was tried and why it is this one, in a sentence."""
    if len(found) == 1:
        ((kind, scm),) = found.items()
        if kind == "neural" or is_asked:
            return scm, {"chosen": f"{kind}: asked for"}
        return scm, {
            "chosen": f"smooth: the default; networks were not tried, which were never better "
            f"with fewer than {MANY:,} transitions (--learner auto tries both)"
        }
    tried = {kind: one.held_out_loss for kind, one in found.items()}
    ahead = (tried["smooth"] - tried["neural"]) / len(found["smooth"].noise_cholesky)
    kind = "neural" if ahead > CLEARLY else "smooth"
    by = "better than smooth" if ahead > 0.0 else "worse than smooth"
    return found[kind], {
        "tried_nll": tried,
        "chosen": f"{kind}: networks predict held-out episodes {abs(ahead):.3f} nats per feature "
        f"{by}, and count from {CLEARLY} on",
    }


def poor_fit(scm: LearnedSCM) -> str | None:
    """Which simple model fits clearly better than this one, with its log-likelihood; None if none
    does."""
    record = scm.about["training"]
    worst = scm.held_out_loss - TOLERATED_LOSS * len(scm.noise_cholesky)
    for kind, name in (
        ("constant", "a constant, which looks at neither states nor actions,"),
        ("linear", "linear regression"),
    ):
        reference = record["reference_nll"][kind]
        if reference < worst:
            return f"{name} fits the held-out episodes better ({-reference:.3f} nats)"
    return None


def fit_discrete(path: Any, schema: Schema, settings: FitSettings) -> Fit:
    """Estimate a tabular model from a table with discrete states."""
    layout = SchemaLayout(schema)
    assert layout.states is not None
    check_reward(schema)
    S, A = len(layout.states), len(layout.choices)
    if S * (A + 1) * S > LARGEST_TABLE:
        raise FileError(
            f"the columns of the schema combine to {S:,} states and {A:,} actions, "
            "too many for memory; use fewer columns, or fewer levels"
        )
    names = replace(
        settings, state_labels=layout.states.names(), action_labels=layout.choices.names()
    )
    with open_table(path, schema) as table:
        try:
            return _fit_tabular(table, table.parts(), layout, names)
        except FileError:
            raise
        except InputError as problem:
            raise FileError(f"{table.path}: {problem}") from None


def doubtful_costs(table: CheckedTable) -> list[str]:
    """A line for each column that is named like a cost, but counts as something good."""
    return [
        f"warning: column {column.name!r} is named like a cost and never below 0, but more of it "
        'counts as better: write role = "cost" in the schema (or better = "higher", if so)'
        for column in table.schema.of("reward")
        if column.better is None and is_cost_name(column.name) and table.lowest[column.name] >= 0
    ]


def _fit_tabular(
    table: CheckedTable,
    parts: Iterable[Sequence[Recorded]],
    layout: SchemaLayout,
    settings: FitSettings,
) -> Fit:
    """The model of a table and its episodes; one that is plain has no schema to remember."""
    rewards, is_plain = _Rewards(table, layout, settings.mean_rewards), table.schema.is_plain

    guessed: list[IntArray] = []

    def episodes() -> Iterator[Episode]:
        for part in parts:
            rewards.add(part)
            for one in part:
                if (steps := np.flatnonzero(one.guesses)).size:
                    s, a = one.episode.states, one.episode.actions
                    guessed.append(np.stack([s[steps], a[steps], s[steps + 1]]))
                yield one.episode

    counts = count_transitions(episodes(), *rewards.shape)
    filled = np.concatenate([np.zeros((3, 0), dtype=np.int64), *guessed], axis=1)
    steps = filled.shape[1], int(counts.transitions.sum())
    gaps = list(filled_gaps(*steps))
    if can_spare(*steps):  # a carried state looks as if no action did anything
        np.subtract.at(counts.transitions, tuple(filled), 1)
    A, has_last = len(layout.choices), not is_plain and counts.visits[:, -1].any()
    if not has_last:  # every row has an action
        counts = TransitionCounts(counts.transitions[:, :A], counts.visits[:, :A], counts.starts)
    actions = settings.action_labels
    model = estimate_mdp(
        counts,
        rewards.table(counts.visits, settings.bar_unobserved),
        prior=_prior(layout, settings.prior),
        # Nobody can choose that an episode ends.
        admissible=np.tile(np.arange(A + 1) < A, (len(counts.visits), 1)) if has_last else None,
        state_labels=settings.state_labels,
        action_labels=[*(actions or ()), NO_ACTION] if has_last else actions,
    )
    log.info("fitted %d states and %d actions to %d steps", *model.rewards.shape, steps[1])
    found = [*discrete_findings(counts.visits, layout), *gaps]
    about: dict[str, object] = {}
    known = model.with_data(counts.visits) if settings.support else model.without_data()
    if not is_plain:
        layout.counts = counts.visits[:, :A].sum(axis=0)
        about |= {SCHEMA: table.schema.as_dict(), MEANS: dict(table.means)}
        about[ACTIONS], about[FINDINGS] = layout.occurring(), [asdict(one) for one in found]
        final, more = _ends(model, layout, counts, rewards.last)
        about |= more
        about[REMARKS] = [*doubtful_costs(table), *more[REMARKS]]
        known = known.with_rewards(model.rewards, final)
    return Fit(known.with_data(about=about), table.summary(), layout, found, counts)


def _ends(
    mdp: TabularMDP, layout: SchemaLayout, counts: TransitionCounts, last: list[Recorded]
) -> tuple[FloatArray | None, dict[str, Any]]:
    """What the last state earns at the end, (S,), or with what usually follows (S, A); and what to
    remember about it."""
    schema, remarks = layout.schema, list[str]()
    ends = [end_by_state(column, last, mdp.n_states, remarks) for column in schema.finals]
    horizon = max(1, int(counts.visits.sum() / counts.starts.sum()) // 2)
    columns = [asdict(one) for one in ends]
    about = {ENDS: {"horizon": horizon, "columns": columns}, REMARKS: remarks}
    merits = [column.merit for column in schema.finals]
    found = np.dot(merits, [one.mean for one in ends]) if ends else np.zeros(mdp.n_states)
    if schema.final != VALUE:
        return found if ends else None, about
    A = len(layout.choices)
    value = values_ahead(mdp, counts.visits, A, horizon)[-1]
    ahead = expected_after(mdp, value)
    # Where nothing is done any more the state itself goes on, which has been counted already.
    ahead[:, A:] = value[:, None] - mdp.rewards[:, A:]
    return np.asarray(found[:, None] + ahead), about


def _prior(layout: SchemaLayout, prior: float | None) -> float | FloatArray:
    """Pseudo-counts; none for transitions that change what is fixed."""
    assert layout.states is not None
    S, moving = len(layout.states), layout.states.sizes[layout.fixed :]
    if prior is not None and not layout.fixed:
        return prior
    if prior is None and len(moving) > 1:
        raise InputError("the neighbour prior is for one state column, with ordered levels")
    base = neighbour_prior(S) if prior is None else np.full((S, S), prior)
    group = np.arange(S) // int(np.prod(moving))
    return np.where(group[:, None] == group, base, 0.0)


class _Rewards:
    """R(s, a) of a table with discrete states, episode by episode."""

    def __init__(self, table: CheckedTable, layout: SchemaLayout, mean: bool) -> None:
        """`mean`: average where a pair earned different amounts, else that is an error."""
        assert layout.states is not None
        self._file, self._layout, self._states, self._mean = table, layout, layout.states, mean
        # The last action stands for none, in the last row of an episode.
        self.shape = len(layout.states), len(layout.choices) + (not table.schema.is_plain)
        self._sums = np.zeros(self.shape)
        # What each pair earned first, and in which row.
        self._first = np.full(self.shape, np.nan)
        self._rows = np.zeros(self.shape, dtype=np.int64)
        # Episodes of the last step each, where the end counts.
        self.last: list[Recorded] = []

    def add(self, part: Sequence[Recorded]) -> None:
        """Take down what the steps of some episodes earned."""
        schema = self._file.schema
        if schema.finals:
            for one in part:
                end = Episode(one.episode.states[-1:], one.episode.actions[-1:], id=one.episode.id)
                self.last.append(Recorded(end, one.times[-1:], outcomes=one.outcomes))
        if not schema.rewards:
            return
        pairs = states, actions = (
            np.concatenate([one.episode.states for one in part]),
            np.concatenate([one.episode.actions for one in part]),
        )
        given = np.concatenate([one.rewards for one in part if one.rewards is not None])
        rows = np.concatenate([one.rows for one in part if one.rows is not None])
        # A row without an action earns nothing.
        earned = np.where(np.isnan(given), 0.0, given)
        if self._mean:
            np.add.at(self._sums, pairs, earned)
            return
        # From back to front, so that the first of several stays.
        new = np.flatnonzero(np.isnan(self._first[pairs]))[::-1]
        self._first[states[new], actions[new]] = earned[new]
        self._rows[states[new], actions[new]] = rows[new]
        differing = np.flatnonzero(self._first[pairs] != earned)
        if differing.size:
            at, place = int(differing[0]), self._file.place
            s, a = int(states[at]), int(actions[at])
            name = self._layout.action_name(a)
            raise FileError(
                f"{self._file.path}, {place(int(rows[at]))}: state {self._state(s)}, action "
                f"{name if schema.is_plain else repr(name)} earned {earned[at]:g}, but "
                f"{self._first[s, a]:g} in {place(int(self._rows[s, a]))}; a reward must depend on "
                "state and action only, or be averaged (--mean-rewards)"
            )

    def _state(self, state: int) -> str:
        name = self._states.name(state)
        return name if self._file.schema.is_plain else repr(name)

    def table(self, visits: IntArray, bar_unobserved: bool) -> FloatArray:
        """(S, A) the rewards; pairs that were never seen are barred, or earn their state's mean."""
        A, seen = visits.shape[1], visits > 0
        # From here on actions stand for none.
        idle, has_columns = len(self._layout.choices), bool(self._file.schema.rewards)
        if not has_columns:
            known = np.zeros(visits.shape)
        elif self._mean:
            known = self._sums[:, :A] / np.maximum(visits, 1)
        else:
            known = np.where(seen, self._first[:, :A], 0.0)
        merits = self._layout.merits[:, None] if self._layout.has_merit else 0.0
        if bar_unobserved:
            return np.where(seen | (np.arange(A) >= idle), known + merits, -np.inf)
        if not has_columns:
            return known + merits
        never = np.flatnonzero(~seen.any(axis=1))
        if never.size:
            raise FileError(
                f"{self._file.path}: state {self._state(int(never[0]))} never occurs, so nothing "
                "is known about its rewards; number the states without gaps, or bar what was never "
                "seen (leave out --value-unobserved)"
            )
        means = known[:, :idle].sum(axis=1) / np.maximum(seen[:, :idle].sum(axis=1), 1)
        filled = np.where(seen, known, means[:, None])
        filled[:, idle:] = 0.0
        return filled + merits
