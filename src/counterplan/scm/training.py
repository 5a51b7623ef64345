"""How a model of continuous states is trained, and transitions made ready for it: checked, split by
episode, in the model's units; and simple models to compare it with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from counterplan import __version__
from counterplan.core.validation import BoolArray, FloatArray, IntArray, Seed, whole_number
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.scm.transitions import Transitions

# Units of a network: more are slips of the keyboard, and would not fit in memory.
MOST_UNITS = 10_000
# Noise of a feature that a linear regression explains fully.
LEAST_NOISE = 1e-3
# Where what was predicted is held against what was held out.
LEVELS = (0.05, *(round(0.1 * tenth, 1) for tenth in range(1, 10)), 0.95)


@dataclass(frozen=True)
class Training:
    """Settings of a fit.

    batch          transitions in one step of Adam
    learning_rate  of Adam
    validation     share of the episodes held out to choose the best epoch, 0 for none
    patience       stop after so many epochs without a better one, None for never
    scaling        physical units, None to scale every column of the data to [-0.5, 0.5]
    progress       show a bar, if standard error is a terminal
    """

    batch: int = 256
    learning_rate: float = 1e-3
    validation: float = 0.1
    patience: int | None = 30
    scaling: Scaling | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        whole_number(self.batch, "batch", minimum=1)
        positive(self.learning_rate, "learning_rate")
        if self.validation != 0 and not positive(self.validation, "validation") < 1.0:
            raise InputError(f"validation must be a share from 0 to below 1, got {self.validation}")
        if self.patience is not None:
            whole_number(self.patience, "patience", minimum=1)


def positive(value: object, name: str) -> float:
    """`value` as a positive finite float, or an error that names it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < math.inf:
        return float(value)
    raise InputError(f"{name} must be a positive number, got {value!r}")


class Samples(NamedTuple):
    """n transitions in the model's units.

    inputs    (n, D + d) states and action vectors side by side
    targets   (n, D - fixed) the features that move, one step later
    features  D
    """

    inputs: FloatArray
    targets: FloatArray
    features: int

    def rows(self, chosen: IntArray | BoolArray) -> Samples:
        """Some of them."""
        return self._replace(inputs=self.inputs[chosen], targets=self.targets[chosen])


def samples(transitions: Transitions, scaling: Scaling, fixed: int) -> Samples:
    """Transitions in the model's units."""
    before = scaling.encode_states(transitions.before)
    inputs = np.concatenate([before, scaling.encode_actions(transitions.actions)], axis=1)
    after = scaling.encode_states(transitions.after)[:, scaling.encoded_widths(fixed)[2] :]
    return Samples(inputs, after, before.shape[1])


def split(
    transitions: Transitions, share: float, rng: np.random.Generator
) -> tuple[Transitions, Transitions | None]:
    """Training and validation part; no episode is in both."""
    if share == 0.0:
        return transitions, None
    n = transitions.n_episodes
    if n < 2:
        raise InputError(
            "one episode cannot be split into training and validation: give more, or train with "
            "Training(validation=0)"
        )
    held_out = min(max(round(share * n), 1), n - 1)
    parts = np.split(transitions.shuffled(rng), [held_out])
    validation, training = map(transitions.of_episodes, parts)
    return training, validation


def min_max_scaling(transitions: Transitions) -> Scaling:
    """Every column to [-0.5, 0.5]; a column that never changes cannot be scaled."""
    states = np.concatenate([transitions.before, transitions.after])
    ranges = []
    for table, what in ((states, "feature"), (transitions.actions, "action component")):
        low, high = table.min(axis=0), table.max(axis=0)
        for column in np.flatnonzero(low == high).tolist():
            name = transitions.feature(column) if what == "feature" else f"{what} {column}"
            raise InputError(
                f"{name} has the value {table[0, column]} in every transition: nothing can be "
                "learned about it; drop the column, or give its range with Training(scaling=...)"
            )
        ranges += [(low + high) / 2, high - low]
    return Scaling(*ranges)


