"""What results and models look like in a notebook: their summary, their table, their figure.

`core.shown` hands over to this room when somebody asks: `summary`, `frame`, `plot` and `html` of
every kind of result, one entry each in `LOOKS`. Nothing is fetched from a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from counterplan import viz
from counterplan.core.result import Explanation, Frontier, Status
from counterplan.core.shown import Drawn, Summary
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError, counted
from counterplan.viz.explained import is_policy, is_sequence
from counterplan.viz.labels import Labels, labels_of, labels_of_run, moves_of
from counterplan.viz.quantity import Claim, Quantity, beyond, claim_of, share

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from counterplan.planning.description import Axes

# Values of a column that a schema's summary lists.
MOST_LISTED = 6
# States that a figure of rewards names.
MOST_PAYING = 12


class Look(NamedTuple):
    """How one kind of thing is summed up, tabled and drawn."""

    summary: Callable[[Any], Summary]
    frame: Callable[[Any], pl.DataFrame]
    plot: Callable[..., Figure] | None = None


def summary(thing: Any) -> Summary:
    """What is to be said about it, in words."""
    return _look(thing).summary(thing)


def frame(thing: Any) -> pl.DataFrame:
    """It as a table."""
    return _look(thing).frame(thing)


def plot(thing: Any, **options: Any) -> Figure:
    """The figure that fits it."""
    draw = _look(thing).plot
    assert draw is not None  # only what is `Drawn` has `plot`
    return draw(thing, **options)


def html(thing: Any) -> str:
    """The summary, with the figure below it where there is one to draw."""
    found = summary(thing)._repr_html_()
    if not isinstance(thing, Drawn):
        return found
    from counterplan.viz.style import svg_bytes

    try:
        drawn = quote(svg_bytes(plot(thing)).decode())
    except InputError:  # nothing to draw, such as a model that was never held against data
        return found
    return f'{found}<img alt="figure" src="data:image/svg+xml,{escape(drawn)}">'


def _look(thing: Any) -> Look:
    """Kinds are told by their names: what is not loaded is not what is looked at."""
    for kind in type(thing).__mro__:
        if kind.__name__ in LOOKS:
            return LOOKS[kind.__name__]
    raise InputError(f"a {type(thing).__name__} has no summary")


def _table(columns: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(columns, strict=False)


# --- Explanations -----------------------------------------------------------------------------


def _labels(found: Explanation) -> Labels:
    """The names of the model's schema, or numbers."""
    if is_policy(found):
        return labels_of(found.process.setting.mdp)
    vectors = np.asarray(found.problem.actions, dtype=object) if is_sequence(found) else None
    plain = vectors is not None and vectors.ndim == 2
    actions = vectors.astype(np.float64) if vectors is not None and plain else np.zeros((0, 0))
    try:
        known = labels_of(found.problem.scm)  # type: ignore[attr-defined]
    except (InputError, AttributeError):
        names = (f"feature {i}" for i in range(np.shape(found.episode.states)[1]))
        return Labels.named([*names], [f"dose {i}" for i in range(actions.shape[1])], actions)
    if actions.shape[1:] == known.actions.shape[1:]:
        return replace(known, actions=actions)
    return known


def _claim(found: Explanation) -> Claim:
    """How sure an improvement is: by members, by causal models, or not at all."""
    if found.interval is None:
        return Claim(found.improvement)
    if found.harm is not None:
        return Claim(found.improvement, *found.interval, found.harm)
    low, high = (beyond(end, found.factual_value) for end in found.interval)
    return Claim(found.improvement, low, high, is_causal=True)


