"""Reading the AI Clinician's cohort table: levels, dropped stays, and every mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplan.domains import sepsis
from counterplan.domains.sepsis_table import COLUMNS, TOO_LONG, TOO_SHORT
from counterplan.errors import FileError, InputError

Row = dict[str, object]


def stay(number: int, length: int = 10, **changed: object) -> list[Row]:
    """Rows of one stay; doses rise from row to row."""
    return [
        {
            "icustayid": number,
            "bloc": t + 1,
            "gender": 1,
            "re_admission": 0,
            "age": 24000.5,
            "FiO2_1": 0.4,
            "paO2": 90.0 + t,
            "Platelets_count": 200,
            "Total_bili": 0.9,
            "GCS": 14,
            "MeanBP": 70.5,
            "Creatinine": 1.1,
            "output_4hourly": 150,
            "SOFA": t % 3,
            "max_dose_vaso": 0.1 * t,
            "input_4hourly": 100 * t,
            "mechvent": t % 2,
            "died_within_48h_of_out_time": 0,
        }
        | changed
        for t in range(length)
    ]


def write(tmp_path: Path, rows: list[Row], columns: tuple[str, ...] = COLUMNS) -> Path:
    lines = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]
    path = tmp_path / "cohort.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_stay_becomes_an_episode(tmp_path: Path) -> None:
    cohort = sepsis.read_cohort(write(tmp_path, stay(7)))
    (episode,) = cohort.episodes
    assert episode.id == "7"
    assert episode.states.shape == (10, 12)
    assert episode.actions.shape == (9, 3)
    expected = [1, 0, 24000.5, 0.4, 93, 200, 0.9, 14, 70.5, 1.1, 150, 0]
    np.testing.assert_allclose(episode.states[3], expected)
    # The nine doses above zero have the quartiles 0.3, 0.5, 0.7 of the largest, 0.9.
    assert episode.actions[:, 0].tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert episode.actions[:, 1].tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert episode.actions[:, 2].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    np.testing.assert_allclose(cohort.edges.vasopressor, (0.3, 0.5, 0.7))
    np.testing.assert_allclose(cohort.edges.fluids, (300.0, 500.0, 700.0))
    assert cohort.died.tolist() == [False]
    assert cohort.jumps == 0


def test_levels_follow_the_quartiles_of_all_doses_above_zero() -> None:
    rng = np.random.default_rng(0)
    doses = np.where(rng.random(1000) < 0.6, 0.0, rng.lognormal(-2.0, 1.0, 1000))
    fluids = rng.lognormal(5.0, 1.0, 1000)
    levels = sepsis.DoseEdges.quartiles(doses, fluids).levels(doses, fluids)
    assert (levels[:, 0] == 0).sum() == (doses == 0).sum()
    assert np.ptp(np.bincount(levels[:, 0])[1:]) <= 1
    assert np.bincount(levels[:, 1], minlength=5).tolist() == [0, 250, 250, 250, 250]


def test_edges_of_another_cohort(tmp_path: Path) -> None:
    edges = sepsis.DoseEdges((0.05, 0.15, 10.0), (150.0, 250.0, 350.0))
    path = write(tmp_path, stay(7))
    cohort = sepsis.read_cohort(path, edges)
    assert cohort.edges == edges
    (episode,) = cohort.episodes
    assert episode.actions[:, 0].tolist() == [0, 2, 3, 3, 3, 3, 3, 3, 3]
    assert episode.actions[:, 1].tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    "edges", [(0.3, 0.2, 0.4), (0.0, 0.1, 0.2), (0.1, 0.2), (0.1, 0.2, np.nan)]
)
def test_edges_that_are_none(edges: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="edges of fluids doses must be three rising numbers"):
        sepsis.DoseEdges((0.1, 0.2, 0.3), edges)


def test_lengths_outside_10_to_20_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [*stay(1, 9), *stay(2, 10), *stay(3, 20), *stay(4, 21), *stay(5, 1)]
    cohort = sepsis.read_cohort(write(tmp_path, rows))
    assert [episode.id for episode in cohort.episodes] == ["2", "3"]
    assert cohort.dropped == {"1": TOO_SHORT, "4": TOO_LONG, "5": TOO_SHORT}
    assert cohort.summary() == (
        "2 stays kept, 3 dropped (2 with fewer than 10 steps; 1 with more than 20 steps)"
    )


def test_dropped_stays_have_no_say_in_levels_and_scaling(tmp_path: Path) -> None:
    strange = stay(1, 9, max_dose_vaso=1000.0, input_4hourly=1e6, age=99999.0)
    rows = [*stay(2), *stay(3, age=10000.0, Platelets_count=100, Total_bili=2, FiO2_1=1)]
    rows += stay(4, GCS=3, MeanBP=60, Creatinine=2, output_4hourly=0)
    alone = sepsis.read_cohort(write(tmp_path, rows))
    together = sepsis.read_cohort(write(tmp_path, strange + rows))
    assert alone.edges == together.edges
    for one, other in zip(alone.episodes, together.episodes, strict=True):
        assert one == other
    np.testing.assert_array_equal(
        sepsis.scaling(alone).state_range, sepsis.scaling(together).state_range
    )


def test_any_order_more_columns_and_skipped_blocs(tmp_path: Path) -> None:
    rows = [row | {"HR": 90} for row in [*stay(1), *stay(2)]]
    rows[5]["bloc"], rows[6]["bloc"], rows[7]["bloc"] = 7, 8, 12
    rows[8]["bloc"], rows[9]["bloc"] = 13, 14
    in_order = sepsis.read_cohort(write(tmp_path, rows))
    assert in_order.jumps == 2
    first, second = in_order.hours
    assert first.tolist() == [0, 4, 8, 12, 16, 24, 28, 44, 48, 52]
    assert second.tolist() == list(range(0, 40, 4))
    summary = in_order.summary()
    assert summary.endswith("; 2 steps are longer than 4 hours, since blocs are missing")
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    columns = tuple(np.random.default_rng(1).permutation([*COLUMNS, "HR"]))
    mixed = sepsis.read_cohort(write(tmp_path, shuffled, columns))
    assert sorted(mixed.episodes, key=str) == sorted(in_order.episodes, key=str)


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (3, "paO2", "NaN", "row 5, column 'paO2': is missing; fill it in"),
        (0, "GCS", "abc", "row 2, column 'GCS': 'abc' is not a number; correct"),
        (9, "SOFA", 25, "row 11, column 'SOFA': '25' is above high = 24 points"),
        (2, "mechvent", 0.5, "row 4, column 'mechvent': '0.5' is none of 'false', 'true'"),
        (2, "gender", 2, "row 4, column 'gender': '2' is none of 'false', 'true'"),
        (0, "bloc", 0, "row 2, column 'bloc': 0 is not a whole number from 1 up"),
        (9, "bloc", 9.5, "row 11, column 'bloc': 9.5 follows 9 in episode '1'; expected 10"),
        (2, "bloc", 2, "row 4, column 'bloc': 2 occurs twice in episode '1'"),
        (4, "input_4hourly", -1, "row 6, column 'input_4hourly': '-1' is below low = 0 mL"),
        (9, "age", 1.0, "row 11, column 'age': differs from row 2 of episode '1'"),
        (9, "died_within_48h_of_out_time", 1, "row 11, column 'died_within_48h_of_out_time'"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, row: int, column: str, value: object, message: str
) -> None:
    rows = stay(1)
    rows[row][column] = value
    path = write(tmp_path, rows)
    with pytest.raises(FileError) as problem:
        sepsis.read_cohort(path)
    text = str(problem.value)
    assert text.startswith(f"{path}, ")
    assert message in text
    assert "\n" not in text
    assert "schema" not in text


def test_tables_without_a_usable_stay(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no stay can be used: 0 stays kept, 1 dropped \(1 with"):
        sepsis.read_cohort(write(tmp_path, stay(1, 4)))
    with pytest.raises(FileError, match=r"no vasopressor dose is above zero.*pass the edges"):
        sepsis.read_cohort(write(tmp_path, stay(1, max_dose_vaso=0)))
    with pytest.raises(FileError, match=r"no column 'SOFA'; correct the header$"):
        sepsis.read_cohort(write(tmp_path, stay(1), tuple(set(COLUMNS) - {"SOFA"})))
