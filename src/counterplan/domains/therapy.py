"""Cognitive behavioural therapy (2021 paper, section 6 and appendices C and D).

States are the five PHQ-9 severity bands s = 0..4, actions the eleven topics of a session. From the
observed sessions,

    P(s_j | s_i, a) = (alpha_ij + c_j) / sum_l (alpha_il + c_l),    R(s, a) = 5 - s

with c_j transitions seen from s_i to s_j after a, and alpha_ij = 1 for j in {i-1, i, i+1}, else
0.01. Pairs (s, a) never seen get reward -inf, so that no explanation rests on them; appendix D
values them like the others. The first and last session stay as they were, and their topics STR and
END are no alternatives for the sessions in between.

Tables of sessions (`read_sessions`) have one row per session, each patient's rows in time order:

    patient          any name
    topic            what the session was about: a label or number of TOPICS
    phq1 .. phq9     the PHQ-9 answers of that session, 0..3, empty if not given

The severity of a session comes from the sum of the answers, scaled up where some are missing
(9 / valid answers * their sum, rounded; halves go to the even number), in the usual five bands.
Other columns and blank lines are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.table import Block, open_table_file
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import FileError, InputError
from counterplan.scm.estimate import count_transitions, estimate_mdp, neighbour_prior
from counterplan.scm.tabular import TabularMDP

if TYPE_CHECKING:
    import polars as pl

TOPICS = ("STR", "BIO", "PSE", "BHA", "REV", "CRT", "INR", "THP", "RLP", "EXT", "END")
START = TOPICS.index("STR")
END = TOPICS.index("END")
SEVERITIES = ("none", "mild", "moderate", "moderately severe", "severe")
SEVERITY_STARTS = (5, 10, 15, 20)
QUESTIONS = tuple(f"phq{i}" for i in range(1, 10))
LARGEST_ANSWER = 3
MISSING = -1
MINIMUM_SESSIONS = 10
TOO_SHORT = f"fewer than {MINIMUM_SESSIONS} sessions"
NO_ANSWERS = "a session without any PHQ-9 answer"
EXPECTED = "patient, topic, phq1 .. phq9, separated by commas"
COLUMNS = ("patient", "topic", *QUESTIONS)
TOPIC_CODES = {
    name: float(code)
    for code, label in enumerate(TOPICS)
    for name in (label, label.lower(), label.title())
}
NO_TOPIC = f"is not a topic (0..{len(TOPICS) - 1} or one of {' '.join(TOPICS)}); correct the entry"


@dataclass(frozen=True)
class TherapyCohort:
    """The patients of a table.

    episodes  one per patient: severities 0..4 as states, topics 0..10 as actions
    dropped   why each patient that is left out is left out
    """

    episodes: tuple[Episode, ...]
    dropped: Mapping[str, str]

    def summary(self) -> str:
        """One line: how many patients were kept and dropped, and why."""
        reasons = Counter(self.dropped.values())
        why = "; ".join(f"{count} with {reason}" for reason, count in sorted(reasons.items()))
        kept = f"{len(self.episodes)} patients kept, {len(self.dropped)} dropped"
        return f"{kept} ({why})" if why else kept


def phq9_severity(answers: ArrayLike) -> IntArray:
    """(n,) severity bands 0..4 of (n, 9) answers 0..3, -1 where missing; -1 if all nine are."""
    table = np.asarray(answers)
    given = table != MISSING
    valid = given.sum(axis=1)
    scores = np.rint(9 / np.maximum(valid, 1) * np.where(given, table, 0).sum(axis=1))
    bands = np.searchsorted(SEVERITY_STARTS, scores, side="right")
    return np.where(valid > 0, bands, MISSING).astype(np.int64)


def read_sessions(path: str | Path) -> TherapyCohort:
    """The cohort in a CSV table; mistakes in it are errors that name row, column and value."""
    table = open_table_file(path, f"a table with the columns {EXPECTED}", formats=()).read(COLUMNS)
    topics = table.choices("topic", TOPIC_CODES, range(len(TOPICS)), NO_TOPIC, may_miss=False)
    severities = _severities(table)
    patients = table.texts["patient"]
    nameless = (patients == "").to_numpy()
    table.report(nameless, "patient", "is no name; name the patient or remove the row")
    found = table.texts.with_row_index().group_by("patient", maintain_order=True).agg("index")
    groups = {name: np.array(rows, dtype=np.int64) for name, rows in found.iter_rows()}
    _check_topic_order(table, topics, groups)
    table.mistakes.refuse()
    episodes: list[Episode] = []
    dropped: dict[str, str] = {}
    for patient, rows in groups.items():
        if len(rows) < MINIMUM_SESSIONS:
            dropped[patient] = TOO_SHORT
        elif (severities[rows] == MISSING).any():
            dropped[patient] = NO_ANSWERS
        else:
            episodes.append(Episode(severities[rows], topics[rows].astype(np.int64), id=patient))
    cohort = TherapyCohort(tuple(episodes), dropped)
    if not episodes:
        raise FileError(f"{path}: no patient can be used: {cohort.summary()}")
    return cohort


def _severities(table: Block) -> IntArray:
    problem = f"is not an answer (0..{LARGEST_ANSWER} or empty); correct the entry"
    columns = [table.choices(one, {}, range(LARGEST_ANSWER + 1), problem) for one in QUESTIONS]
    answers = np.stack(columns, axis=1)
    return phq9_severity(np.where(np.isnan(answers), MISSING, answers))


def _check_topic_order(table: Block, topics: FloatArray, groups: Mapping[str, IntArray]) -> None:
    """STR only in a patient's first session, END only in the last."""
    for patient, rows in groups.items():
        middle = np.arange(len(rows))
        late = (topics[rows] == START) & (middle > 0)
        early = (topics[rows] == END) & (middle < len(rows) - 1)
        for t in np.flatnonzero(late | early):
            place = "first" if late[t] else "last"
            problem = f"is session {t + 1} of {len(rows)} of patient {patient!r}, but may only be "
            problem += f"the {place}; correct the topic or the order of rows"
            table.report(np.arange(len(table)) == rows[t], "topic", problem)