def _rests_on(found: Explanation) -> Iterator[tuple[str, str]]:
    model = found.process.setting.mdp if is_policy(found) else None
    if is_sequence(found):
        scm, risk = found.problem.scm, found.problem.risk
        members = len(getattr(scm, "members", ())) if risk is not None else 0
        many = ""
        if members and risk:
            worst = f"; the mean over the worst {share(risk)} of them was optimised"
            many = f" with {members} members{worst if risk < 1.0 else ''}"
        yield "rests on", f"{type(scm).__name__}{many}"
    elif model is not None:
        yield "rests on", f"a Gumbel-Max causal model of {counted(model.n_states, 'state')} and " \
            f"{counted(model.n_actions, 'action')}"  # fmt: skip
    else:
        yield "rests on", "the path that was realised, and the problem as it is stated"
    supported = found.support.supported  # type: ignore[attr-defined]
    if supported is not None:
        new = found.support.new_actions  # type: ignore[attr-defined]
        none = f"; {counted(new, 'change')} to what was hardly ever done there" if new else ""
        yield "data", "there is data under all of it" if supported else f"leaves the data{none}"
    if found.rule:
        yield "kept inside", found.rule


def _changes(found: Explanation) -> list[tuple[str, str]]:
    """(step, what is done instead), a row for each dose."""
    if not (is_policy(found) or is_sequence(found)):
        both = zip(found.observed, found.actions, strict=True)  # type: ignore[attr-defined]
        words = [" → ".join(map(_in_words(found), done)) for done in both]
        return [(f"{one.t}", words[one.t]) for one in found.changes]
    return [
        (f"{one.t}", f"{one.what}: {one.text or f'{one.before:g} → {one.after:g}'}")
        for one in moves_of(found.changes, _labels(found))
    ]


def _amounts(values: Any) -> str:
    return ", ".join(f"{one:.4g}" for one in np.atleast_1d(values))


def _expected(found: Explanation) -> float:
    """The outcome with the changes: the mean, where the mean of the worst was sought."""
    sign = 1.0 if found.sense == "max" else -1.0
    expected = found.factual_value + sign * found.improvement
    return found.value if np.isnan(expected) else expected


def _explanation(found: Explanation) -> Summary:
    quantity, claim = _quantity(found), _claim(found)
    closed = found.status == Status.OPTIMAL
    gap = "" if closed else f" Between value and bound: {quantity.write(found.gap)}."
    facts = [
        ("outcome", f"{quantity.label}, {'higher' if found.sense == 'max' else 'lower'} is better"),
        ("as it was", quantity.write(found.factual_value)),
        ("with changes", quantity.write(_expected(found))),
        ("improvement", quantity.write_gain(found.improvement)),
        *(("-inf because", one) for one in getattr(found, "barred", ())),
    ]
    if is_policy(found) or is_sequence(found):
        facts.append(("how sure", claim.sentence(quantity, found.factual_value)))
    facts += [*_rests_on(found), ("search by it", f"{found.status.advice}{gap}")]
    rows = _changes(found)
    name = found.episode.id or "the episode"
    title = f"What should have been done in {name}, with at most {counted(found.k, 'change')}"
    if not rows:
        none = "none was allowed" if not found.k else "none helps"
        stopped = found.status != Status.OPTIMAL
        facts.append(("changes", "none was found before the search ended" if stopped else none))
    return Summary(title, facts, ("step", "instead"), rows)


def _quantity(found: Explanation) -> Quantity:
    """What its outcome is."""
    return _labels(found).quantity if is_policy(found) or is_sequence(found) else _worth(found)


def _explanation_frame(found: Explanation) -> pl.DataFrame:
    """A row for each step, with the columns of a run's trajectories."""
    count = len(found.episode)
    columns: dict[str, Any] = {"t": np.arange(count)}
    changed = np.zeros(count, dtype=bool)
    changed[[one.t for one in found.changes]] = True
    columns["changed"] = changed
    both: Any = found
    for side, states, actions in (
        ("", found.episode.states, both.observed if hasattr(found, "observed") else None),
        ("counterfactual_", both.states, both.actions),
    ):
        acts = np.asarray(found.episode.actions if actions is None else actions)
        states = np.asarray(states)
        if states.ndim == 1:
            columns[f"{side}state"] = states
        else:
            names = _feature_names(found, states.shape[1])
            columns |= {f"{side}state:{one}": states[:, i] for i, one in enumerate(names)}
        none = [None] * (count - len(acts))
        if (doses := _doses(found, acts)) is None:
            columns[f"{side}action"] = [*acts.tolist(), *none]
        else:
            columns |= {f"{side}action:{one}": [*each, *none] for one, each in doses.items()}
        if is_policy(found):
            mdp = found.process.setting.mdp
            for kind, known, numbers, name in (
                ("state", mdp.state_labels, states, mdp.state_name),
                ("action", mdp.action_labels, acts, mdp.action_name),
            ):
                if known is not None:
                    columns[f"{side}{kind}_label"] = [name(int(one)) for one in numbers]
    return _table(columns)


