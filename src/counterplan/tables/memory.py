"""Whether a row tells all that matters for the next state, by what a model leaves unexplained.

A model learns z' = h(x) + phi(x) u of the state and action x of a row. If a dose acts a row later,
or adds up, or there is a season that no column tells, then the u are no luck: something w known
before them (the row before, past actions, the time) tells them, and answers by the model are wrong.
On half of the episodes

    u ~ b0 . [1, x, x^2],      u ~ b1 . [1, x, x^2, w]

are fitted by least squares with a little ridge, and the other half tells by what share the squares
fall with w; then the halves change places. Squares are summed by episode, which gives the standard
error of the share. A share that is LEAST and CLEAR standard errors is a finding; what is found
joins x, and the rest is looked at again.

What stays with an episode is no memory: the model reads it off the episode's course. So u is what
earlier steps do not tell of it by the model's own random effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from counterplan.core.dates import seconds_of
from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.learned import LearnedSCM
from counterplan.scm.transitions import Transitions
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded
from counterplan.tables.quality import WARNING, Finding

# Names of candidates.
LAST, PAST = "the row before", "all rows before"
# Of what is left unexplained, and standard errors of it.
LEAST, CLEAR = 0.02, 4.0
# Steps looked at; fewest episodes to tell by; levels of the time; standard deviations beyond which
# a rest counts as so many; ridge, in rows.
LOOKED_AT, EPISODES, LEVELS, LARGEST, RIDGE = 20_000, 20, 24, 4.0, 1.0
# Of the largest share, from which on an earlier candidate is preferred: the month to the date.
NEARLY = 0.95
# Of how far a feature moves: where less is left, it does not matter of what that depends.
KNOWN, TINY = 0.03, 1e-100
DAY = 86_400.0


def memory(scm: LearnedSCM, every: Sequence[Recorded], layout: SchemaLayout) -> list[Finding]:
    """A warning for each feature whose next value depends on more than its row tells."""
    chosen = _chosen(scm, every)
    if len(chosen) < EPISODES:
        return []
    steps = _Steps(scm, chosen, layout)
    falls = {name: steps.fall(steps.rests, more) for name, more in steps.candidates.items()}
    found = []
    for place, column in enumerate(layout.features[layout.fixed :]):
        if steps.is_known[place]:
            continue
        shares = {
            name: _clear(share[place], error[place]) for name, (share, error) in falls.items()
        }
        rest, known = steps.rests[:, place, None], list[str]()
        while (most := max(shares.values(), default=0.0)) > 0.0:
            best = next(name for name, share in shares.items() if share >= NEARLY * most)
            found.append(_finding(column, best, shares[best], len(steps.owner), layout, steps))
            known.append(best)
            joined = [steps.candidates[name] for name in known]
            shares = {
                name: _clear(*(one[0] for one in steps.fall(rest, more, joined)))
                for name, more in steps.candidates.items()
                if name not in known
            }
    return found


def _clear(share: float, error: float) -> float:
    """A share, 0 if it is not clear."""
    return float(share) if share >= max(LEAST, CLEAR * error) else 0.0


def _finding(
    column: str, what: str, share: float, count: int, layout: SchemaLayout, steps: _Steps
) -> Finding:
    source, remedy = what, "add it, or what it stands for, as a column with role = 'contextual'"
    if what in (LAST, PAST):
        told = steps.foremost(layout.features.index(column) - layout.fixed, what)
        source = f"{told!r} of {what}"
        many = f"the mean of {told!r} so far" if what == PAST else f"{told!r} of the row before"
        remedy = f"add {many} as a column with role = 'state'"
        if told in layout.features:
            remedy += ", or a column for what lasts and is not in the table, or measure it better"
        elif what == PAST:
            remedy += ", or a column for what guided the actions and is not in the table"
    text = (
        f"its next value also depends on {source} ({share:.0%} of what the model leaves "
        f"unexplained): {remedy}; without it answers may be wrong, and none is called established"
    )
    return Finding(WARNING, "memory", column, text, count)


class _Steps:
    """Steps of n rows with a row before.

    rests       (n, O) of the model, standardised
    now         (n, p) 1, x and x^2
    is_known    (O,) whether next to nothing is left, as of a dose copied from the row before
    owner       (n,) the number of the episode; the halves are the even and the odd ones
    candidates  by name: w (n, q)
    sources     (q,) the column from which each of w comes, of LAST and PAST
    """

    def __init__(self, scm: LearnedSCM, chosen: Sequence[Recorded], layout: SchemaLayout) -> None:
        tables: dict[str, list[FloatArray]] = {}
        for number, one in enumerate(chosen):
            for name, values in _told(scm, one, layout):
                tables.setdefault(name, []).append(values)
            tables.setdefault("owner", []).append(np.full(len(tables["x"][-1]), number))
        joined = {name: np.concatenate(parts) for name, parts in tables.items()}
        self.owner = joined.pop("owner").astype(np.int64)
        rests, x, left, moved = (joined.pop(name) for name in ("rests", "x", "left", "moved"))
        self.is_known = np.abs(left).sum(axis=0) <= KNOWN * np.abs(moved).sum(axis=0)
        size = np.sqrt(np.mean(np.minimum(rests**2, LARGEST**2), axis=0))
        self.rests = np.clip(rests / np.maximum(size, TINY), -LARGEST, LARGEST)
        self.now = np.concatenate([np.ones((len(x), 1)), x, x**2], axis=1)
        self.candidates = {name: joined.pop(name) for name in (LAST, PAST)}
        times = [(name, _levels(values)) for name, values in joined.items()]
        for place, (name, levels) in enumerate(times):
            is_same = any(np.array_equal(levels, one) for _, one in times[:place])
            if levels.shape[1] > 1 and not is_same:
                self.candidates[name] = levels
        assert scm.scaling is not None
        widths = np.maximum(np.asarray(scm.scaling.action_categories), 1)
        actions = np.repeat(layout.actions, widths).tolist()
        self.sources = {LAST: [*layout.features[scm.fixed :], *actions], PAST: actions}

    def fall(
        self, rests: FloatArray, more: FloatArray, known: Sequence[FloatArray] = ()
    ) -> tuple[FloatArray, FloatArray]:
        """(O,) the share by which squares of rests (n, O) fall with `more`, and its standard
        error."""
        base = np.concatenate([self.now, *known], axis=1)
        squares = []
        for inputs in (base, np.concatenate([base, more], axis=1)):
            errors = np.empty_like(rests)
            for half in (0, 1):
                own = self.owner % 2 == half
                gram = inputs[~own].T @ inputs[~own] + RIDGE * np.eye(inputs.shape[1])
                weights = np.linalg.solve(gram, inputs[~own].T @ rests[~own])
                errors[own] = rests[own] - inputs[own] @ weights
            sums = np.zeros((int(self.owner.max()) + 1, rests.shape[1]))
            np.add.at(sums, self.owner, errors**2)
            squares.append(sums)
        total = np.maximum(squares[0].sum(axis=0), TINY)
        share = 1.0 - squares[1].sum(axis=0) / total
        scatter = squares[0] - squares[1] - share * squares[0]
        return share, np.sqrt((scatter**2).sum(axis=0)) / total

    def foremost(self, place: int, what: str) -> str:
        """The column that tells most of the rests of a feature."""
        sources, table = np.array(self.sources[what]), self.candidates[what]
        rest = self.rests[:, place, None]
        falls = {
            name: self.fall(rest, table[:, sources == name])[0][0]
            for name in dict.fromkeys(sources)
        }
        return str(max(falls, key=falls.__getitem__))


def _steps(scm: LearnedSCM, one: Recorded) -> IntArray:
    """Those with a row before, nothing of which was filled in or is implausible: half a range
    beyond what the model has learned from."""
    assert scm.scaling is not None
    size = np.abs(scm.scaling.encode_states(one.episode.states)).max(axis=1)
    told = ~one.guesses & (size[:-1] <= 1.0) & (size[1:] <= 1.0)
    return np.flatnonzero(told[1:] & told[:-1]) + 1


def _chosen(scm: LearnedSCM, every: Sequence[Recorded]) -> list[Recorded]:
    """Episodes at random, by their ids whatever the order of the table, until there are enough
    steps."""
    ordered = sorted(every, key=lambda one: one.episode.id or "")
    listed = Transitions.collect([one.episode for one in ordered])
    dealt = [ordered[place] for place in listed.shuffled(np.random.default_rng(0))]
    sizes = np.cumsum([_steps(scm, one).size for one in dealt])
    enough = int(np.searchsorted(sizes, LOOKED_AT)) + 1
    return [one for one in dealt[:enough] if _steps(scm, one).size]


def _told(scm: LearnedSCM, one: Recorded, layout: SchemaLayout) -> Iterator[tuple[str, FloatArray]]:
    """By name: what is known of the steps of an episode."""
    assert scm.scaling is not None
    kept, states = _steps(scm, one), one.episode.states
    before, taken, fixed = states[:-1], one.episode.actions[: len(states) - 1], scm.fixed
    expected = scm.step(before, taken, np.zeros((len(taken), states.shape[1] - fixed)))
    yield "rests", scm.surprises(states, taken)[kept]
    yield "left", (states[1:] - expected)[kept, fixed:]
    yield "moved", (states[1:] - before)[kept, fixed:]
    # Implausible actions would have all the weight.
    s, a = scm.scaling.encode_states(before), np.clip(scm.scaling.encode_actions(taken), -1.0, 1.0)
    mean = np.cumsum(a, axis=0) / np.arange(1, len(a) + 1)[:, None]
    moving = s[:, scm.scaling.encoded_widths(fixed)[2] :]
    yield "x", np.concatenate([s, a], axis=1)[kept]
    yield LAST, np.concatenate([moving, a], axis=1)[kept - 1]
    yield PAST, mean[kept - 1]
    for name, values in _times(one, layout):
        yield name, values[kept]


def _times(one: Recorded, layout: SchemaLayout) -> Iterator[tuple[str, FloatArray]]:
    """By name: (T,) what the time of a step may stand for."""
    if one.dates:
        seconds = np.array([seconds_of(text)[0] for text in one.dates])
        months = seconds.astype("datetime64[s]").astype("datetime64[M]")
        yield "the month", months.astype(np.float64) % 12
        yield "the day of the week", np.floor(seconds / DAY) % 7
        yield "the date", seconds
    yield f"the time {layout.schema.time!r}", np.asarray(one.times)
    yield "the number of the step", np.arange(len(one.episode), dtype=np.float64)


def _levels(values: FloatArray) -> FloatArray:
    """(n, L) one column for each value, or for each of LEVELS groups of equal size."""
    known, place = np.unique(values, return_inverse=True)
    if len(known) > LEVELS:
        ends = np.unique(np.quantile(values, np.arange(1, LEVELS) / LEVELS))
        known, place = np.unique(np.searchsorted(ends, values), return_inverse=True)
    return np.asarray(place[:, None] == np.arange(len(known)), dtype=np.float64)