# --- Simulated tables -------------------------------------------------------------------------
# The clinical data of the 2021 paper is not public.
#
# This is an invention, not an estimate: no number here comes from patients. Patients begin with
# mild to moderate symptoms and lose some three points in the course of a therapy. Therapists
# follow a manual of 20 sessions with detours; a patient's PHQ-9 score x moves by
#
#     x' = x + effect(topic, x >= 15) + noise,    0 <= x <= 27
#
# and the answers of a session share out the rounded score. The effects contain one finding for
# explanations to rediscover: cognitive restructuring (CRT, and likewise THP) helps in mild to
# moderate phases but not in severe ones, where behavioural activation (BHA) helps most.

MANUAL = (
    *("STR", "BIO", "PSE", "PSE", "BHA", "BHA", "BHA", "REV", "CRT", "CRT"),
    *("CRT", "CRT", "INR", "INR", "EXT", "THP", "THP", "RLP", "RLP", "END"),
)
# Mean change of the score in one session: below 15 points, and from 15 on.
EFFECTS = {
    "STR": (0.0, 0.0),
    "BIO": (0.05, 0.15),
    "PSE": (-0.2, -0.15),
    "BHA": (-0.2, -0.9),
    "REV": (-0.1, 0.0),
    "CRT": (-0.4, 0.25),
    "INR": (-0.25, -0.1),
    "THP": (-0.3, 0.15),
    "RLP": (-0.15, -0.1),
    "EXT": (-0.1, -0.3),
    "END": (0.0, 0.0),
}
DETOURS = tuple(topic for topic in EFFECTS if topic not in ("STR", "END"))
HIGH_SCORE = 15
LARGEST_SCORE = LARGEST_ANSWER * len(QUESTIONS)
SCORE_NOISE = 1.0
DETOUR_PROBABILITY = 0.25
MISSING_PROBABILITY = 0.02
DROPOUT_SHARE = 0.05


