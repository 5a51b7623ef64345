"""Simulated tables of therapy sessions: the clinical data of the 2021 paper is not public.

This is an invention, not an estimate: no number here comes from patients. Patients begin with
mild to moderate symptoms and lose some three points in the course of a therapy. Therapists
follow a manual of 20 sessions with detours; a patient's PHQ-9 score x moves by

    x' = x + effect(topic, x >= 15) + noise,    0 <= x <= 27

and the answers of a session share out the rounded score. The effects contain one finding for
explanations to rediscover: cognitive restructuring (CRT, and likewise THP) helps in mild to
moderate phases but not in severe ones, where behavioural activation (BHA) helps most.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from counterplan.core.validation import IntArray, Seed, generator, whole_number
from counterplan.errors import FileError
from experiments.therapy import LARGEST_ANSWER, MINIMUM_SESSIONS, QUESTIONS

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