def check_learnable(transitions: Transitions, scaling: Scaling, fixed: int) -> None:
    """Raise where maximum likelihood has no answer: too few transitions, or a feature without
    noise."""
    D, d, _ = scaling.encoded_widths(fixed)
    needed = 2 * (D + d + 1)
    if len(transitions) < needed:
        raise InputError(
            f"{len(transitions)} transitions to train on are too few for {D} features and {d} "
            f"action components: at least {needed} are needed, thousands are better"
        )
    moves = (transitions.before != transitions.after).any(axis=0)
    still = np.flatnonzero(~moves[fixed:])
    if still.size:
        raise InputError(
            f"{transitions.feature(int(still[0]) + fixed)} never changes within an episode: put it "
            "first and count it in `fixed`, or drop it"
        )


def names_of(transitions: Transitions) -> dict[str, Any]:
    """What a model remembers of the columns."""
    return {
        "features": transitions.features and list(transitions.features),
        "actions": transitions.action_names and list(transitions.action_names),
    }


def record_of(
    train: Transitions, held_out: Transitions | None, seed: Seed, libraries: Sequence[str]
) -> dict[str, Any]:
    """The beginning of a training record: no times and no paths, so that equal runs give equal
    files."""
    return {
        "transitions": len(train),
        "episodes": train.n_episodes,
        "validation_transitions": 0 if held_out is None else len(held_out),
        "validation_episodes": 0 if held_out is None else held_out.n_episodes,
        "seed": None if isinstance(seed, np.random.Generator) else int(seed),
        "versions": {"counterplan": __version__, **{name: version(name) for name in libraries}},
    }


def calibration(errors: FloatArray) -> dict[str, Any]:
    """Errors (n, O) of predicting what was held out, in predicted standard deviations: for each
    feature the share `below` each level of the predicted law. A right model has the levels."""
    from scipy.special import ndtri

    below = (errors[:, :, None] <= ndtri(LEVELS)).mean(axis=0)
    return {"levels": list(LEVELS), "below": below.round(6).tolist(), "steps": len(errors)}


def reference_losses(train: Samples, judged: Samples) -> dict[str, float]:
    """Mean negative log-likelihoods of simple models, which a learned one must beat, in nats per
    transition of `judged` after learning from the others:

        linear     s' ~ N(B [1, s, a], C)      least squares
        constant   s' ~ N(m, C)                as if neither state nor action mattered
    """
    losses = {}
    for name, columns in (("linear", train.inputs.shape[1]), ("constant", 0)):
        coefficients, factor = regression(train.inputs[:, :columns], train.targets)
        missed = judged.targets - _design(judged.inputs[:, :columns]) @ coefficients
        white = np.linalg.solve(factor, missed.T)
        constant = 0.5 * len(factor) * math.log(2.0 * math.pi) + np.log(np.diag(factor)).sum()
        losses[name] = float(0.5 * (white**2).sum(axis=0).mean() + constant)
    return losses


def regression(inputs: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least-squares coefficients, and the Cholesky factor of the covariance of what is left."""
    design = _design(inputs)
    coefficients = np.linalg.lstsq(design, targets)[0]
    residuals = targets - design @ coefficients
    covariance = residuals.T @ residuals / len(residuals)
    factor = np.linalg.cholesky(covariance + LEAST_NOISE**2 * np.eye(len(covariance)))
    return np.asarray(coefficients), np.asarray(factor)


def _design(inputs: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)


@contextmanager
def progress_bar(what: str, total: int, wanted: bool) -> Iterator[Callable[[str], None]]:
    """A bar on standard error, if that is a terminal: gives a function to call after each of
    `total` parts, with a few words on how it went."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    shown = wanted and console.is_terminal
    with Progress(console=console, disable=not shown, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda text: progress.update(task, advance=1, description=f"{what}, {text}")
