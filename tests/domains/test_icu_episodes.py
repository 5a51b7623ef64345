"""The SOFA score; crude tables of real stays: what is filled and how; the MIMIC-III demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains import icu_episodes
from counterplan.domains.icu_episodes import FEATURES, FIXED, sofa_points
from counterplan.errors import FileError

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY.parent / "shared" / "data" / "mimic3_demo" / "episodes_4h.csv"
Row = dict[str, object]


def stay(number: int, length: int = 4, **changed: object) -> list[Row]:
    return [
        {
            "episode_id": number,
            "t": t,
            "sex": "Female",
            "age": 70.5,
            "hr": 80 + t,
            "map": 75,
            "resp": 18,
            "fio2": 40,
            "po2": 100,
            "lact": 1.5,
            "bili": 0.8,
            "plt": 200,
            "crea": 1.0,
            "urine": 200,
            "a_vaso": t % 5,
            "a_iv": 4,
            "died": 0,
        }
        | changed
        for t in range(length)
    ]


def write(tmp_path: Path, rows: list[Row]) -> Path:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path = tmp_path / "stays.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def feature(episode: cp.Episode, name: str) -> list[float]:
    return list(episode.states[:, FEATURES.index(name)])


def test_a_stay_becomes_an_episode(tmp_path: Path) -> None:
    found = icu_episodes.read_episodes_4h(write(tmp_path, [*stay(5, died=1), *stay(4, 2)]))
    first, second = found.episodes
    assert (first.id, second.id) == ("5", "4")
    # PaO2 / FiO2 of 250 is worth two points.
    expected = [1, 70.5, 81, 75, 18, 40, 100, 1.5, 0.8, 200, 1.0, 200, 2]
    np.testing.assert_allclose(first.states[1], expected)
    assert first.actions.tolist() == [[0, 4], [1, 4], [2, 4]]
    assert found.died.tolist() == [True, False]
    assert set(found.filled.values()) == {(0, 0, 0)}


def test_gaps_are_carried_forward_then_imputed_and_counted(tmp_path: Path) -> None:
    rows = [*stay(1, 5), *stay(2, 3)]
    for row, value in zip(rows, ["", 2.0, "", "NaN", 4.0, "", "", 9.0], strict=True):
        row["crea"] = value
    found = icu_episodes.read_episodes_4h(write(tmp_path, rows))
    first, second = found.episodes
    # The median of what is known after carrying: 2, 2, 2, 4, 9.
    assert feature(first, "crea") == [2.0, 2.0, 2.0, 2.0, 4.0]
    assert feature(second, "crea") == [2.0, 2.0, 9.0]
    assert found.filled["crea"] == (2, 3, 0)
    assert [one.filled for one in found.recorded] == [3, 2]
    assert "8 steps; of 80 values 0 implausible, 2 carried forward, 3 imputed" in found.summary()


def test_outliers_count_as_missing(tmp_path: Path) -> None:
    rows = stay(1)
    rows[2]["hr"] = 0
    rows[0]["resp"] = 999
    found = icu_episodes.read_episodes_4h(write(tmp_path, rows))
    assert feature(found.episodes[0], "hr") == [80, 81, 81, 83]
    assert feature(found.episodes[0], "resp") == [18, 18, 18, 18]
    assert (found.filled["hr"], found.filled["resp"]) == ((1, 0, 1), (0, 1, 1))


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (1, "t", 7, "row 3, column 't': 7 follows 3 in episode '1'; expected 4: add the missing"),
        (2, "sex", "F", "row 4, column 'sex': 'F' is none of 'Male', 'Female'; correct it"),
        (2, "sex", "Male", "row 4, column 'sex': differs from row 2 of episode '1'"),
        (2, "age", "", "row 4, column 'age': is missing"),
        (2, "a_iv", 5, "row 4, column 'a_iv': '5' is none of 0, 1, 2, 3, 4; correct it"),
        (2, "a_vaso", "", "row 4, column 'a_vaso': is missing"),
        (2, "hr", "fast", "row 4, column 'hr': 'fast' is not a number"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, row: int, column: str, value: object, message: str
) -> None:
    rows = stay(1)
    rows[row][column] = value
    with pytest.raises(FileError) as problem:
        icu_episodes.read_episodes_4h(write(tmp_path, rows))
    assert message in str(problem.value)


def test_actions_and_reward() -> None:
    vectors = icu_episodes.action_set()
    assert vectors.shape == (25, 2)
    assert vectors[5 * 3 + 2].tolist() == [3, 2]
    assert icu_episodes.reward()(np.arange(13.0)[None]).tolist() == [-12.0]


@pytest.fixture(scope="module")
def demo() -> icu_episodes.IcuEpisodes:
    if not DEMO.is_file():
        pytest.skip("the MIMIC-III demo episodes are not here")
    return icu_episodes.read_episodes_4h(DEMO)


def test_demo_is_read_whole(demo: icu_episodes.IcuEpisodes) -> None:
    assert len(demo.episodes) == 132
    assert sum(len(episode) for episode in demo.episodes) == 2465
    outside = {name: counts.outside for name, counts in demo.filled.items() if counts.outside}
    assert outside == {"hr": 1, "resp": 3}
    assert demo.filled["hr"].carried == 1
    assert (demo.filled["bili"].mean, demo.filled["urine"].mean) == (1293, 0)


def test_demo_passes_through_a_neural_fit_and_explanations(
    demo: icu_episodes.IcuEpisodes,
) -> None:
    """Stays of every length, long searches cut short: answers are replayed, and never worse than
    greedy ones."""
    pytest.importorskip("jax")
    scm = cp.NeuralSCM.fit(demo.episodes, hidden=16, epochs=20, seed=0, fixed=len(FIXED))
    by_length = sorted(demo.episodes, key=len)
    chosen = by_length[:: len(by_length) // 6]
    assert len(chosen[0]) < 8
    assert len(chosen[-1]) > 25
    asked: dict[str, Any] = {
        "k": 2,
        "actions": icu_episodes.action_set(),
        "reward": icu_episodes.reward(),
    }
    proved = 0
    for episode in chosen:
        found = cp.explain(scm, episode, limits=cp.Limits(nodes=300), **asked)
        greedy = cp.explain(scm, episode, solver=cp.baselines.Greedy(), **asked)
        proved += found.status == "optimal"
        assert len(found.changes) <= 2
        assert found.factual_value == pytest.approx(-sum(feature(episode, "sofa")))
        assert found.factual_value <= greedy.value <= found.value + 1e-9 <= found.bound + 2e-9
        assert found.value == pytest.approx(-found.states[:, -1].sum())
        np.testing.assert_allclose(found.states[0], episode.states[0])
        np.testing.assert_allclose(
            found.states[:, : len(FIXED)], episode.states[:, : len(FIXED)], rtol=1e-9
        )
    assert proved >= len(chosen) // 3


HEALTHY = {
    "fio2": 0.21,
    "pao2": 95.0,
    "platelets": 250.0,
    "bilirubin": 0.6,
    "pressure": 85.0,
    "creatinine": 0.8,
    "urine": 300.0,
}


def points(**changed: float) -> dict[str, int]:
    given = {name: np.array([value]) for name, value in (HEALTHY | changed).items()}
    return {organ: int(found[0]) for organ, found in sofa_points(**given).items()}


@pytest.mark.parametrize(
    ("organ", "feature", "values", "expected"),
    [
        (
            "lungs",
            "pao2",
            [84.0, 83.9, 63.0, 62.9, 42.0, 41.9, 21.0, 20.9],
            [0, 1, 1, 2, 2, 3, 3, 4],
        ),
        ("coagulation", "platelets", [150, 149, 100, 99, 50, 49, 20, 19], [0, 1, 1, 2, 2, 3, 3, 4]),
        ("liver", "bilirubin", [1.1, 1.2, 1.9, 2, 5.9, 6, 11.9, 12], [0, 1, 1, 2, 2, 3, 3, 4]),
        ("circulation", "pressure", [70, 69.9, 65, 64.9], [0, 1, 1, 2]),
        ("kidneys", "creatinine", [1.1, 1.2, 2, 3.4, 3.5, 5], [0, 1, 2, 2, 3, 4]),
        ("kidneys", "urine", [84, 83, 34, 33], [0, 3, 3, 4]),
    ],
)
def test_thresholds(organ: str, feature: str, values: list[float], expected: list[int]) -> None:
    for value, wanted in zip(values, expected, strict=True):
        found = points(**{feature: float(value)})
        assert found[organ] == wanted == sum(found.values()), value


def test_the_worse_of_two_signs_counts() -> None:
    assert sum(points(creatinine=2.5, urine=20.0).values()) == 4


def test_everything_fails() -> None:
    worst = points(
        fio2=1.0, pao2=50.0, platelets=5.0, bilirubin=20.0, pressure=50.0, creatinine=9.0
    )
    assert sum(worst.values()) == 18
