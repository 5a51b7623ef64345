"""Training recovers known processes, keeps its promises on constants, and repeats itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from counterplan.core.episode import Episode
from counterplan.core.limits import Progress
from counterplan.core.validation import Seed
from counterplan.errors import InputError, TrainingError
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.point import Scaling
from counterplan.scm.training import Training, min_max_scaling, split
from counterplan.scm.transitions import Transitions
from experiments.neural_validation import GridSettings, cross_validate

from .neural_support import CURVED, LINEAR, counterfactual_error, excess

FAST = Training(learning_rate=1e-2, progress=False)


@pytest.fixture(scope="module")
def linear_fit() -> NeuralSCM:
    """The Lipschitz constant of the true location, in units scaled to [-0.5, 0.5], is below 1."""
    return NeuralSCM.fit(
        LINEAR.episodes(2500, 0), hidden=32, lipschitz=(1.5, 0.1), epochs=30, fixed=1, training=FAST
    )


@pytest.fixture(scope="module")
def curved_fit() -> NeuralSCM:
    return NeuralSCM.fit(
        CURVED.episodes(2500, 0), hidden=64, lipschitz=None, epochs=60, fixed=1, training=FAST
    )


# Measured: 0.001 and 0.015 nats, 3 % and 10 % of the effect. A fit that ignored the actions would
# be off by 100 %; the best linear one of the curved process by 0.13 nats.


def test_recovers_a_linear_gaussian_process(linear_fit: NeuralSCM) -> None:
    assert -0.005 < excess(linear_fit, LINEAR) < 0.01
    assert counterfactual_error(linear_fit, LINEAR) < 0.06


def test_recovers_a_curved_location_scale_process(curved_fit: NeuralSCM) -> None:
    assert -0.005 < excess(curved_fit, CURVED) < 0.04
    assert counterfactual_error(curved_fit, CURVED) < 0.2


def test_likelihood_is_the_normal_density(linear_fit: NeuralSCM) -> None:
    """log p(s' | s, a) of N(h, diag(phi) L L^T diag(phi)), in physical units."""
    data = Transitions.collect(LINEAR.episodes(3, 5))
    scaling = linear_fit.scaling
    assert scaling is not None
    inner, _ = linear_fit.internal()
    states, actions = scaling.encode_states(data.before), scaling.encode_actions(data.actions)
    spread = np.logaddexp(0.0, linear_fit.scale(states, actions))
    ranges = scaling.state_range[1:]
    expected = []
    for s, a, phi, after in zip(states, actions, spread, data.after, strict=True):
        mean = inner.step(s[None], a[None], np.zeros((1, 2)))[0]
        factor = (ranges * phi)[:, None] * linear_fit.noise_cholesky
        density = multivariate_normal(scaling.decode_states(mean)[1:], factor @ factor.T)
        expected.append(density.logpdf(after[1:]))
    found = linear_fit.log_likelihood(data.before, data.actions, data.after)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_record_agrees_with_the_exported_model(linear_fit: NeuralSCM) -> None:
    """The loss of the best epoch, in single precision, is the model's on the episodes held out."""
    record = linear_fit.about["training"]
    data = Transitions.collect(LINEAR.episodes(2500, 0))
    train, held_out = split(data, FAST.validation, np.random.default_rng(0))
    assert held_out is not None
    assert not set(train.episode) & set(held_out.episode)
    assert (len(train), len(held_out)) == (record["transitions"], record["validation_transitions"])
    assert (record["episodes"], record["validation_episodes"]) == (2250, 250)
    assert linear_fit.scaling is not None
    shift = np.log(linear_fit.scaling.state_range[1:]).sum()
    physical = linear_fit.log_likelihood(held_out.before, held_out.actions, held_out.after).mean()
    losses = record["validation_nll"]
    assert record["best_epoch"] == int(np.argmin(losses)) + 1
    assert -(physical + shift) == pytest.approx(min(losses), abs=1e-4)
    assert len(losses) == len(record["train_nll"]) == record["epochs"]
    assert record["seed"] == 0
    assert record["lipschitz"] == [1.5, 0.1]
    assert set(record["versions"]) == {"counterplan", "jax", "jaxlib", "numpy", "optax"}


@pytest.mark.parametrize("wanted", [(0.3, 0.05), (1.5, 0.1), (4.0, 2.0)])
def test_constants_are_certified(wanted: tuple[float, float]) -> None:
    fitted = NeuralSCM.fit(
        CURVED.episodes(30, 0), hidden=16, lipschitz=wanted, epochs=3, fixed=1, training=FAST
    )
    certified = fitted.location.lipschitz, fitted.scale.lipschitz
    rng = np.random.default_rng(0)
    one = rng.uniform(-1.0, 1.0, (4000, 3))
    two = one + rng.normal(size=one.shape) * rng.choice([1e-3, 0.1, 1.0], size=(4000, 1))
    actions = rng.uniform(-0.5, 0.5, (4000, 1))
    distance = np.linalg.norm(one - two, axis=1)
    for network, constant, limit in zip(
        (fitted.location, fitted.scale), certified, wanted, strict=True
    ):
        assert 0.999 * limit < constant <= limit
        moved = np.linalg.norm(network(one, actions) - network(two, actions), axis=1)
        assert (moved <= constant * distance).all()
    inner, _ = fitted.internal()
    noise = rng.normal(size=(4000, 2))
    step = np.linalg.norm(
        (inner.step(one, actions, noise) - inner.step(two, actions, noise))[:, 1:], axis=1
    )
    bounds = inner.lipschitz(noise)
    assert bounds is not None
    assert (step <= bounds * distance).all()


def test_spectral_norms_are_followed_during_training() -> None:
    """One power iteration a step keeps up with the weights: what is constrained is what is
    certified in the end."""
    import jax.numpy as jnp

    from counterplan.scm.neural_training import Rates, Request, _batch, _start, begin, epoch
    from counterplan.scm.training import min_max_scaling, samples

    data = Transitions.collect(CURVED.episodes(100, 0))
    given = samples(data, min_max_scaling(data), 1)
    rng = np.random.default_rng(0)
    state = begin(_start(given, Request(hidden=16, lipschitz=(1.0, 1.0)), rng))
    order = jnp.asarray(rng.permutation(800).reshape(-1, 32))
    arrays = _batch(given)
    for _ in range(20):
        state, _ = epoch(state, arrays, order, Rates((1.0, 0.3), 1e-2))
    for matrices, lefts in zip(state.parameters.matrices(), state.directions, strict=True):
        for weights, left in zip(matrices, lefts, strict=True):
            norm = np.linalg.norm(np.asarray(weights, dtype=float), 2)
            assert np.linalg.norm(np.asarray(weights).T @ np.asarray(left)) > 0.97 * norm
            assert abs(norm - 1.0) > 0.05  # it has moved since the start


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    episodes = LINEAR.episodes(30, 0)

    def saved(name: str, seed: Seed) -> bytes:
        fitted = NeuralSCM.fit(episodes, hidden=4, epochs=3, seed=seed, fixed=1, training=FAST)
        fitted.save(tmp_path / f"{name}.safetensors")
        return (tmp_path / f"{name}.safetensors").read_bytes()

    first = saved("first", 3)
    assert saved("again", 3) == first
    assert saved("other", 4) != first
    assert saved("numpy", np.int64(3)) == first
    generators = (np.random.default_rng(3) for _ in range(2))
    assert saved("generator", next(generators)) == saved("generator again", next(generators))


def test_a_callback_hears_every_epoch_and_can_stop() -> None:
    episodes, heard = LINEAR.episodes(30, 0), list[Progress]()

    def fitted(epochs: int, most: int | None = None) -> NeuralSCM:
        def listen(progress: Progress) -> bool:
            heard.append(progress)
            return most is None or len(heard) < most

        heard.clear()
        return NeuralSCM.fit(
            episodes, hidden=4, epochs=epochs, fixed=1, training=FAST, progress=listen
        )

    whole = fitted(3)
    assert [(one.what, one.done, one.total) for one in heard] == [
        ("training", number, 3) for number in (1, 2, 3)
    ]
    stopped = fitted(50, most=3)
    assert len(heard) == 3
    assert stopped.about["training"]["epochs"] == 3
    assert np.array_equal(stopped.location.state, whole.location.state)


def test_stops_early_and_keeps_the_best() -> None:
    """Sixty free units overfit 144 transitions within a few epochs."""
    episodes = LINEAR.episodes(36, 0)
    settings = Training(learning_rate=3e-3, validation=0.5, patience=4, batch=32, progress=False)

    def fitted(epochs: int) -> NeuralSCM:
        return NeuralSCM.fit(
            episodes, hidden=60, lipschitz=None, epochs=epochs, fixed=1, training=settings
        )

    stopped = fitted(500)
    record = stopped.about["training"]
    assert record["epochs"] == record["best_epoch"] + 4 < 500
    assert record["validation_nll"][-1] > min(record["validation_nll"])
    best = fitted(record["best_epoch"])
    np.testing.assert_array_equal(stopped.location.state, best.location.state)
    np.testing.assert_array_equal(stopped.noise_cholesky, best.noise_cholesky)


def test_units_do_not_matter() -> None:
    """Physical units are the model's business: other units, the same model behind them."""
    episodes = LINEAR.episodes(30, 0)
    factor, offset = np.array([1.0, 1000.0, 0.01]), np.array([5.0, -300.0, 7.0])
    converted = [
        Episode(e.states * factor + offset, 10.0 * e.actions - 3.0, id=e.id) for e in episodes
    ]
    one = NeuralSCM.fit(episodes, hidden=4, epochs=4, fixed=1, training=FAST)
    two = NeuralSCM.fit(converted, hidden=4, epochs=4, fixed=1, training=FAST)
    data = Transitions.collect(episodes)
    noise = np.random.default_rng(0).normal(size=(len(data), 2))
    expected = one.step(data.before, data.actions, noise) * factor + offset
    found = two.step(data.before * factor + offset, 10.0 * data.actions - 3.0, noise)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_array_equal(found[:, 0], data.before[:, 0] + 5.0)


def test_indices_and_names() -> None:
    vectors = np.array([[0.0], [1.0], [2.0]])
    indexed = [
        Episode(e.states, e.actions[:, 0].astype(int), id=e.id) for e in LINEAR.episodes(30, 0)
    ]
    data = Transitions.collect(indexed, vectors, ["age", "x", "y"], ["dose"])
    fitted = NeuralSCM.fit(data, hidden=4, epochs=2, fixed=1, training=FAST)
    assert fitted.about["features"] == ["age", "x", "y"]
    assert fitted.about["actions"] == ["dose"]
    plain = NeuralSCM.fit(LINEAR.episodes(30, 0), hidden=4, epochs=2, fixed=1, training=FAST)
    np.testing.assert_array_equal(plain.location.state, fitted.location.state)


@pytest.mark.parametrize(("rate", "validation"), [(1e4, 0.1), (1.0, 0.1), (1.0, 0.0)])
def test_divergence_gives_advice(rate: float, validation: float) -> None:
    """A step of 1 throws the weights about, but nothing overflows."""
    settings = Training(learning_rate=rate, validation=validation, progress=False)
    with pytest.raises(TrainingError) as caught:
        NeuralSCM.fit(LINEAR.episodes(30, 0), hidden=4, epochs=8, fixed=1, training=settings)
    message = str(caught.value)
    assert message.startswith("training diverged: the ")
    if rate == 1.0:
        assert re.match(r".* loss is \d.* before training and -\d.* if", message)
    assert "Training(learning_rate=0.001)" in message
    assert "outliers" in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("lipschitz", "advised"), [((50.0, 0.1), True), (None, True), ((1.0, 0.1), False)]
)
def test_advice_never_raises_the_learning_rate(
    lipschitz: tuple[float, float] | None, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterplan.scm import neural_training

    worthless = float("nan")
    monkeypatch.setattr(neural_training, "evaluate", lambda *_: worthless)
    with pytest.raises(TrainingError) as caught:
        NeuralSCM.fit(LINEAR.episodes(30, 0), hidden=4, fixed=1, lipschitz=lipschitz)
    message = str(caught.value)
    assert "outliers" in message
    assert "learning" not in message
    assert ("try the Lipschitz constants 1 and 0.1" in message) == advised


def test_references_are_the_best_of_their_kind(linear_fit: NeuralSCM) -> None:
    """The process is linear and Gaussian: no model can be better than the linear reference, but for
    chance; one that knows nothing of the states is worse by what they explain."""
    record = linear_fit.about["training"]
    reached = min(record["validation_nll"])
    references = record["reference_nll"]
    assert references["linear"] == pytest.approx(reached, abs=0.01)
    data = Transitions.collect(LINEAR.episodes(2500, 0))
    train, held_out = split(data, FAST.validation, np.random.default_rng(0))
    assert held_out is not None
    assert linear_fit.scaling is not None
    ranges = linear_fit.scaling.state_range[1:]
    density = multivariate_normal(train.after[:, 1:].mean(axis=0), np.cov(train.after[:, 1:].T))
    loss = -density.logpdf(held_out.after[:, 1:]).mean() - np.log(ranges).sum()
    assert references["constant"] == pytest.approx(loss, abs=1e-2)
    assert references["constant"] > reached + 1.0


# --- Cross-validation over Lipschitz constants: the price of a constraint, on unseen episodes ---

SETTINGS = GridSettings(
    hidden=16, epochs=25, fixed=1, training=Training(learning_rate=1e-2, progress=False)
)


def test_grid() -> None:
    episodes = CURVED.episodes(240, 0)
    tight, loose, free = (
        cross_validate(episodes, pair, folds=3, settings=SETTINGS)
        for pair in ((0.2, 0.1), (1.5, 0.1), None)
    )
    for point in (tight, loose, free):
        assert point.train.shape == point.validation.shape == (3,)
        assert point.validation_mean == pytest.approx(point.validation.mean())
        assert point.validation_error == pytest.approx(point.validation.std(ddof=1) / np.sqrt(3))
    assert tight.validation_mean > loose.validation_mean + 0.1 > free.validation_mean
    assert tight.decrease(free) > loose.decrease(free) > 0.0 == free.decrease(free)
    # No model beats the truth on unseen data; folds partition it, so their mean covers all of it.
    data = Transitions.collect(episodes)
    shift = np.log(min_max_scaling(data).state_range[1:]).sum()
    truth = -CURVED.log_likelihood(data.before, data.actions, data.after).mean() - shift
    assert truth - 0.02 < free.validation_mean < truth + 0.3


# --- What cannot be learned from is refused in one clear line, before any training ---

EPISODES = LINEAR.episodes(30, 0)
FIRST = EPISODES[0]


def changed(column: int, value: float, table: str = "states") -> list[Episode]:
    """The episodes with one column replaced."""
    result = []
    for episode in EPISODES:
        tables = {"states": np.array(episode.states), "actions": np.array(episode.actions)}
        tables[table][:, column] = value
        result.append(Episode(**tables, id=episode.id))
    return result


NAMED = Transitions.collect(EPISODES, features=["age", "x", "y"])
NARROW = Episode(FIRST.states[:, :2], FIRST.actions, id="narrow")
WIDE = Episode(FIRST.states, np.zeros((8, 2)), id="wide")
INDEXED = Episode(FIRST.states, np.zeros(8, dtype=int), id="x")
OTHER_WIDTH = Training(scaling=Scaling(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1)))


