"""What is good, learned from the columns of a table with continuous states.

    rewards     r_t = c + w . x(s_t) + u . x(a_t) + noise        of every step, by least squares
    at the end  y = c + w . x(s_T) + noise, or, for 0 and 1,     of the last state, with ridge and
                P(y = 1) = 1 / (1 + exp(-c - w . x(s_T)))        the Laplace approximation
    afterwards  the next H rewards, added up, = c + w . x(s) + noise, by least squares

x() has a column for each number or dose, and for each category, or level of an action, but the
first. H is
half the usual length of an episode. A reward that is exactly so is taken as it is; of one that is
nearly so R² is told, and one that is not is refused. One that bends, and that the state of its row
tells alone (it is best somewhere in the middle), is learned as one more state instead. How well the
end can be predicted is tried on episodes that the regression has not seen. Rows with a state that
is not plausible, and the few rewards that are far from what states and actions explain (a slip of
the pen, or -999 for a gap), are told and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward, LogisticReward, Reward
from counterplan.core.table import numbered
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError, counted
from counterplan.scm.transitions import is_code, plausible_range
from counterplan.tables.parts import Recorded, Rows
from counterplan.tables.schema import Column, Schema

if TYPE_CHECKING:
    from counterplan.scm.tabular import TabularMDP

# Names, as `word` writes them, of what is better the less there is of it.
COST = re.compile(
    r"(.*[^a-z])?(costs?|prices?|charges?|loss(es)?|penalt(y|ies)|expenses?|fees?|kosten|los|"
    r"length_of_stay|mortality|died|deaths?|dead|readmi\w*|complications?|fail(ed|ures?)|downtime|"
    r"delays?|waste|damages?)([^a-z].*)?"
)
# What may be left of a reward that is taken as exact, and the least R² of one that is not refused.
EXACT, LEAST = 1e-6, 0.5
# Below these (area under the curve, R²) the end of an episode is called hardly predictable.
FAIR_SHARE, FAIR_AMOUNT = 0.65, 0.3
# The least share of what a regression leaves that squares explain if it is called bent.
BENT = 0.1
# Rows for each term of a regression on squares and products, and at most so many of both.
ENOUGH, MOST_ROWS, MOST_TERMS = 5, 20_000, 300
# By so much the rest of an episode must predict the end better for it to matter.
EARLIER = 0.1
FOLDS = 5
# Episodes that every state of a discrete problem is thought to have ended in, on average ones.
PRIOR = 2.0
# Half of an interval that holds 95 %, and what 5 % exceed, in standard deviations.
WIDE, ONE_SIDED = 1.96, 1.645
# Slips of the pen are few: a share of all rows, or this many.
SLIPS, FEW = 0.005, 3


def word(name: str) -> str:
    """A name as one word: "Length of stay [d]" is length_of_stay_d."""
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def is_cost_name(name: str) -> bool:
    """Whether a column is named like something of which less is better."""
    return COST.fullmatch(word(name)) is not None


@dataclass(frozen=True)
class Predictor:
    """c + w . x, or the probability whose log-odds this is.

    name        the column that it predicts
    weights     w, (p,)
    covariance  (1 + p, 1 + p) of c and w: how well they are known
    is_share    whether it is a probability
    """

    name: str
    constant: float
    weights: Sequence[float]
    covariance: Sequence[Sequence[float]]
    is_share: bool = False

    def along(self, schema: Schema, episode: Episode) -> LinearReward:
        """c + w . x of the states of an episode, whose fixed columns are part of the constant."""
        moving = len(schema.of("state"))
        x = coded(schema.features, episode.states[:1])[0]
        fixed, last = len(x) - moving, np.array(self.weights)[: len(x)]
        weights = np.append(np.zeros(len(schema.features) - moving), last[fixed:])
        # The same of the covariance: what is fixed goes into the constant.
        turn = np.zeros((1 + len(weights), 1 + len(self.weights)))
        turn[0, : 1 + fixed] = np.append(1.0, x[:fixed])
        turn[-moving:, 1 + fixed : 1 + len(x)] = np.eye(moving)
        known = turn @ np.array(self.covariance) @ turn.T
        return LinearReward(weights, self.constant + float(last[:fixed] @ x[:fixed]), known)

    def interval(self, x: FloatArray) -> tuple[float, float, float]:
        """What is predicted for x (p,), and the ends of an interval that holds it with 95 %."""
        full = np.append(1.0, x)
        middle = float(full @ np.append(self.constant, self.weights))
        far = WIDE * np.sqrt(max(float(full @ np.array(self.covariance) @ full), 0.0))
        found = np.array([middle, middle - far, middle + far])
        one, low, high = (_share(found) if self.is_share else found).tolist()
        return one, low, high


@dataclass(frozen=True)
class Learned:
    """What columns are worth: at each step (None where states say it all), at the end, and what
    usually follows a state in the next `horizon` steps (0: nothing was learned); the least and most
    that a step earned."""

    step: Predictor | None = None
    finals: tuple[Predictor, ...] = ()
    following: Predictor | None = None
    horizon: int = 0
    earned: tuple[float, float] | None = None

    def check(self, schema: Schema) -> None:
        """Raise unless it is about the columns of a schema."""
        states, both = (
            coded(columns, np.zeros((1, len(columns)))).shape[1]
            for columns in (schema.features, (*schema.features, *schema.components))
        )
        expected = [(self.step, both), *((one, states) for one in (*self.finals, self.following))]
        for one, width in expected:
            if one is None:
                continue
            both = np.vstack([[one.constant, *one.weights], np.array(one.covariance, np.float64)])
            if both.shape != (2 + width, 1 + width) or not np.isfinite(both).all():
                raise ValueError(f"{one.name} is about other columns")
        if [one.name for one in self.finals] != [column.name for column in schema.finals]:
            raise ValueError("other columns count at the end")

    def final_rewards(self, schema: Schema, episode: Episode) -> list[Reward]:
        """What the last state counts for besides itself."""
        parts: list[Reward] = []
        for column, one in zip(schema.finals, self.finals, strict=True):
            linear, merit = one.along(schema, episode), column.merit
            assert linear.covariance is not None
            scaled = LinearReward(
                merit * linear.weights, merit * linear.constant, merit**2 * linear.covariance
            )
            parts.append(LogisticReward(linear, merit) if one.is_share else scaled)
        if schema.final == "value" and self.following is not None:
            parts.append(self.following.along(schema, episode))
        return parts

    def action_rewards(self, schema: Schema, vectors: FloatArray) -> FloatArray | None:
        """(T-1, N) what each of the action vectors (T-1, N, d) earns."""
        if self.step is None:
            return None
        x = coded(schema.components, vectors.reshape(-1, vectors.shape[-1]))
        weights = np.array(self.step.weights)[len(self.step.weights) - x.shape[1] :]
        return np.asarray((x @ weights).reshape(vectors.shape[:2]))

    def worth(self, schema: Schema) -> FloatArray:
        """What a unit of each dose earns."""
        doses = [one for one in schema.components if one.is_dose]
        if self.step is None:
            return np.zeros(len(doses))
        states = coded(schema.features, np.zeros((1, len(schema.features)))).shape[1]
        return np.array(self.step.weights)[states : states + len(doses)]

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Learned:
        """What `asdict` gave."""
        step, following = (
            None if given[name] is None else Predictor(**given[name])
            for name in ("step", "following")
        )
        finals = tuple(Predictor(**one) for one in given["finals"])
        low_high = given.get("earned")
        earned = None if low_high is None else (float(low_high[0]), float(low_high[1]))
        return cls(step, finals, following, given["horizon"], earned)


def coded(columns: Sequence[Column], values: FloatArray) -> FloatArray:
    """(n, p) the columns x of values (n, columns)."""
    parts = [np.empty((len(values), 0))]
    for column, given in zip(columns, values.T, strict=True):
        if column.categories or (column.role == "action" and not column.is_dose):
            parts.append(given[:, None] == np.array(column.values)[1:])
        else:
            parts.append(given[:, None])
    return np.concatenate(parts, axis=1)


def _share(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


class Regression(NamedTuple):
    """Constant and weights (1 + p,), their covariance, and how much of the target is left."""

    weights: FloatArray
    covariance: FloatArray
    left: float

    def predictor(self, name: str, is_share: bool = False) -> Predictor:
        constant, *weights = self.weights.tolist()
        return Predictor(name, constant, weights, self.covariance.tolist(), is_share)


def regressed(
    x: FloatArray, y: FloatArray, ridge: float = 0.0, is_share: bool = False
) -> Regression:
    """y on x (n, p) by least squares, or for a share by Newton's method: each step is weighted
    least squares. `ridge`: the prior precision of weights, in standard deviations of x."""
    middle, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread == 0.0] = 1.0
    design = np.column_stack([np.ones(len(x)), (x - middle) / spread])
    prior = np.sqrt(ridge) * np.eye(design.shape[1])[1:]
    target, weight, found = y - (0.0 if is_share else y.mean()), np.ones(len(y)), np.zeros(0)
    for _ in range(30 if is_share else 1):
        if is_share:
            odds = design @ found if found.size else np.zeros(len(y))
            share = np.clip(_share(odds), 1e-9, 1.0 - 1e-9)
            weight, target = share * (1.0 - share), odds + (y - share) / (share * (1.0 - share))
        root = np.sqrt(weight)
        rows = np.concatenate([design * root[:, None], prior])
        found = np.linalg.lstsq(rows, np.append(target * root, np.zeros(len(prior))), rcond=None)[0]
    left = float(np.sum((target - design @ found) ** 2))
    noise = 1.0 if is_share else left / max(len(y) - len(found), 1)
    turn = np.eye(len(found))
    turn[1:, 1:] /= spread[:, None]
    turn[0, 1:] = -middle / spread
    found[0] += 0.0 if is_share else y.mean()
    covariance = noise * turn @ np.linalg.pinv(rows.T @ rows) @ turn.T
    return Regression(turn @ found, covariance, left)


def bent(
    schema: Schema, x: FloatArray, y: FloatArray, found: Regression
) -> tuple[Regression, list[str]]:
    """A regression on x, features of states first, that knows how far it is from linear, and the
    columns in which it bends: where squares of states explain what it leaves, the slope differs
    from state to state, and as a weight it is no better known than

        var_ii = var over the data of 2 q_i (x_i - m_i),      q_i: the weight of the square.
    """
    columns = schema.of("state")
    first = coded(schema.features, np.zeros((1, len(schema.features)))).shape[1] - len(columns)
    places = first + np.arange(len(columns))
    places = places[[len(np.unique(x[:, place])) > 2 for place in places]]
    away = x[:, places] - x[:, places].mean(axis=0)
    both = regressed(np.column_stack([x, away**2]), y)
    if both.left > (1.0 - BENT) * found.left or found.left == 0.0:
        return found, []
    slopes = 4.0 * both.weights[1 + x.shape[1] :] ** 2 * away.var(axis=0)
    covariance = found.covariance.copy()
    covariance[1 + places, 1 + places] += slopes
    weight = slopes * away.var(axis=0)
    names = [columns[place - first].name for place in places[weight >= 0.1 * weight.max()]]
    return found._replace(covariance=covariance), names


def is_curved(schema: Schema, table: Rows) -> bool:
    """Whether the reward of steps is a state of its own: one that every row has, that squares and
    products of states explain clearly better than the states themselves, and of which what is done
    in the row then tells no more."""
    given = table.earned
    if given is None or len(schema.rewards) != 1 or not np.isfinite(given).all():
        return False
    rows = np.flatnonzero(table.acts & table.plausible)
    rows = rows[:: 1 + len(rows) // MOST_ROWS]
    x, y = coded(schema.features, table.states[rows]), given[rows]
    x = x[:, x.std(axis=0) > 0.0]
    done = _acted(schema, table)[rows]
    width = x.shape[1] * (x.shape[1] + 3) // 2 + done.shape[1]
    if not x.shape[1] or width > min(MOST_TERMS, len(y) // ENOUGH):
        return False
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    first, second = np.triu_indices(x.shape[1])
    curved = np.column_stack([x, x[:, first] * x[:, second]])
    flat, alone, acted = (
        regressed(one, y).left / (len(y) - one.shape[1])
        for one in (x, curved, np.column_stack([curved, done]))
    )
    rounding = EXACT**2 * float(y.var())
    return bool(alone < (1.0 - BENT) * flat and acted + rounding >= (1.0 - BENT) * alone)


def _bends(name: str, columns: Sequence[str]) -> str:
    """The warning about a reward that is not linear."""
    where = ", ".join(map(repr, columns))
    return (
        f"warning: column {name}: does not grow evenly with {where}: a bit more is good in some "
        "states and bad in others. Intervals allow for it; if you know which way is better, say "
        f"better = 'lower' or 'higher' for {where} instead"
    )


# --- Learning ---------------------------------------------------------------------------------


def learn_rewards(schema: Schema, table: Rows) -> tuple[LinearReward | None, Learned, list[str]]:
    """The reward of states where it is exactly linear, what else is learned, and what to say."""
    remarks: list[str] = []
    exact, step, earned, kept = None, None, None, table.plausible
    done = _acted(schema, table)
    if table.earned is not None:
        x = np.column_stack([coded(schema.features, table.states), done])
        slips = _slips(schema, table, x, remarks)
        kept = kept & ~slips
        exact, step = _step(schema, table, x, kept, remarks)
        given = table.earned[~slips]
        earned = float(np.nanmin(given)), float(np.nanmax(given))
    finals = tuple(_final(schema, column, table, done, kept, remarks) for column in schema.finals)
    horizon = max(1, int(np.median([len(one.episode) for one in table.every])) // 2)
    following = _following(schema, table, kept, (exact, step), horizon)
    if schema.final == "value" and following is None:
        raise InputError(
            'final = "value": no episode has the rewards to learn what follows from; leave it out'
        )
    return exact, Learned(step, finals, following, horizon, earned), remarks


def _acted(schema: Schema, table: Rows) -> FloatArray:
    """(n, p) the columns x of what was done in each row, 0 in the last of an episode."""
    done = coded(schema.components, table.actions[table.acts])
    found = np.zeros((len(table.states), done.shape[1]))
    found[table.acts] = done
    return found


def _slips(schema: Schema, table: Rows, every: FloatArray, remarks: list[str]) -> BoolArray:
    """(n,) the rows whose reward is far from what all others are like, which are told."""
    given = np.asarray(table.earned)
    rows, slips = np.flatnonzero(np.isfinite(given) & table.plausible), np.zeros(len(given), bool)
    x, merit = every[rows], schema.rewards[0].merit if len(schema.rewards) == 1 else 1.0
    for _ in range(FEW if len(rows) else 0):
        found = regressed(x, given[rows]).weights
        left = given[rows] - found[0] - x @ found[1:]
        low, high = plausible_range(left)
        far = (left < low) | (left > high)
        are_codes = all(is_code(one) for one in np.unique(given[rows][far] / merit).tolist())
        if not far.any() or (far.sum() > max(FEW, SLIPS * len(rows)) and not are_codes):
            break
        slips[rows[far]] = True
        rows, x = rows[~far], x[~far]
    if slips.any():
        names = " + ".join(repr(column.name) for column in schema.rewards)
        which = numbered(given[slips] / merit, table.rows[slips])
        remarks.append(
            f"warning: column {names}: is {which}, far from what "
            "states and actions explain; not learned from: correct it"
        )
    return slips


def _step(
    schema: Schema, table: Rows, every: FloatArray, kept: BoolArray, remarks: list[str]
) -> tuple[LinearReward | None, Predictor | None]:
    """The reward of each step: exactly linear in the states, or about so with the actions, whose
    columns x of all rows are `every`."""
    names = " + ".join(repr(column.name) for column in schema.rewards)
    given = np.asarray(table.earned)
    known = np.isfinite(given) & kept
    if not known.any():
        raise InputError(f"column {names}: is empty, so nothing is known of what is good")
    varies = float(np.linalg.norm(given[known] - given[known].mean()))
    if varies == 0.0:
        raise InputError(
            f"column {names}: is {abs(given[known][0]):g} in every row, so nothing is better than "
            "anything else; say better = 'lower' or 'higher' for a state column"
        )
    of_states = regressed(table.states[known], given[known])
    if np.sqrt(of_states.left) <= EXACT * varies:
        constant, *weights = of_states.weights.tolist()
        return LinearReward(weights, constant), None
    # In the last row of an episode nothing is decided any more.
    rows = table.acts & kept
    x, y = every[rows], given[rows]
    found, freedom = regressed(x, y), max(len(y) - 1 - x.shape[1], 1)
    spread = float(np.sqrt(found.left / freedom))
    r2 = 1.0 - (spread / max(float(y.std()), 1e-300)) ** 2
    if r2 < LEAST:
        raise InputError(
            f"column {names}: is no linear function of the states of its row and what was done "
            f"(R² = {r2:.2f}, at least {LEAST:g} is needed); say better = 'lower' or 'higher' for "
            "the state columns that matter, or add the state that it depends on"
        )
    if np.sqrt(found.left) > EXACT * varies:
        remarks.append(
            f"column {names}: taken as linear in the states with an amount for each level of an "
            f"action, which explains {r2:.0%} of how it varies (± {spread:.3g} in a row is left)"
        )
        found, bending = bent(schema, x, y, found)
        if bending:
            remarks.append(_bends(names, bending))
    return None, found.predictor(names)


def _final(
    schema: Schema,
    column: Column,
    table: Rows,
    done: FloatArray,
    kept: BoolArray,
    remarks: list[str],
) -> Predictor:
    """What a column says at the end, by the last state."""
    every, last = table.every, np.append(table.starts[1:], len(table.states)) - 1
    y, known = ends(column, every)
    low, high = plausible_range(y)
    right = (y >= low) & (y <= high)
    if not right.all():
        rows = np.array([int(np.max(every[place].rows)) for place in known])[~right]
        remarks.append(
            f"warning: column {column.name!r}: is {numbered(y[~right], rows)}, far from all other "
            "values; not learned from: correct it"
        )
    right &= kept[last][known]
    y, known = y[right], known[right]
    x, moving = coded(schema.features, table.states[last][known]), len(schema.of("state"))
    is_share = check_ends(column, y)

    def predictor(x: FloatArray) -> Callable[[IntArray, IntArray], FloatArray]:
        def predict(rows: IntArray, others: IntArray) -> FloatArray:
            found = regressed(x[rows], y[rows], 1.0, is_share).weights
            return np.asarray(found[0] + x[others] @ found[1:])

        return predict

    # What an episode was like on the way to its last row: means of states and actions.
    course = np.column_stack([table.states[:, -moving:], done])
    ways = [course[a : max(b, a + 1)].mean(axis=0) for a, b in zip(table.starts, last, strict=True)]
    earlier = np.column_stack([x, np.stack(ways)[known]])
    names = [str(every[place].episode.id) for place in known]
    score, more = (held_out(names, y, predictor(each)) for each in (x, earlier))
    remarks.append(predictability(column, y, score, len(every) - len(known)))
    found = regressed(x, y, 1.0, is_share)
    if more - score >= EARLIER:
        remarks.append(
            f"warning: column {column.name!r}: depends on more than the last state (held out "
            f"{score:.2f}, with what came before {more:.2f}), so that little can be said of what "
            "changes bring; add columns that carry to the last row what it depends on"
        )
        # What the last state seems to matter is in part what came before it.
        apart = found.weights - regressed(earlier, y, 1.0, is_share).weights[: len(found.weights)]
        found = found._replace(covariance=found.covariance + np.diag(apart**2))
    if not is_share:
        found, bending = bent(schema, x, y, found)
        if bending:
            remarks.append(_bends(repr(column.name), bending))
    weights, covariance = found.weights[-moving:], found.covariance[-moving:, -moving:]
    # About what 5 % of such sums exceed where none of the weights is anything but chance.
    if weights @ np.linalg.pinv(covariance) @ weights < moving + ONE_SIDED * np.sqrt(2 * moving):
        remarks.append(
            f"warning: column {column.name!r}: no column that moves is known to matter to it, so "
            "advice about it rests on chance"
        )
    return found.predictor(column.name, is_share)


def ends(column: Column, every: Sequence[Recorded]) -> tuple[FloatArray, IntArray]:
    """What episodes say of a column that counts at the end, and which of them say it."""
    texts = [dict(one.outcomes)[column.name] for one in every]
    known = np.flatnonzero([bool(text) for text in texts])
    return np.array([float(texts[place]) for place in known]), known


def check_ends(column: Column, y: FloatArray) -> bool:
    """Whether a column holds 0 and 1; raises unless there is something to learn from it."""
    if len(y) < 4 * FOLDS or len(set(y.tolist())) < 2:
        same = f"and is {y[0]:g} in all of them" if len(set(y.tolist())) == 1 else ""
        raise InputError(
            f"column {column.name!r}: is known for {len(y):,} episodes {same}".rstrip()
            + f", too little to learn what the end depends on ({4 * FOLDS} with different values); "
            "use role = 'outcome'"
        )
    return set(y.tolist()) == {0.0, 1.0}


def predictability(column: Column, y: FloatArray, score: float, left_out: int) -> str:
    """How well the end can be predicted in episodes that were held out, by its score, in words;
    raises where it cannot. Some episodes do not say it."""
    if set(y.tolist()) == {0.0, 1.0}:
        no, yes = np.count_nonzero(y == 0.0), np.count_nonzero(y == 1.0)
        kind, fair = "area under the curve", FAIR_SHARE
        chance = 0.5 + ONE_SIDED * float(np.sqrt((len(y) + 1) / (12 * no * yes)))
    else:
        kind, fair, chance = "R²", FAIR_AMOUNT, 0.0
    where = f"column {column.name!r}: in episodes held out the last state"
    if score <= chance:
        raise InputError(
            f"{where} says nothing about it ({kind} {score:.2f}, chance up to {chance:.2f}), so "
            "that no advice could be about it; add what it depends on, or use role = 'outcome'"
        )
    without = f"; without {counted(left_out, 'episode')} that do not say it, or slip"
    return (
        f"{where} {'predicts it' if score >= fair else 'hardly predicts it'} ({kind} {score:.2f})"
        + (without if left_out else "")
    )


def held_out(
    names: Sequence[str], y: FloatArray, predict: Callable[[IntArray, IntArray], FloatArray]
) -> float:
    """The area under the curve of 0 and 1, else R², of what `predict(from, for)` says of episodes
    that it has not seen. Which are tried together does not depend on their order."""
    by_name = np.argsort(names, kind="stable")
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.random.default_rng(0).permutation(by_name)] = np.arange(len(y)) % FOLDS
    guess = np.empty(len(y))
    for held in range(FOLDS):
        rows, others = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        guess[others] = predict(rows, others)
    if set(y.tolist()) != {0.0, 1.0}:
        return 1.0 - float(((y - guess) ** 2).mean() / y.var())
    no, yes = np.sort(guess[y == 0.0]), guess[y == 1.0]
    places = np.searchsorted(no, yes, "left") + np.searchsorted(no, yes, "right")
    return float(places.mean()) / 2 / len(no)


@dataclass(frozen=True)
class EndByState:
    """What a column says at the end in each state of a discrete problem: (S,) means under a Beta or
    normal posterior, and the ends of intervals that hold 95 %."""

    name: str
    is_share: bool
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def end_by_state(
    column: Column, every: Sequence[Recorded], n_states: int, remarks: list[str]
) -> EndByState:
    """The end by the last state, from counts."""
    y, known = ends(column, every)
    is_share = check_ends(column, y)
    last = np.array([int(one.episode.states[-1]) for one in every])[known]

    def means(rows: IntArray) -> tuple[FloatArray, FloatArray]:
        seen = np.asarray(np.bincount(last[rows], minlength=n_states) + PRIOR, np.float64)
        total = np.bincount(last[rows], weights=y[rows], minlength=n_states)
        return np.asarray((total + PRIOR * y[rows].mean()) / seen), seen

    def predict(rows: IntArray, others: IntArray) -> FloatArray:
        return np.asarray(means(rows)[0][last[others]])

    score = held_out([str(every[place].episode.id) for place in known], y, predict)
    remarks.append(predictability(column, y, score, len(every) - len(known)))
    mean, seen = means(np.arange(len(y)))
    variance = mean * (1.0 - mean) / (seen + 1.0) if is_share else y.var() / seen
    both = np.stack([mean - WIDE * np.sqrt(variance), mean + WIDE * np.sqrt(variance)])
    low, high = (np.clip(both, 0.0, 1.0) if is_share else both).tolist()
    return EndByState(column.name, is_share, mean.tolist(), low, high)


def values_ahead(mdp: TabularMDP, visits: IntArray, n_actions: int, steps: int) -> FloatArray:
    """(steps + 1, S) what 0, 1, ... further steps earn where actions, the first `n_actions`, are
    chosen as often as in the data; a state without any is worth the average."""
    chosen = visits[:, :n_actions].sum(axis=1)
    policy = visits[:, :n_actions] / np.maximum(chosen, 1)[:, None]
    earned = (policy * np.where(policy > 0.0, mdp.rewards[:, :n_actions], 0.0)).sum(axis=1)
    values = np.zeros((steps + 1, mdp.n_states))
    for step in range(steps):
        ahead = expected_after(mdp, values[step])[:, :n_actions]
        value = earned + (policy * ahead).sum(axis=1)
        average = float(value @ chosen) / max(int(chosen.sum()), 1)
        values[step + 1] = np.where(chosen > 0, value, average)
    return values


def expected_after(mdp: TabularMDP, values: FloatArray) -> FloatArray:
    """(S, A) the mean of values (S,) of the next state."""
    indptr, indices, probabilities = mdp.rows.arrays
    return np.asarray(np.add.reduceat(probabilities * values[indices], indptr[:-1])[mdp.row_of])


def _following(
    schema: Schema,
    table: Rows,
    kept: BoolArray,
    learned: tuple[LinearReward | None, Predictor | None],
    horizon: int,
) -> Predictor | None:
    """What the next steps earn after a state, None where no step earns anything."""
    exact, step = learned
    merits = LinearReward([column.merit for column in schema.features])
    if exact is None and step is None and not merits.weights.any():
        return None
    x, y = [], []
    for begin, one in zip(table.starts, table.every, strict=True):
        states, T = one.episode.states, len(one.episode)
        slips = np.append(0, np.cumsum(~kept[begin : begin + T]))
        own = earned = merits(states)
        if one.rewards is not None:
            own = own + (exact or step.along(schema, one.episode))(states)  # type: ignore[union-attr]
            earned = earned + np.nan_to_num(one.rewards)
        if horizon < T:
            # Of its own row the action alone counts, of the last the state alone.
            first, before = np.arange(T - horizon), np.append(0.0, np.cumsum(earned))
            first = first[slips[first + horizon + 1] == slips[first]]
            between = before[first + horizon] - before[first + 1]
            y.append((earned - own)[first] + between + own[first + horizon])
            x.append(coded(schema.features, states[first]))
    if sum(map(len, y)) < 4 * FOLDS:
        return None
    return regressed(np.concatenate(x), np.concatenate(y)).predictor("what follows")
