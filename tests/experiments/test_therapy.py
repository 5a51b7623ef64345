"""Therapy from table to model: scores, dropped patients, every mistake; prior, rewards, rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplan.core.episode import Episode
from counterplan.errors import FileError
from experiments import therapy
from experiments.therapy import NO_ANSWERS, TOO_SHORT, phq9_severity

BHA, CRT = therapy.TOPICS.index("BHA"), therapy.TOPICS.index("CRT")
HEADER = "patient,topic,phq1,phq2,phq3,phq4,phq5,phq6,phq7,phq8,phq9"
ONES = "1,1,1,1,1,1,1,1,1"
TOPICS = ["STR", "BIO", "PSE", "BHA", "REV", "CRT", "INR", "THP", "RLP", "END"]


def rows(patient: str = "A", topics: list[str] | None = None, answers: str = ONES) -> list[str]:
    return [f"{patient},{topic},{answers}" for topic in topics or TOPICS]


def write(tmp_path: Path, lines: list[str], header: str = HEADER) -> Path:
    path = tmp_path / "sessions.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("answers", "band"),
    [
        ([0] * 9, 0),
        ([1, 1, 1, 1, 0, 0, 0, 0, 0], 0),  # 4
        ([1, 1, 1, 1, 1, 0, 0, 0, 0], 1),  # 5
        ([1] * 9, 1),  # 9
        ([2, 1, 1, 1, 1, 1, 1, 1, 1], 2),  # 10
        ([2, 2, 2, 2, 2, 1, 1, 1, 1], 2),  # 14
        ([2, 2, 2, 2, 2, 2, 1, 1, 1], 3),  # 15
        ([3, 2, 2, 2, 2, 2, 2, 2, 2], 3),  # 19
        ([3, 3, 2, 2, 2, 2, 2, 2, 2], 4),  # 20
        ([3] * 9, 4),
        ([3, -1, -1, -1, -1, -1, -1, -1, -1], 4),  # 9 / 1 * 3 = 27
        ([1, 1, 1, 1, -1, -1, -1, -1, 0], 1),  # 9 / 5 * 4 = 7.2
        ([1, 0, -1, -1, -1, -1, -1, -1, -1], 0),  # 9 / 2 * 1 = 4.5, to the even 4
        ([2, 1, 1, 1, 1, 1, 1, 0, -1], 1),  # 9 / 8 * 8 = 9
        ([2, 1, 1, 1, 1, 1, 1, 1, -1], 2),  # 9 / 8 * 9 = 10.125
        ([-1] * 9, -1),
    ],
)
def test_severity_bands(answers: list[int], band: int) -> None:
    assert phq9_severity([answers]).tolist() == [band]


def test_a_patient_becomes_an_episode(tmp_path: Path) -> None:
    cohort = therapy.read_sessions(write(tmp_path, rows()))
    (episode,) = cohort.episodes
    assert episode.id == "A"
    assert episode.states.tolist() == [1] * 10
    assert [therapy.TOPICS[a] for a in episode.actions] == TOPICS
    assert cohort.dropped == {}
    assert cohort.summary() == "1 patients kept, 0 dropped"


def test_topics_as_numbers_labels_and_spreadsheet_numbers(tmp_path: Path) -> None:
    spelled = ["0", "1.0", "pse", " BHA ", "4", "5", "6", "7", "8", "10.0"]
    (episode,) = therapy.read_sessions(write(tmp_path, rows(topics=spelled))).episodes
    assert [therapy.TOPICS[a] for a in episode.actions] == TOPICS


def test_interleaved_patients_blank_lines_and_other_columns(tmp_path: Path) -> None:
    lines = [line for pair in zip(rows("A"), rows("B"), strict=True) for line in pair]
    lines = [f"{line},note" for line in lines]
    cohort = therapy.read_sessions(write(tmp_path, [*lines, "", ""], f"{HEADER},remark"))
    assert [episode.id for episode in cohort.episodes] == ["A", "B"]
    assert cohort.episodes[0].actions.tolist() == cohort.episodes[1].actions.tolist()


def test_dropped_patients_are_reported_with_the_reason(tmp_path: Path) -> None:
    silent = rows("C")
    silent[4] = f"C,REV{',' * 9}"
    lines = [*rows("A"), *rows("B", TOPICS[:9]), *silent, *rows("D", ["STR"])]
    cohort = therapy.read_sessions(write(tmp_path, lines))
    assert [episode.id for episode in cohort.episodes] == ["A"]
    assert cohort.dropped == {"B": TOO_SHORT, "C": NO_ANSWERS, "D": TOO_SHORT}
    assert cohort.summary() == (
        "1 patients kept, 3 dropped (1 with a session without any PHQ-9 answer; "
        "2 with fewer than 10 sessions)"
    )


def damaged(row: int, line: str) -> list[str]:
    """Ten good sessions, of which the one in this row of the file is replaced."""
    lines = rows()
    lines[row - 2] = line
    return lines


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (damaged(4, f"A,XYZ,{ONES}"), "row 4, column 'topic': 'XYZ' is not a topic (0..10 or"),
        (damaged(4, f"A,11,{ONES}"), "row 4, column 'topic': '11' is not a topic"),
        (damaged(4, f"A,,{ONES}"), "row 4, column 'topic': is not a topic"),
        (damaged(5, f",BHA,{ONES}"), "row 5, column 'patient': is no name"),
        (damaged(3, "A,BIO,1,1,4,1,1,1,1,1,1"), "row 3, column 'phq3': '4' is not an answer"),
        (damaged(3, "A,BIO,1,1,1,1,1,1,1,1,-1"), "row 3, column 'phq9': '-1' is not an answer"),
        (damaged(3, "A,BIO,1.5,1,1,1,1,1,1,1,1"), "row 3, column 'phq1': '1.5' is not an answer"),
        (
            damaged(6, f"A,str,{ONES}"),
            "row 6, column 'topic': 'str' is session 5 of 10 of patient 'A', but may only be the "
            "first",
        ),
        (
            damaged(6, f"A,10,{ONES}"),
            "row 6, column 'topic': '10' is session 5 of 10 of patient 'A', but may only be the "
            "last",
        ),
        (rows(topics=["STR", "END", "BHA"]), "row 3, column 'topic': 'END' is session 2 of 3"),
        (rows(topics=TOPICS[:3]), "no patient can be used: 0 patients kept, 1 dropped (1 with few"),
        ([f"A,STR,{ONES},7,7"], "row 2: has 13 fields, but the header has 11"),
        ([], "has a header but no rows"),
        (["", ""], "has a header but no rows"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = write(tmp_path, lines)
    with pytest.raises(FileError) as problem:
        therapy.read_sessions(path)
    text = str(problem.value)
    assert text.startswith(str(path))
    assert message in text
    assert "\n" not in text


def test_posterior_means_of_the_neighbour_prior() -> None:
    mdp = therapy.estimate([Episode([2, 2, 1, 1], [BHA, BHA, CRT, therapy.END])])
    # One transition 2 -> 2 and one 2 -> 1 on top of (0.01, 1, 1, 1, 0.01).
    expected = np.array([0.01, 2.0, 2.0, 1.0, 0.01])
    np.testing.assert_allclose(mdp.row(2, BHA), expected / expected.sum(), atol=1e-15)
    prior_only = np.array([1.0, 1.0, 0.01, 0.01, 0.01])
    np.testing.assert_allclose(mdp.row(0, CRT), prior_only / prior_only.sum(), atol=1e-15)
    assert mdp.state_name(4) == "severe"
    assert mdp.action_name(CRT) == "CRT"


def test_unobserved_pairs_are_barred_or_valued() -> None:
    episodes = [Episode([2, 1], [BHA, therapy.END])]
    barred = therapy.estimate(episodes).rewards
    assert barred[2, BHA] == 3.0
    assert barred[1, therapy.END] == 4.0  # seen in the last step, where no transition follows
    assert np.isneginf(barred).sum() == 55 - 2
    valued = therapy.estimate(episodes, unobserved="value").rewards
    np.testing.assert_array_equal(valued, np.repeat([[5.0], [4], [3], [2], [1]], 11, axis=1))


@pytest.mark.parametrize("length", [1, 2, 12])
def test_constraints_fix_the_ends_and_bar_their_topics(length: int) -> None:
    episode = Episode([2] * length, [BHA] * length)
    alternatives = therapy.constraints(episode).resolve(length, 5, 11).alternatives
    assert not alternatives[[0, -1]].any()
    assert not alternatives[:, [therapy.START, therapy.END]].any()
    assert alternatives[1:-1, 1:10].all()
