"""Training of the neural location-scale model: from transitions to a certified NeuralSCM.

Networks and noise are learned jointly by maximum likelihood with Adam (neural_loss). Episodes held
out for validation choose the epoch. A run that ends worse than it began, and worse than a constant
guess, has diverged: there is no model then. At the end spectral norms are no longer estimated:
weights are divided by their largest singular value, so that the constants of the model are never
above the wanted ones.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from counterplan import __version__
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import TrainingError
from counterplan.scm.network import Network
from counterplan.scm.neural_loss import (
    Batch,
    Layers,
    Parameters,
    Rates,
    begin,
    epoch,
    evaluate,
)
from counterplan.scm.neural_start import Sizes, constrained_layers, first_noise, free_layers
from counterplan.scm.progress import progress_bar
from counterplan.scm.reference_fit import ReferenceLosses, reference_losses
from counterplan.scm.scaling import Scaling
from counterplan.scm.training import MOST_UNITS, Training, constants
from counterplan.scm.training_data import (
    Samples,
    check_learnable,
    min_max_scaling,
    samples,
    split,
)
from counterplan.scm.transitions import Transitions

# Exported norms stay below the wanted ones by more than their own rounding.
MARGIN = 1.0 - 1e-10
# What has always worked; more is never advised.
USUAL_RATE = 1e-3
USUAL_CONSTANTS = (1.0, 0.1)


@dataclass(frozen=True)
class Request:
    """What is to be learned; see `NeuralSCM.fit`."""

    hidden: int
    lipschitz: tuple[float, float] | None
    epochs: int
    seed: Seed
    fixed: int
    training: Training

    def __post_init__(self) -> None:
        whole_number(self.hidden, "hidden", 1, MOST_UNITS)
        whole_number(self.epochs, "epochs", minimum=1)
        whole_number(self.fixed, "fixed")
        constants(self.lipschitz)

    @property
    def rates(self) -> Rates:
        """Multipliers and learning rate, as the compiled epoch takes them."""
        location, scale = self.lipschitz or (1.0, 1.0)
        return Rates(math.sqrt(location), math.sqrt(scale), self.training.learning_rate)


@dataclass
class History:
    """Losses in nats per transition, in the model's units; `best` is the epoch that was kept.

    train       means over an epoch's steps
    validation  of the averaged weights after an epoch
    """

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best: int = 0

    @property
    def reached(self) -> float:
        """The loss of the epoch that was kept."""
        return (self.validation or self.train)[self.best - 1]


class Learned(NamedTuple):
    """What a `NeuralSCM` is made of."""

    location: Network
    scale: Network
    noise_cholesky: FloatArray
    fixed: int
    scaling: Scaling
    about: dict[str, Any]


def fit_neural(transitions: Transitions, request: Request) -> Learned:
    """Train."""
    rng, fixed, settings = generator(request.seed), request.fixed, request.training
    transitions.check_fixed(fixed)
    scaling = settings.scaling
    if scaling is None:
        scaling = min_max_scaling(transitions)
    scaling.check(transitions.before.shape[1], transitions.actions.shape[1])
    train, held_out = split(transitions, settings.validation, rng)
    check_learnable(train, fixed)
    data = samples(train, scaling, fixed)
    check = None if held_out is None else samples(held_out, scaling, fixed)
    with jax.default_device(jax.devices("cpu")[0]):
        start = _start(data, transitions.before.shape[1], request, rng)
        learned, history = _train(start, data, check, request, rng)
        references = _compare(start, history, data, check, request)
    location, scale, cholesky = _export(learned, request.lipschitz)
    about = {
        "features": transitions.features and list(transitions.features),
        "actions": transitions.action_names and list(transitions.action_names),
        "training": {
            **_record(request, history, train, held_out),
            "reference_nll": asdict(references),
        },
    }
    return Learned(location, scale, cholesky, fixed, scaling, about)


def _start(data: Samples, D: int, request: Request, rng: np.random.Generator) -> Parameters:
    sizes = Sizes(D, data.inputs.shape[1] - D, data.targets.shape[1], request.hidden)
    if request.lipschitz is None:
        location, scale = (free_layers(sizes, data, rng, fitted) for fitted in (True, False))
    else:
        rates = request.rates
        location = constrained_layers(sizes, rates.location, rng, persist=True)
        scale = constrained_layers(sizes, rates.scale, rng, persist=False)
    mixing, precision = first_noise(data)
    return Parameters(
        Layers(**{name: _single(part) for name, part in location.items()}),
        Layers(**{name: _single(part) for name, part in scale.items()}),
        _single(mixing),
        _single(precision),
    )


def _train(
    start: Parameters,
    data: Samples,
    check: Samples | None,
    request: Request,
    rng: np.random.Generator,
) -> tuple[Parameters, History]:
    """The parameters of the best epoch (of the last, if nothing is held out)."""
    settings, rates, constrained = request.training, request.rates, request.lipschitz is not None
    batch = min(settings.batch, len(data))
    used = len(data) // batch * batch
    arrays, check_arrays = _batch(data), None if check is None else _batch(check)
    state, best, history = begin(start), start, History()
    with progress_bar("training", request.epochs, settings.progress) as advance:
        for number in range(1, request.epochs + 1):
            order = rng.permutation(len(data))[:used].reshape(-1, batch).astype(np.int32)
            state, loss = epoch(state, arrays, jnp.asarray(order), rates, constrained)
            history.train.append(_finite(loss, number, "training", request))
            if check_arrays is None:
                best, history.best = state.averaged, number
            else:
                loss = evaluate(state.averaged, check_arrays, rates, constrained)
                value = _finite(loss, number, "validation", request)
                if value < min(history.validation, default=math.inf):
                    best, history.best = state.averaged, number
                history.validation.append(value)
            advance(f"NLL {(history.validation or history.train)[-1]:.3f}")
            if settings.patience is not None and number - history.best >= settings.patience:
                break
    return best, history


def _finite(loss: jax.Array, number: int, what: str, request: Request) -> float:
    value = float(loss)
    if not math.isfinite(value):
        raise TrainingError(
            f"training diverged: the {what} loss is {value} in epoch {number}; {_advice(request)}"
        )
    return value


def _compare(
    start: Parameters, history: History, data: Samples, check: Samples | None, request: Request
) -> ReferenceLosses:
    """Losses of simple models on the data that judges the fit; raises if that has diverged."""
    judged = data if check is None else check
    references = reference_losses(data, judged)
    constrained = request.lipschitz is not None
    began = float(evaluate(start, _batch(judged), request.rates, constrained))
    # Not to be better than the start may be chance; to be worse than a constant as well is not.
    if history.reached > max(began, references.constant):
        raise TrainingError(
            f"training diverged: the loss is {history.reached:.4g} nats in epoch {history.best}, "
            f"{began:.4g} before training and {references.constant:.4g} if nothing but a constant "
            f"is learned; {_advice(request)}"
        )
    return references


def _advice(request: Request) -> str:
    """What to try; the command line knows Lipschitz constants, but no learning rate."""
    outliers = "look for outliers: scaled columns should fill [-0.5, 0.5], not crowd at one end"
    if request.training.learning_rate > USUAL_RATE:
        return (
            f"lower the learning rate, e.g. Training(learning_rate={USUAL_RATE:g}), and {outliers}"
        )
    if request.lipschitz is None or tuple(request.lipschitz) != USUAL_CONSTANTS:
        location, scale = USUAL_CONSTANTS
        return f"try the Lipschitz constants {location:g} and {scale:g}, and {outliers}"
    return outliers


def _export(
    learned: Parameters, lipschitz: tuple[float, float] | None
) -> tuple[Network, Network, FloatArray]:
    """Networks with certified norms and the noise's factor L, in double precision."""
    wanted = (None, None) if lipschitz is None else lipschitz
    mixing = np.tril(_double(learned.mixing), -1) + np.eye(len(learned.precision))
    whitening = np.exp(_double(learned.precision))[:, None] * mixing
    cholesky = np.tril(np.linalg.inv(whitening))
    return _network(learned.location, wanted[0]), _network(learned.scale, wanted[1]), cholesky