def _doses(found: Explanation, acts: Any) -> dict[str, list[float]] | None:
    """What was given at each step, by name; None where actions are no doses that are known."""
    if is_policy(found):
        return None
    if not is_sequence(found):
        return dict(zip(_axes(found).actions, acts.T.tolist(), strict=True))
    known = _labels(found)
    if acts.ndim == 1 and not len(known.actions):
        return None
    vectors = acts if acts.ndim == 2 else known.actions[acts]
    if len(known.doses) != vectors.shape[1]:
        return None
    return {one.name: vectors[:, i].tolist() for i, one in enumerate(known.doses)}


def _feature_names(found: Explanation, count: int) -> list[str]:
    if is_sequence(found):
        return [one.name for one in _labels(found).features]
    return [*_axes(found).observed, *_axes(found).levels][:count]


def _axes(found: Any) -> Axes:
    """What the numbers of the problem are called that was decided about."""
    from counterplan.planning.description import axes_of

    return axes_of(found.problem)


def _draw_explanation(found: Any, **options: Any) -> Figure:
    if is_sequence(found):
        return viz.trajectory_figure(found, _labels(found), **options)
    if is_policy(found):
        return viz.outcome_figure(found, quantity=_labels(found).quantity, **options)
    return viz.path_figure(found)


def _numbers(found: Explanation) -> dict[str, Any]:
    claim = _claim(found)
    return {
        "k": found.k,
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "status": str(found.status),
        "improvement": found.improvement,
        "improvement_low": claim.low,
        "improvement_high": claim.high,
        "harm": found.harm,
        "n_changes": len(found.changes),
    }


def _frontier_frame(found: Frontier[Any]) -> pl.DataFrame:
    rows = [_numbers(one) for one in found]
    return _table({name: [row[name] for row in rows] for name in (rows or [{}])[0]})


def _frontier(found: Frontier[Any]) -> Summary:
    title = f"What each number of changes up to {len(found) - 1} would have brought"
    first = found[0]
    known, quantity = is_policy(first) or is_sequence(first), _quantity(first)
    rows = []
    for one in found:
        claim = _claim(one)
        then = quantity.write(_expected(one))
        cells = [f"{one.k}", then, quantity.write_gain(one.improvement)]
        verdict = claim.verdict if known else ""
        rows.append([*cells, claim.interval(quantity), verdict, str(one.status)])
    better = "higher" if first.sense == "max" else "lower"
    facts = [("outcome", f"{quantity.label}, {better} is better"),
             ("as it was", quantity.write(first.factual_value))]  # fmt: skip
    heads = ("k", "with changes", "improvement", "interval", "", "search")
    return Summary(title, facts, heads, rows)


def _draw_frontier(found: Frontier[Any], **options: Any) -> Figure:
    return viz.frontier_figure(found, quantity=_quantity(found[0]), **options)


# --- Runs and answers -------------------------------------------------------------------------