@pytest.mark.parametrize(
    ("episodes", "options", "message"),
    [
        (FIRST, {}, "expected a list of episodes, got one: pass [episode] for episode '0'"),
        (3, {}, "expected a list of episodes, got int"),
        ([FIRST.states], {}, "expected a list of episodes, got ndarray"),
        ([Episode([0, 1], [0, 0])], {}, "its states are indices"),
        ([INDEXED], {}, "episode 'x': its actions are indices: pass the vectors"),
        ([*EPISODES, NARROW], {}, "episode 'narrow' has 2 features, but episode '0' has 3"),
        ([*EPISODES, WIDE], {}, "episode 'wide' has 2 action components"),
        ([], {}, "0 episodes without a single transition"),
        (
            [Episode(FIRST.states[:, 1:], FIRST.actions)],
            {"fixed": 0},
            "one episode cannot be split",
        ),
        (EPISODES[:2], {}, "8 transitions to train on are too few for 3 features"),
        (changed(1, 7.0), {}, "feature 1 has the value 7.0 in every transition"),
        (changed(0, 7.0), {}, "feature 0 has the value 7.0 in every transition"),
        (changed(0, 1.0, "actions"), {}, "action component 0 has the value 1.0 in every"),
        (NAMED, {"fixed": 0}, "feature 0 (age) never changes within an episode"),
        (NAMED, {"fixed": 2}, "feature 1 (x) is declared fixed but goes from"),
        (NAMED, {"fixed": 3}, "fixed is 3, but states have 3 features"),
        (EPISODES, {"hidden": 0}, "hidden must be at least 1"),
        (EPISODES, {"epochs": 0}, "epochs must be at least 1"),
        (EPISODES, {"lipschitz": 1.0}, "lipschitz must be two constants"),
        (EPISODES, {"lipschitz": (1.0, 0.0)}, "constant of the scale must be a positive number"),
        (EPISODES, {"lipschitz": (np.nan, 1.0)}, "constant of the location must be a positive"),
        (EPISODES, {"fixed": -1}, "fixed must be at least 0"),
        (EPISODES, {"seed": -1}, "seed must be at least 0"),
        (EPISODES, {"training": OTHER_WIDTH}, "state_offset must be 3 finite numbers"),
    ],
)
def test_refusals(episodes: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        NeuralSCM.fit(episodes, **{"fixed": 1, "epochs": 1, "hidden": 4, **options})
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_fixed_feature_may_be_constant_if_its_range_is_given() -> None:
    scaling = Scaling(np.zeros(3), np.ones(3), np.zeros(1), np.ones(1))
    settings = Training(scaling=scaling, progress=False)
    scm = NeuralSCM.fit(changed(0, 7.0), fixed=1, epochs=1, hidden=4, training=settings)
    assert (scm.fixed, scm.scaling) == (1, scaling)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Training(batch=0), "batch must be at least 1"),
        (lambda: Training(learning_rate=0.0), "learning_rate must be a positive number"),
        (lambda: Training(validation=1.0), "validation must be a share"),
        (lambda: Training(validation=-0.1), "validation must be a positive number, got -0.1"),
        (lambda: Training(patience=0), "patience must be at least 1"),
        (lambda: Scaling(["a"], [1], [0], [1]), "state_offset must be numbers, got ['a']"),
        (lambda: Scaling([0], None, [0], [1]), "state_range must be numbers, got None"),
        (lambda: Scaling([0], [1], 0, [1]), "action_offset must be a list of numbers"),
        (lambda: Scaling([0], [1], [0], [[1]]), "action_range must be a list of numbers"),
        (lambda: Scaling([0], [0], [0], [1]), "the range of state column 0 is 0.0"),
        (lambda: Transitions.collect(EPISODES, features=["a", "b"]), "2 features given, but the"),
        (lambda: Transitions.collect(EPISODES, features=["a", "b", "a"]), "'a' occurs twice"),
        (lambda: Transitions.collect(EPISODES, features="abc"), "must be a list of names"),
        (lambda: Transitions.collect([INDEXED], np.zeros((0, 1))), "actions have shape (0, 1)"),
    ],
)
def test_bad_settings(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
