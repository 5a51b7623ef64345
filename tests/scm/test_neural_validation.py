"""Cross-validation over Lipschitz constants: the price of a constraint, on unseen episodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterplan.core.problem import Progress
from counterplan.errors import InputError, TrainingError
from counterplan.scm.neural_validation import GridPoint, GridSettings, cross_validate
from counterplan.scm.training import Training, min_max_scaling
from counterplan.scm.transitions import Transitions

from .neural_support import CURVED

SETTINGS = GridSettings(
    hidden=16, epochs=25, fixed=1, training=Training(learning_rate=1e-2, progress=False)
)


def test_grid() -> None:
    episodes = CURVED.episodes(240, 0)
    tight, loose, free = cross_validate(
        episodes, [(0.2, 0.1), (1.5, 0.1), None], folds=3, settings=SETTINGS
    )
    assert [point.lipschitz for point in (tight, loose, free)] == [(0.2, 0.1), (1.5, 0.1), None]
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
    (alone,) = cross_validate(episodes, [(1.5, 0.1)], folds=3, settings=SETTINGS)
    np.testing.assert_array_equal(alone.validation, loose.validation)


def test_a_callback_hears_every_model_and_can_stop() -> None:
    episodes, settings = CURVED.episodes(60, 0), replace(SETTINGS, epochs=10)
    heard: list[Progress] = []

    def listen(progress: Progress) -> bool:
        heard.append(progress)
        return len(heard) < 5

    grid = [(1.5, 0.1), (1.0, 0.1)]
    whole = cross_validate(episodes, grid, folds=3, settings=settings)
    stopped = cross_validate(episodes, grid, folds=3, settings=settings, progress=listen)
    assert [(one.done, one.total) for one in heard] == [(number, 6) for number in range(1, 6)]
    for one, other in zip(stopped, whole, strict=True):
        assert one.validation.tolist() == other.validation[:2].tolist()
    with pytest.raises(TrainingError, match="stopped before every point"):
        cross_validate(episodes, grid, folds=3, settings=settings, progress=lambda _: False)


def test_decrease_is_a_percentage_of_the_likelihood() -> None:
    reference = GridPoint(None, np.zeros(2), np.array([-9.0, -11.0]))
    worse = GridPoint((1.0, 0.1), np.zeros(2), np.array([-9.0, -9.8]))
    assert worse.decrease(reference) == pytest.approx(6.0)


def test_folds_are_episodes() -> None:
    data = Transitions.collect(CURVED.episodes(10, 0))
    parts = data.parts(3, np.random.default_rng(0))
    assert sorted(len(part) for part in parts) == [3, 3, 4]
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ([], {}, "the grid is empty"),
        ([(1.0, -1.0)], {}, "must be a positive number, got -1.0"),
        ([None], {"folds": 1}, "folds must be at least 2"),
        ([None], {"folds": 11}, "10 episodes cannot be dealt into 11 folds"),
        ([None], {"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_questions(grid: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cross_validate(CURVED.episodes(10, 0), grid, settings=SETTINGS, **options)
