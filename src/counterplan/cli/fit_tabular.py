"""`fit` on tables of discrete states: what was asked, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli.options import FitOptions
from counterplan.cli.support import print_json
from counterplan.core.words import counted
from counterplan.errors import InputError

if TYPE_CHECKING:
    from counterplan.io.fit import FitSettings


def settings_of(options: FitOptions) -> FitSettings:
    """How to learn, without names for states and actions."""
    from counterplan.io.fit import FitSettings

    if options.prior is not None and options.neighbour_prior:
        raise InputError("--prior and --neighbour-prior exclude each other: give one of them")
    usual = 1.0 if options.prior is None else options.prior
    return FitSettings(
        prior=None if options.neighbour_prior else usual,
        bar_unobserved=options.bar_unobserved,
        mean_rewards=options.mean_rewards,
        support=options.support,
    )


def tell(options: FitOptions, summary: Mapping[str, Any], data: str) -> None:
    """Print what was learned; `data` says from what."""
    if options.as_json:
        print_json(summary)
        return
    rest = "barred" if options.bar_unobserved else "given their state's mean reward"
    text = (
        f"{summary['model']}: {counted(summary['states'], 'state')} and "
        f"{counted(summary['actions'], 'action')}{data}; {summary['observed_pairs']:,} of "
        f"{counted(summary['pairs'], 'pair')} of state and action were seen, others are {rest}"
    )
    typer.echo(text)
