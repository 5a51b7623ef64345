"""Explanations as plain records, and files of them: JSON, or CSV with one row per episode.

JSON has no infinities: they are written as the texts "inf" and "-inf".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterplan.core.result import Interval
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.files.atomic import atomic_file, check_target
from counterplan.files.contents import suffix_of
from counterplan.scm.tabular import TabularMDP

FORMATS = (".json", ".csv")


def explanation_record(
    mdp: TabularMDP, explanation: PolicyExplanation, interval: Interval | None = None
) -> dict[str, Any]:
    """What an explanation says, as numbers and texts.

    `changes` are those along the likeliest counterfactual episode; `probability` is how likely the
    policy makes that change, whatever happens before.
    """
    probabilities = explanation.change_probabilities()
    record: dict[str, Any] = {
        "episode": explanation.episode.id,
        "steps": len(explanation.episode),
        "observed": _finite(explanation.factual_value),
        "value": _finite(explanation.value),
        "improvement": _finite(explanation.improvement),
        "relative_improvement": _finite(explanation.relative_improvement),
        "bound": _finite(explanation.bound),
        "gap": _finite(explanation.gap),
        "status": explanation.status.value,
        "changes": [
            {
                "t": change.t,
                "observed": change.observed,
                "observed_label": mdp.action_name(change.observed),
                "alternative": change.alternative,
                "alternative_label": mdp.action_name(change.alternative),
                "probability": float(probabilities[change.t, change.alternative]),
            }
            for change in explanation.changes
        ],
    }
    if interval is not None:
        record |= {
            "interval_low": _finite(interval.low),
            "interval_high": _finite(interval.high),
        }
    return record


def changes_in_words(record: Mapping[str, Any]) -> list[str]:
    """Such as "step 3: rest -> walk (87 %)", one text for each change, or what it says itself."""
    return [
        change.get("text")
        or f"step {change['t']}: {change['observed_label']} -> {change['alternative_label']} "
        f"({change['probability']:.0%})"
        for change in record["changes"]
    ]


def check_explanations_target(path: str | Path) -> None:
    """Raise early if explanations could not be written there."""
    suffix_of(path, FORMATS, "files of explanations")
    check_target(path)


def write_explanations(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write {"k": ..., "explanations": [records]} as JSON, or the records as CSV."""
    if suffix_of(path, FORMATS, "files of explanations") == ".json":
        content = json.dumps(document, indent=2, allow_nan=False).encode()
        with atomic_file(path) as file:
            file.write(content)
        return
    rows = [
        {**record, "changes": "; ".join(changes_in_words(record))}
        for record in document["explanations"]
    ]
    _write_csv(path, rows)


def _write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import polars as pl

    texts = [{name: str(value) for name, value in row.items()} for row in rows]
    with atomic_file(path) as file:
        pl.DataFrame(texts).write_csv(file)


def _finite(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))
