"""The exceptions of the package."""

from typing import Optional


class PliantError(Exception):
    """An error of Pliant. `hint` says what to do about it, if that is known."""

    def __init__(self, problem: str, hint: Optional[str] = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\nhint: {hint}")
        self.problem = problem
        self.hint = hint


class InputError(PliantError, ValueError):
    """Something that was given is wrong: an option, a table, a file's content."""


class PolicyError(InputError):
    """A policy of your own has decided what is impossible."""


class RefusedJobsWarning(UserWarning):
    """Jobs of a simulation were refused, since no cluster can run them."""


class FileError(PliantError, OSError):
    """A file cannot be read or written."""
