"""Every error a user can cause: one line that says what, where, why, and what to do."""

from __future__ import annotations


def not_installed(needed: str, extra: str) -> str:
    """What to say where a package of an extra is missing; `needed` is what needs which."""
    return (
        f"{needed}, which is not installed: in counterplan's folder, "
        f"python -m pip install '.[{extra}]'"
    )


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Such as "1 change" and "1,200 changes"; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


class CounterplanError(ValueError):
    """Base of all errors raised on purpose; the command line prints it and exits with code 2."""


class InputError(CounterplanError):
    """An argument, array or table that cannot be right."""


class FileError(InputError):
    """A file that is missing, malformed or not what it claims to be."""


class MistakesError(FileError):
    """All that is wrong with a file, a line for each mistake; the command line prints them all."""


class InfeasibleError(CounterplanError):
    """Constraints that no sequence of actions satisfies."""


class NotApplicableError(CounterplanError):
    """A method asked for where its assumptions do not hold; the message says what does apply."""


class StoppedError(CounterplanError):
    """A computation that its callback stopped before there was anything to report."""


class CertificateError(ArithmeticError):
    """A proof that does not hold: a fault of counterplan, not of what it was given. No answer."""


class TrainingError(CounterplanError):
    """A fit that diverged: there is no model; the message says what to try."""