def _cases(
    title: str, rows: list[dict[str, Any]], facts: list[tuple[str, str]], quantity: Quantity
) -> Summary:
    """What all cases come to, and the first of them."""
    done = [row for row in rows if row["status"] != "failed"]
    claims = [claim_of(row) for row in done]
    facts += [
        ("explained", f"{len(done):,} of {len(rows):,}"),
        ("proved optimal", f"{sum(row['status'] == 'optimal' for row in done):,} searches"),
        ("established", f"{sum(one.is_established for one in claims):,} improvements"),
    ]
    order = sorted(range(len(done)), key=lambda i: -_least(claims[i]))
    shown = [
        [
            str(done[i]["episode_id"]), f"{done[i]['k']}", quantity.write(done[i]["factual"]),
            quantity.write_gain(claims[i].mean), claims[i].interval(quantity), claims[i].verdict,
        ]
        for i in order
    ]  # fmt: skip
    heads = ("episode", "k", "as it was", "improvement", "interval", "")
    return Summary(title, facts, heads, shown)


def _least(claim: Claim) -> float:
    return -np.inf if claim.low is None else claim.low


def _run(run: Any) -> Summary:
    from counterplan.runs.task import REGRET

    made = run.manifest
    state = "complete" if made.complete else f"{len(run.done)} of {made.parts} parts done"
    facts = [("folder", str(run.folder)), ("state", state)]
    title = f"A run of {'plan' if run.kind == REGRET else run.kind}"
    if not run.done:
        return Summary(title, facts)
    rows = run.results().collect().to_dicts()
    if run.kind != REGRET:
        quantity = labels_of_run(run.model, run.explainer.layout).quantity
        facts.append(("outcome", f"{quantity.label}, higher is better"))
        return _cases(title, [row for row in rows if row["k"] == run.budgets[-1]], facts, quantity)
    quantity = _worth(run)
    facts.append(("scenarios", f"{len(rows):,}"))
    for name, words in (
        ("executed", "paid" if quantity.name == "cost" else "earned"),
        ("hindsight", "best in hindsight"),
        ("expected_regret", "lost in expectation"),
    ):
        known = [one[name] for one in rows if one.get(name) is not None]
        if known:
            facts.append((words, f"{quantity.with_unit(float(np.mean(known)))} on average"))
    return Summary(title, facts)


def _draw_run(run: Any, k: int | None = None) -> Figure:
    from counterplan.runs.task import REGRET

    if run.kind != REGRET:
        quantity = labels_of_run(run.model, run.explainer.layout).quantity
        done = run.results(run.budget(k)).remove(status="failed")
        return viz.cohort_figure(done, quantity=quantity)
    lost = run.results().select("regret_hindsight").drop_nulls().collect()
    unit = _worth(run).unit
    return _histogram(lost.to_series().to_numpy(), Quantity("lost against hindsight", unit=unit))


def _histogram(values: Any, quantity: Quantity) -> Figure:
    """How often what came out, and the mean."""
    from matplotlib.ticker import MaxNLocator

    from counterplan.viz import style

    if not len(values):
        raise InputError("plot: there is nothing to draw yet")
    figure, axes = style.new_axes(4.6, 2.8)
    axes.hist(values, bins=20, color=style.FULL, edgecolor="white", linewidth=0.6)
    axes.axvline(float(np.mean(values)), color=style.INK, linewidth=1.2, label="mean")
    style.label_quantity(axes, "x", quantity, 3.8)
    axes.set_ylabel("how many")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_above(figure)
    return figure


def _answered(found: Any) -> Quantity:
    """What the outcome of answers is."""
    known = (one.explanation for one in found if one.explanation is not None)
    first = next(known, None)
    return Quantity() if first is None else _quantity(first)


def _answers(found: Any) -> Summary:
    quantity = _answered(found)
    facts = [("outcome", f"{quantity.label}, higher is better")]
    return _cases("Explained episodes", [one.row() for one in found], facts, quantity)


def _answers_frame(found: Any) -> pl.DataFrame:
    from counterplan.runs.answer import results_table

    named = dict.fromkeys(name for one in found for name, _ in one.recorded.outcomes)
    return results_table(found, [*named])


def _draw_answers(found: Any) -> Figure:
    rows = [one.row() for one in found if one.status != "failed"]
    return viz.cohort_figure([claim_of(row) for row in rows], quantity=_answered(found))


# --- Models and schemas -----------------------------------------------------------------------