def simulate_sessions(patients: int = 77, seed: Seed = 0) -> pl.DataFrame:
    """A table as `read_sessions` reads it; about one patient in twenty stops before session 10."""
    import polars as pl

    count = whole_number(patients, "patients", minimum=1)
    rng = generator(seed)
    dropouts = set(rng.choice(count, size=round(DROPOUT_SHARE * count), replace=False).tolist())
    columns: dict[str, list[str | int | None]] = {
        name: [] for name in ("patient", "topic", *QUESTIONS)
    }
    for patient in range(count):
        topics = _topics(rng, drops_out=patient in dropouts)
        for topic, score in zip(topics, _scores(topics, rng), strict=True):
            columns["patient"].append(f"P{patient + 1:03d}")
            columns["topic"].append(topic)
            for question, answer in zip(QUESTIONS, _answers(score, rng), strict=True):
                columns[question].append(answer)
    schema = {"patient": pl.String, "topic": pl.String} | dict.fromkeys(QUESTIONS, pl.Int64)
    return pl.DataFrame(columns, schema=schema)


def write_sessions(path: str | Path, patients: int = 77, seed: Seed = 0) -> None:
    """Write a simulated table as CSV."""
    table = simulate_sessions(patients, seed)
    try:
        table.write_csv(Path(path))
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror}; check the path") from None


def _topics(rng: np.random.Generator, drops_out: bool) -> list[str]:
    """The manual, shortened, with detours between the first session and the closing one."""
    middle = MANUAL[1:-1]
    shortest = MINIMUM_SESSIONS - 2
    length = shortest + int(rng.binomial(len(middle) - shortest, 0.85))
    kept = np.sort(rng.choice(len(middle), size=length, replace=False))
    detours = rng.random(length) < DETOUR_PROBABILITY
    planned = [
        str(rng.choice(DETOURS)) if detour else middle[session]
        for session, detour in zip(kept, detours, strict=True)
    ]
    topics = [MANUAL[0], *planned, MANUAL[-1]]
    return topics[: int(rng.integers(3, MINIMUM_SESSIONS))] if drops_out else topics


def _scores(topics: list[str], rng: np.random.Generator) -> list[int]:
    """PHQ-9 sums, one for each session."""
    score = float(np.clip(rng.normal(11.0, 4.0), 3, LARGEST_SCORE - 1))
    scores = []
    for topic in topics:
        scores.append(round(score))
        change = EFFECTS[topic][score >= HIGH_SCORE] + rng.normal(0.0, SCORE_NOISE)
        score = float(np.clip(score + change, 0, LARGEST_SCORE))
    return scores


def _answers(score: int, rng: np.random.Generator) -> list[int | None]:
    """Nine answers 0..3 that add up to the score, of which a few are then missing."""
    points: IntArray = rng.multivariate_hypergeometric([LARGEST_ANSWER] * len(QUESTIONS), score)
    missing = rng.random(len(QUESTIONS)) < MISSING_PROBABILITY
    return [None if gone else int(point) for point, gone in zip(points, missing, strict=True)]


# --- The model --------------------------------------------------------------------------------

__all__ = [
    "END",
    "SEVERITIES",
    "START",
    "TOPICS",
    "TherapyCohort",
    "constraints",
    "estimate",
    "read_sessions",
    "simulate_sessions",
    "write_sessions",
]


def estimate(
    cohort: TherapyCohort | Sequence[Episode], unobserved: Literal["bar", "value"] = "bar"
) -> TabularMDP:
    """The posterior-mean model of the sessions.

    unobserved  what pairs (s, a) that were never seen earn: "bar" for -inf (section 6), "value" for
                5 - s like all others (appendix D)
    """
    if unobserved not in ("bar", "value"):
        raise InputError(f"unobserved must be 'bar' or 'value', got {unobserved!r}")
    episodes = cohort.episodes if isinstance(cohort, TherapyCohort) else cohort
    n_states = len(SEVERITIES)
    return estimate_mdp(
        count_transitions(episodes, n_states, len(TOPICS)),
        (n_states - np.arange(n_states))[:, None],
        prior=neighbour_prior(n_states),
        bar_unobserved=unobserved == "bar",
        state_labels=SEVERITIES,
        action_labels=TOPICS,
    )


def constraints(episode: Episode) -> Constraints:
    """First and last session fixed; STR and END are never alternatives."""
    allowed = np.ones(len(TOPICS), dtype=np.bool_)
    allowed[[START, END]] = False
    return Constraints(allowed=allowed, fixed_steps=(0, len(episode) - 1))
