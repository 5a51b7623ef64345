"""Options of `fit` that are for one kind of model alone: which of them were given."""

from __future__ import annotations

from counterplan.cli.options import FitOptions


def neural_options(options: FitOptions) -> dict[str, bool]:
    """Those for continuous states."""
    return {
        "--hidden": options.hidden is not None,
        "--epochs": options.epochs is not None,
        "--lipschitz": options.lipschitz is not None,
        "--unconstrained": options.unconstrained,
    }


def tabular_options(options: FitOptions) -> dict[str, bool]:
    """Those for discrete states."""
    return {
        "--prior": options.prior is not None,
        "--neighbour-prior": options.neighbour_prior,
        "--value-unobserved": not options.bar_unobserved,
        "--mean-rewards": options.mean_rewards,
    }


def label_options(options: FitOptions) -> dict[str, bool]:
    """Those for discrete states that have no names in the table."""
    return {
        "--state-labels": options.state_labels is not None,
        "--action-labels": options.action_labels is not None,
    }