def _tabular(model: Any) -> Summary:
    mdp = getattr(model, "mdp", model)
    seen = "" if mdp.visits is None else f", estimated from {int(mdp.visits.sum()):,} decisions"
    rewards = mdp.rewards[np.isfinite(mdp.rewards)]
    facts = [
        ("states", f"{mdp.n_states:,}"),
        ("actions", f"{mdp.n_actions:,}{_some(mdp.action_labels)}"),
        ("rewards", f"{rewards.min():.4g} to {rewards.max():.4g}" if rewards.size else "none"),
        ("causal model", "Gumbel-Max" if hasattr(model, "mdp") else "none: probabilities alone"),
    ]
    return Summary(f"{type(model).__name__}{seen}", facts)


def _some(names: Sequence[str] | None) -> str:
    if not names:
        return ""
    return f": {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def _tabular_frame(model: Any) -> pl.DataFrame:
    """A row for each transition that is possible."""
    mdp = getattr(model, "mdp", model)
    rows, pairs = mdp.row_of.ravel(), np.indices(mdp.row_of.shape).reshape(2, -1)
    sizes = np.diff(mdp.rows.indptr)[rows]
    # Of every pair: where its row starts, and how far into it.
    places = np.repeat(mdp.rows.indptr[rows] - np.cumsum(sizes) + sizes, sizes)
    places = places + np.arange(len(places))
    state, action = (np.repeat(one, sizes) for one in pairs)
    states = np.array([mdp.state_name(one) for one in range(mdp.n_states)])
    actions = np.array([mdp.action_name(one) for one in range(mdp.n_actions)])
    return _table({
        "state": states[state],
        "action": actions[action],
        "next_state": states[mdp.rows.indices[places]],
        "probability": mdp.rows.probabilities[places],
        "reward": mdp.rewards[state, action],
    })  # fmt: skip


def _draw_tabular(model: Any) -> Figure:
    """What each action earns in each state; where few of many states earn anything, in these."""
    from matplotlib.ticker import MaxNLocator

    from counterplan.viz import style

    mdp = getattr(model, "mdp", model)
    paying = np.flatnonzero((mdp.rewards != 0.0).any(axis=1))
    few = 0 < len(paying) <= MOST_PAYING < mdp.n_states
    rewards = mdp.rewards[paying] if few else mdp.rewards
    figure, axes = style.new_axes(4.6, 3.2)
    axes.grid(visible=False)
    shades = axes.imshow(np.where(np.isfinite(rewards), rewards, np.nan), aspect="auto",
                         interpolation="nearest", cmap="cividis")  # fmt: skip
    for axis, name in ((axes.xaxis, "action"), (axes.yaxis, "state")):
        axis.set_major_locator(MaxNLocator(8, integer=True))
        axis.set_label_text(name)
    if few:  # zero is what all others earn
        finite = rewards[np.isfinite(rewards)]
        shades.set_clim(finite.min(initial=0.0), finite.max(initial=0.0))
        axes.set_yticks(range(len(paying)), [style.literal(mdp.state_name(i)) for i in paying])
        axes.set_ylabel(f"states that earn or cost, of {mdp.n_states:,}")
    figure.colorbar(shades, ax=axes, label="reward")
    return figure


def _learned(model: Any) -> Summary:
    record = model.about.get("training", {})
    names = model.about.get("features") or ()
    facts = [
        ("features", f"{model.location.widths[0]:,}{_some(names)}"),
        ("of them fixed", f"{model.fixed:,}"),
        (
            "actions",
            counted(model.location.widths[1], "number") + _some(model.about.get("actions")),
        ),
    ]
    if many := len(getattr(model, "members", ())):
        facts.append(("members", f"{many:,}"))
    if record.get("episodes"):
        facts.append(("learned from", counted(int(record["episodes"]), "episode")))
    if record.get("chosen"):
        facts.append(("chosen", str(record["chosen"])))
    facts += [("note", str(one)) for one in model.about.get("remarks", ())]
    return Summary(type(model).__name__, facts)


