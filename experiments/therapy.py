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
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.table import Block, distinct_texts, open_table_file
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import FileError, InputError
from counterplan.scm.estimate import count_transitions, estimate_mdp, neighbour_prior
from counterplan.scm.tabular import TabularMDP

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
NO_ANSWER = f"is not an answer (0..{LARGEST_ANSWER} or empty); correct the entry"
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
    answers = [table.choices(one, {}, range(LARGEST_ANSWER + 1), NO_ANSWER) for one in QUESTIONS]
    severities = phq9_severity(np.nan_to_num(np.stack(answers, axis=1), nan=MISSING))
    names, owners = distinct_texts(table.texts["patient"])
    nameless = np.array(names)[owners] == ""
    table.report(nameless, "patient", "is no name; name the patient or remove the row")
    groups = {name: np.flatnonzero(owners == number) for number, name in enumerate(names)}
    for name, rows in groups.items():
        _check_topic_order(table, topics[rows], name, rows)
    table.mistakes.refuse()
    episodes: list[Episode] = []
    dropped: dict[str, str] = {}
    for name, rows in groups.items():
        if len(rows) < MINIMUM_SESSIONS:
            dropped[name] = TOO_SHORT
        elif (severities[rows] == MISSING).any():
            dropped[name] = NO_ANSWERS
        else:
            episodes.append(Episode(severities[rows], topics[rows].astype(np.int64), id=name))
    cohort = TherapyCohort(tuple(episodes), dropped)
    if not episodes:
        raise FileError(f"{path}: no patient can be used: {cohort.summary()}")
    return cohort


def _check_topic_order(table: Block, topics: FloatArray, patient: str, rows: IntArray) -> None:
    """STR only in a patient's first session, END only in the last."""
    late, early = (topics == START) & (rows > rows[0]), (topics == END) & (rows < rows[-1])
    for t in np.flatnonzero(late | early):
        place = "first" if late[t] else "last"
        problem = f"is session {t + 1} of {len(rows)} of patient {patient!r}, but may only be the "
        problem += f"{place}; correct the topic or the order of rows"
        table.report(np.arange(len(table)) == rows[t], "topic", problem)


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