def _network(layers: Layers, wanted: float | None) -> Network:
    weights: dict[str, Any] = {name: _double(part) for name, part in layers._asdict().items()}
    if wanted is not None:
        for name in ("state", "output"):
            weights[name] *= MARGIN / np.linalg.norm(weights[name], 2)
        weights["multiplier"] = math.sqrt(wanted)
    return Network.from_weights(weights, "trained network")


def _record(
    request: Request, history: History, train: Transitions, held_out: Transitions | None
) -> dict[str, Any]:
    """The training record: no times and no paths, so that equal runs give equal files."""
    return {
        "transitions": len(train),
        "episodes": train.n_episodes,
        "validation_transitions": 0 if held_out is None else len(held_out),
        "validation_episodes": 0 if held_out is None else held_out.n_episodes,
        "hidden": request.hidden,
        "lipschitz": None if request.lipschitz is None else list(request.lipschitz),
        "epochs": len(history.train),
        "best_epoch": history.best,
        "train_nll": history.train,
        "validation_nll": history.validation,
        "seed": None if isinstance(request.seed, np.random.Generator) else int(request.seed),
        "batch": request.training.batch,
        "learning_rate": request.training.learning_rate,
        "versions": {
            "counterplan": __version__,
            **{name: version(name) for name in ("jax", "jaxlib", "numpy", "optax")},
        },
    }


def _batch(data: Samples) -> Batch:
    return _single(data.inputs), _single(data.targets)


def _single(array: FloatArray) -> jax.Array:
    return jnp.asarray(array, dtype=jnp.float32)


def _double(array: jax.Array) -> FloatArray:
    return np.asarray(array, dtype=np.float64)