def _learned_frame(model: Any) -> pl.DataFrame:
    """The features: whether they move, and between what."""
    scaling = model.scaling
    count = scaling.widths[0] if scaling is not None else model.location.widths[0]
    limits = np.full((count, 2), np.nan)
    if model.limits is not None:
        limits[count - len(model.limits) :] = model.limits
    names = model.about.get("features") or [f"{i}" for i in range(count)]
    return _table({"feature": [*names], "fixed": np.arange(count) < model.fixed,
                   "lowest": limits[:, 0], "highest": limits[:, 1]})  # fmt: skip


def _draw_learned(model: Any) -> Figure:
    return viz.calibration_figure(model)


def _stated(model: Any) -> Summary:
    """A causal model that somebody wrote."""
    said = (type(model).__doc__ or "").strip().splitlines()
    return Summary(type(model).__name__, [("is", said[0])] if said else [])


def _no_frame(model: Any) -> pl.DataFrame:
    raise InputError(f"a {type(model).__name__} is made of functions: there is no table of it")


def _schema(schema: Any) -> Summary:
    rows = [
        [one.name, one.role, one.unit, one.better or "", _may_hold(one)] for one in schema.columns
    ]
    facts = [
        ("episode", schema.episode),
        ("time", f"{schema.time}, a step is {schema.step:g} {schema.unit or 'long'}"),
        ("states", schema.kind),
    ]
    heads = ("column", "role", "unit", "better", "values")
    return Summary("Schema of a table", facts, heads, rows)


def _may_hold(column: Any) -> str:
    """Its names, its levels, or its range."""
    if listed := column.labels or tuple(f"{one:g}" for one in column.levels or ()):
        return ", ".join([*listed[:MOST_LISTED], *["..."] * (len(listed) > MOST_LISTED)])
    ends = (("from", column.low), ("to", column.high))
    return " ".join(f"{word} {end:g}" for word, end in ends if end is not None)


def _schema_frame(schema: Any) -> pl.DataFrame:
    listed = [
        (one.name, one.role, one.unit, one.better, [f"{value:g}" for value in one.values or ()],
         [*map(str, one.labels or ())])
        for one in schema.columns
    ]  # fmt: skip
    heads = ("column", "role", "unit", "better", "values", "labels")
    return _table(dict(zip(heads, map(list, zip(*listed, strict=True)), strict=True)))


# --- Plans ------------------------------------------------------------------------------------


def _plan(plan: Any) -> Summary:
    write, in_words = Quantity().write, _in_words(plan)
    facts = [
        ("do", in_words(plan.action) if plan.action.size else "nothing is left to decide"),
        ("value", f"{_worth(plan).with_unit(plan.value)}, standard error {write(plan.se)}"),
        ("by", plan.planner),
        ("status", f"{plan.status}: {plan.status.advice}"),
    ]
    if plan.bounds is not None:
        errors = (None, None) if plan.bounds_se is None else plan.bounds_se
        for words, end, error in zip(("at least", "at most"), plan.bounds, errors, strict=True):
            if np.isfinite(end):
                off = f", standard error {write(error)}" if error else ""
                facts.append((words, f"{_worth(plan).with_unit(end)}{off}"))
    if plan.basis:
        facts.append(("stands on", plan.basis))
    order = np.argsort(-plan.visits, kind="stable")
    rows = [
        [in_words(plan.actions[i]), write(plan.values[i]), write(plan.values_se[i]),
         f"{plan.visits[i]:,}"]
        for i in order
    ]  # fmt: skip
    return Summary("A decision", facts, ("action", "value", "error", "simulations"), rows)


def _worth(found: Any) -> Quantity:
    """What values are, of whatever knows the problem that was decided about."""
    from counterplan.planning.description import axes_of

    if found.problem is None:
        return Quantity("value")
    is_cost = found.problem.sense == "min"
    return Quantity("cost" if is_cost else "value", unit=axes_of(found.problem).unit)


def _in_words(found: Any) -> Callable[[FloatArray], str]:
    """What actions say to do; their numbers where the problem is not known."""
    from counterplan.planning.description import action_in_words

    return _amounts if found.problem is None else partial(action_in_words, found.problem)


