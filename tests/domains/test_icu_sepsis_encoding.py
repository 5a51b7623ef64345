"""The small encoding of ICU-Sepsis against the package's own arrays (skipped without them)."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from counterplan.domains import icu_sepsis

REPOSITORY = Path(__file__).parents[2]
ORIGINAL = REPOSITORY.parent / "shared" / "data" / "icu_sepsis" / "dynamics.npz"
SHIPPED = files("counterplan.domains") / "data" / "icu_sepsis.npz"

needs_original = pytest.mark.skipif(
    not ORIGINAL.exists(), reason="the original ICU-Sepsis arrays are not here"
)


def encoder() -> ModuleType:
    path = REPOSITORY / "tools" / "encode_icu_sepsis.py"
    spec = importlib.util.spec_from_file_location("encode_icu_sepsis", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shipped_file_is_small_and_licensed() -> None:
    assert len(SHIPPED.read_bytes()) < 200_000
    licence = (files("counterplan.domains") / "data" / "LICENSE.icu-sepsis").read_text()
    assert "MIT License" in licence
    assert "Kartik Choudhary" in licence


@needs_original
def test_model_equals_the_original() -> None:
    icu = icu_sepsis.load()
    with np.load(ORIGINAL, allow_pickle=False) as original:
        transitions = original["tx_mat"]
        initial, sofa = original["d_0"], original["sofa_scores"]
        expert = original["expert_policy"]
    rows = np.stack([[icu.mdp.row(s, a) for a in range(25)] for s in range(716)])
    assert ((rows > 0) == (transitions > 0)).all()
    # The original's rows sum to 1 only within 2.2e-15, the model's are normalised.
    normalised = transitions / transitions.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(rows, normalised, rtol=0, atol=1e-15)
    np.testing.assert_allclose(icu.mdp.initial, initial, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(icu.sofa, sofa)
    restricted = np.where(icu.mdp.admissible, expert, 0.0)[:713]
    restricted /= restricted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(icu.behaviour[:713], restricted, rtol=0, atol=1e-15)


@needs_original
def test_the_tool_makes_the_shipped_file() -> None:
    made = encoder().encode(ORIGINAL)
    with SHIPPED.open("rb") as file, np.load(file, allow_pickle=False) as shipped:
        assert set(made) == set(shipped.files)
        for name, array in made.items():
            assert array.dtype == shipped[name].dtype
            np.testing.assert_array_equal(array, shipped[name])


def test_counts_are_the_smallest_that_fit() -> None:
    as_counts = encoder().as_counts
    np.testing.assert_array_equal(as_counts(np.array([0.25, 0.0, 0.75]), "row"), [1, 0, 3])
    np.testing.assert_array_equal(as_counts(np.zeros(3), "row"), [0, 0, 0])


def test_frequencies_that_are_no_counts_are_refused() -> None:
    golden = (np.sqrt(5) - 1) / 2
    with pytest.raises(SystemExit, match="row 7: not relative frequencies"):
        encoder().as_counts(np.array([golden, 1 - golden]), "row 7")
