"""The exceptions of the package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence

    from ._pliant import Job, Launch


class PliantError(Exception):
    """An error of Pliant. `hint` says what to do about it, if that is known."""

    def __init__(self, problem: str, hint: Optional[str] = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\nhint: {hint}")
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Classes below take other arguments than those that `Exception` would give them.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[PliantError], args: tuple[Any, ...], state: dict[str, Any]) -> PliantError:
    """The exception of `pickle`."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InternalError(PliantError):
    """A bug of Pliant ended a call. Please report it."""


class InputError(PliantError, ValueError):
    """Something that was given is wrong: an option, a table, a file's content."""


class PolicyError(InputError):
    """A policy of your own has decided what is impossible."""


class RefusedJobsWarning(UserWarning):
    """Jobs of a simulation were refused, since no cluster can run them."""


class FileError(PliantError, OSError):
    """A file cannot be read or written."""


# Exceptions of clients.


class NotFoundError(PliantError, LookupError):
    """It does not exist, or the user may not see it."""


class UnavailableError(PliantError, ConnectionError):
    """A daemon is down or busy: the same call may work later."""


class DeniedError(PliantError, PermissionError):
    """The user's certificate is refused, or lacks the permission."""


class RefusedError(PliantError):
    """No server takes the work. `causes` are words for programs, one for each reason (docs/reference/json.md)."""

    def __init__(self, problem: str, hint: Optional[str] = None, causes: Sequence[str] = ()) -> None:
        super().__init__(problem, hint)
        self.causes = list(causes)


class SubmissionUnknownError(PliantError):
    """A server may have accepted the job: the same submission with `key` gives that job, never a second one."""

    def __init__(self, problem: str, hint: Optional[str], key: str, server: str) -> None:
        super().__init__(problem, hint)
        self.key = key
        self.server = server


class LaunchUnknownError(PliantError):
    """An agent may have accepted the launch: the same call with `key` gives that launch, never a second one."""

    def __init__(self, problem: str, hint: Optional[str], key: str) -> None:
        super().__init__(problem, hint)
        self.key = key


class LaunchFailedError(PliantError):
    """A launch did not complete. `launch` is its record."""

    def __init__(self, problem: str, hint: Optional[str], launch: Launch) -> None:
        super().__init__(problem, hint)
        self.launch = launch


class NotRunError(PliantError):
    """A job has no output, because it has not run. `job` is its record."""

    def __init__(self, problem: str, hint: Optional[str], job: Job) -> None:
        super().__init__(problem, hint)
        self.job = job


class JobFailedError(PliantError):
    """A job that was waited for did not complete. `job` is its record."""

    def __init__(self, problem: str, hint: Optional[str], job: Job) -> None:
        super().__init__(problem, hint)
        self.job = job


class WaitTimeoutError(PliantError, TimeoutError):
    """Jobs had not ended when time was up. `ended` are the records of those that had, `not_ended` the IDs of the others."""

    def __init__(self, problem: str, ended: Sequence[Job], not_ended: Sequence[str]) -> None:
        super().__init__(problem, "the jobs continue: wait again, or cancel them")
        self.ended = list(ended)
        self.not_ended = list(not_ended)
