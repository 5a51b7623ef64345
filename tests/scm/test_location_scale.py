"""Location-scale, additive and post-nonlinear models from any functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import PointSCM, PostNonlinearSCM
from counterplan.scm.point import ElementwiseSCM, Region

Floats = NDArray[np.float64]
STATES = np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
ACTIONS = np.array([[1.0], [-2.0]])
AFTER = np.array([[1.0, 0.3, 0.4], [0.0, -1.0, 2.0]])


def location(states: Floats, actions: Floats) -> Floats:
    return states[:, 1:] * 0.5 + actions


def scale(states: Floats, actions: Floats) -> Floats:
    return 1.0 + states[:, 1:] ** 2


def test_location_scale_by_hand() -> None:
    scm = cp.LocationScaleSCM(location, scale, lipschitz=(0.5, 2.0), fixed=1)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise == pytest.approx(np.array([[-1.7 / 5.0, -0.1 / 2.0], [0.75 / 1.25, 2.5 / 10.0]]))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(AFTER)
    assert scm.lipschitz(noise) == pytest.approx([0.5 + 2.0 * 0.34, 0.5 + 2.0 * 0.6])
    assert scm.slopes(Region(STATES[0], 1.0, np.ones(3)), ACTIONS, noise[0]) is None


def test_additive_noise_by_hand() -> None:
    scm = cp.AdditiveNoiseSCM(location, lipschitz=0.5, fixed=1)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise == pytest.approx(np.array([[-1.7, -0.1], [0.75, 2.5]]))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(AFTER)
    assert scm.lipschitz(noise) == pytest.approx([0.5, 0.5])


def test_post_nonlinear_by_hand() -> None:
    scm = PostNonlinearSCM(location, np.exp, np.log, lipschitz=(0.5, 3.0), fixed=1)
    after = np.abs(AFTER) + 0.1
    after[:, 0] = STATES[:, 0]
    noise = scm.infer(STATES, ACTIONS, after)
    assert noise == pytest.approx(np.log(after[:, 1:]) - location(STATES, ACTIONS))
    assert scm.step(STATES, ACTIONS, noise) == pytest.approx(after)
    assert scm.lipschitz(noise) == pytest.approx([1.5, 1.5])


@pytest.mark.parametrize(
    "scm",
    [
        cp.LocationScaleSCM(location, scale, fixed=1),
        cp.AdditiveNoiseSCM(location, fixed=1),
        PostNonlinearSCM(location, np.sinh, np.arcsinh, fixed=1),
    ],
)
def test_all_are_elementwise_and_silent_about_constants(scm: PointSCM) -> None:
    assert isinstance(scm, ElementwiseSCM)
    noise = scm.infer(STATES, ACTIONS, AFTER)
    assert noise.shape == (2, 2)
    assert scm.lipschitz(noise) is None


def test_abduct_reads_indices_and_vectors() -> None:
    scm = cp.AdditiveNoiseSCM(location, fixed=1)
    states = np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    by_index = scm.abduct(cp.Episode(states, [1, 0]), np.array([[0.0], [4.0]]))
    by_vector = scm.abduct(cp.Episode(states, [[4.0], [0.0]]))
    assert np.array_equal(by_index, by_vector)
    assert by_index == pytest.approx(np.array([[0.0 - 5.0, 1.0 - 5.5], [1.0, 0.5]]))
    with pytest.raises(InputError, match="its actions are indices: pass the vectors"):
        scm.abduct(cp.Episode(states, [1, 0]))


def additive(lipschitz: Any) -> cp.AdditiveNoiseSCM:
    return cp.AdditiveNoiseSCM(location, lipschitz)


def location_scale(lipschitz: Any) -> cp.LocationScaleSCM:
    return cp.LocationScaleSCM(location, scale, lipschitz)


def post_nonlinear(lipschitz: Any) -> PostNonlinearSCM:
    return PostNonlinearSCM(location, np.exp, np.log, lipschitz)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.AdditiveNoiseSCM(location, lipschitz=-1.0), "finite and not negative"),
        (lambda: cp.LocationScaleSCM(location, scale, (0.5, np.inf)), "finite and not negative"),
        (lambda: PostNonlinearSCM(location, np.exp, np.log, (np.nan, 1.0)), "Lipschitz"),
        (lambda: cp.AdditiveNoiseSCM(location, fixed=-1), "fixed must be at least 0"),
        (lambda: additive("x"), "constant of the location must be a number.* got 'x'"),
        (lambda: additive((1.0, 0.1)), r"constant of the location must be .* got \(1.0, 0.1\)"),
        (lambda: location_scale(1.0), "two constants, of location and scale, or None; got 1.0"),
        (lambda: location_scale((1, 2, 3)), r"two constants, of location and scale.*\(1, 2, 3\)"),
        (lambda: location_scale("xy"), "constant of the location must be a number.* got 'x'"),
        (lambda: location_scale((1.0, None)), "constant of the scale must be a number.* got None"),
        (lambda: post_nonlinear(2.0), "two constants, of location and link, or None; got 2.0"),
        (lambda: post_nonlinear((1.0, "x")), "constant of the link must be a number.* got 'x'"),
    ],
)
def test_refuses_bad_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s, a: s, r"location returned shape \(2, 3\), expected \(2, 2\)"),
        (lambda s, a: np.full((2, 2), np.nan), "location is not finite for state"),
    ],
)
def test_refuses_what_functions_return(wrong: Any, message: str) -> None:
    for scm in (
        cp.AdditiveNoiseSCM(wrong, fixed=1),
        cp.LocationScaleSCM(wrong, scale, fixed=1),
        PostNonlinearSCM(wrong, np.sinh, np.arcsinh, fixed=1),
    ):
        with pytest.raises(InputError, match=message):
            scm.infer(STATES, ACTIONS, AFTER)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_refuses_a_scale_that_is_not_positive(value: float) -> None:
    scm = cp.LocationScaleSCM(location, lambda s, a: np.array([[1.0, 1.0], [1.0, value]]), fixed=1)
    message = rf"the scale of feature 2 is {value} for state \[0.0, 0.5, 3.0\].*must be positive"
    for call in (scm.infer, scm.step):
        with pytest.raises(InputError, match=message):
            call(STATES, ACTIONS, AFTER if call == scm.infer else np.zeros((2, 2)))


def test_refuses_what_a_link_never_takes() -> None:
    scm = PostNonlinearSCM(location, np.exp, np.log, fixed=1)
    after = AFTER.copy()
    after[1, 2] = 0.0
    with (
        pytest.raises(InputError, match=r"feature 1 is -1\.0, which the link never takes"),
        np.errstate(all="ignore"),
    ):
        scm.infer(STATES, ACTIONS, after)
