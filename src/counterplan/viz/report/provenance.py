"""What was asked, of what, and by which versions: all that is needed to make a run again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from counterplan import __version__
from counterplan.cohort.manifest import Manifest
from counterplan.cohort.reading import Run
from counterplan.core.words import counted
from counterplan.viz.html import Html, element, facts, join
from counterplan.viz.report.names import Names

# Options whose values are ids of cases.
ABOUT_CASES = ("episode",)


def asked(manifest: Manifest) -> str:
    """The options of the run, as one would type them; ids are only counted."""
    texts = []
    for name, value in sorted(manifest.arguments.items()):
        if value is None or value is False:
            continue
        if name in ABOUT_CASES:
            texts.append(f"--{name} (for {counted(len(value), 'case')})")
        else:
            texts.append(
                f"--{name.replace('_', '-')}{'' if value is True else f' {_plain(value)}'}"
            )
    return " ".join([*texts, f"--seed {manifest.seed}"])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def provenance(run: Run) -> Html:
    """Options, checksums and versions."""
    manifest = run.manifest
    hashes: Mapping[str, str] = manifest.hashes
    pairs = [
        ("Options", asked(manifest)),
        *((f"SHA-256 of the {name.replace('_', ' ')}", hashes[name]) for name in sorted(hashes)),
        ("Versions", ", ".join(f"{name} {manifest.versions[name]}" for name in manifest.versions)),
        ("Repeatable", "yes, to the last digit on like machines" if manifest.repeatable
         else "no: limits in seconds depend on how busy the machine was"),
    ]  # fmt: skip
    return join(
        element("p", "The same table, model and options with the same versions give the same run."),
        facts(*pairs, class_="facts wide checksums"),
    )


def made_by(names: Names) -> list[str]:
    """The foot of the page."""
    texts = [f"Made by counterplan {__version__} from the folder of a run. Nothing in it is loaded "
             "from elsewhere; print it, or save it as PDF, with the browser."]  # fmt: skip
    if names.hidden:
        texts.append(
            "Ids are replaced by pseudonyms. These hide names, not courses: whoever knows a case "
            "by its numbers can still recognise it."
        )
    return texts


def incomplete(run: Run) -> str | None:
    """What to tell of a run that has not ended."""
    done, parts = len(run.done), run.manifest.parts
    if run.manifest.complete and done == parts:
        return None
    return f"The run is not complete: {done:,} of {parts:,} parts are done; the others are missing."