def _plan_frame(plan: Any) -> pl.DataFrame:
    from counterplan.planning.description import axes_of

    chosen = np.arange(len(plan.actions)) == plan.index
    found = {"value": plan.values, "error": plan.values_se, "simulations": plan.visits}
    names = () if plan.problem is None else axes_of(plan.problem).actions
    if len({*names, *found, "chosen"}) < plan.actions.shape[1] + 4:  # none are known, or some twice
        names = tuple(f"action {i}" for i in range(plan.actions.shape[1]))
    amounts = dict(zip(names, plan.actions.T, strict=True))
    return _table({**amounts, **found, "chosen": chosen})


def _draw_plan(plan: Any) -> Figure:
    """What each action is worth, with its error; the one chosen in colour. Of several amounts the
    actions are written out."""
    from counterplan.viz import style

    tried = np.flatnonzero(np.isfinite(plan.values))
    if not tried.size:
        raise InputError("plot: no action was tried here, so there is nothing to compare")
    errors = 1.96 * np.where(np.isfinite(plan.values_se[tried]), plan.values_se[tried], 0.0)
    shades = [style.FULL if i == plan.index else style.SOFT_INK for i in tried]
    worth = _worth(plan).label
    look: dict[str, Any] = {"fmt": "none", "ecolor": style.MUTED, "label": "95 % of its error"}
    if plan.actions.shape[1] > 1:
        words, rows = _in_words(plan), np.arange(len(tried))
        figure, axes = style.new_axes(5.6, max(2.2, 0.9 + 0.24 * len(tried)), grid="x")
        axes.errorbar(plan.values[tried], rows, xerr=errors, **look)
        axes.scatter(plan.values[tried], rows, c=shades, zorder=3)
        axes.set_yticks(rows, [style.literal(words(plan.actions[i])) for i in tried])
        axes.invert_yaxis()
        axes.set_xlabel(worth)
    else:
        figure, axes = style.new_axes(5.0, 2.8)
        places = plan.actions[tried, 0]
        axes.errorbar(places, plan.values[tried], yerr=errors, **look)
        axes.scatter(places, plan.values[tried], c=shades, zorder=3)
        axes.set_xlabel("action" if plan.problem is None else _axes(plan).actions[0])
        axes.set_ylabel(worth)
    style.legend_above(figure)
    return figure


def _evaluation(found: Any) -> Summary:
    write = Quantity().write
    facts = [
        ("played by", found.name),
        ("futures", f"{len(found.outcomes):,}"),
        ("mean", f"{_worth(found).with_unit(found.mean)}, standard error {write(found.se)}"),
    ]
    if not found.risk.is_mean:
        facts.append((str(found.risk), f"{found.worst.mean:.6g}"))
    better = "more is better" if found.sense == "max" else "less is better"
    return Summary(f"Played honestly ({better})", facts)


def _draw_evaluation(found: Any) -> Figure:
    unit = _worth(found).unit
    return _histogram(found.outcomes, Quantity(f"outcome of {found.name}", unit=unit))


LOOKS: dict[str, Look] = {
    "Explanation": Look(_explanation, _explanation_frame, _draw_explanation),
    "Frontier": Look(_frontier, _frontier_frame, _draw_frontier),
    "Run": Look(_run, lambda run: run.results().collect(), _draw_run),
    "Answers": Look(_answers, _answers_frame, _draw_answers),
    "TabularMDP": Look(_tabular, _tabular_frame, _draw_tabular),
    "GumbelMaxSCM": Look(_tabular, _tabular_frame, _draw_tabular),
    "LearnedSCM": Look(_learned, _learned_frame, _draw_learned),
    "PointSCM": Look(_stated, _no_frame),
    "Schema": Look(_schema, _schema_frame),
    "Plan": Look(_plan, _plan_frame, _draw_plan),
    "Evaluation": Look(
        _evaluation, lambda found: _table({"outcome": found.outcomes}), _draw_evaluation
    ),
}
