"""A client of a federation: the verbs of the command ``pliant`` as calls.

`Client` waits in the calling thread, while other threads run, and Ctrl-C ends the wait. `AsyncClient` (async_client.py) is the same for
asyncio.
"""

from __future__ import annotations

import contextlib
import time as clock
from collections.abc import Iterable as IterableABC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NoReturn, Optional, Sequence, Union, cast, overload

from . import _pliant
from ._pliant import Estimates, ExplorationResult, Job, Launch, Results, SweepResult, Task
from .errors import InputError, JobFailedError, LaunchFailedError, PliantError, SubmissionUnknownError, UnavailableError, WaitTimeoutError
from .progress import reported
from .words import EXPLORE_OPTIONS, SUBMIT_OPTIONS, SWEEP_OPTIONS, words_of, words_of_launch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .progress import Progress
    from .words import ExploreOptions, LaunchOptions, PathLike, SubmitOptions, SweepOptions

    JobLike = Union[Job, str]

#: The states of jobs that have not ended.
OPEN_STATES = ("NEW", "QUEUED", "ACTIVE")
#: How long a submission that Ctrl-C stops may take to say what is known of it, and a wait whose time is up may take to ask for states, s.
STOPPING_S = 1.0
ASKING_S = 2.0


class Client:
    """A user's way into a federation, with the files of the command.

    config: the client's file; by default that of PLIANT_CONFIG, ``~/.config/pliant/client.toml``, or that of a running ``pliant up``.
    """

    def __init__(self, config: Optional[PathLike] = None) -> None:
        self._connection = _connection(config)

    @property
    def user(self) -> str:
        """The user in the certificate."""
        return self._connection.user

    def submit(self, service: Optional[str] = None, /, **options: Unpack[SubmitOptions]) -> Job:
        """Submits a service, or a script, to the server that completes it first.

        Options are those of ``pliant submit``, with ``_`` for ``-``: ``client.submit("pi", arguments={"samples": 1000})``,
        ``client.submit(script="job.sh", time="1h", rigid=4, inputs={"data.txt": "my.txt"}, args=["-v"])``. Lines ``#PLIANT`` and
        ``#SBATCH`` of the script are read. ``wait``, ``out`` and ``array`` are not options of this call.

        Raises `RefusedError` if no server takes it, and `SubmissionUnknownError` if a server may have taken it. That is also the
        ``__cause__`` of a `KeyboardInterrupt` in this call if a server has, or may have, taken it.
        """
        task = self._connection.submit(words_of(service, options, SUBMIT_OPTIONS))
        try:
            return cast(Job, task.wait())
        except KeyboardInterrupt as interrupt:
            cause = _interrupted(task)
            if cause is None:
                raise
            raise interrupt from cause

    def estimate(self, service: Optional[str] = None, /, **options: Unpack[SubmitOptions]) -> Estimates:
        """The estimates of all servers for what `submit` would submit; nothing is submitted."""
        return cast(Estimates, self._connection.estimate(words_of(service, options, SUBMIT_OPTIONS)).wait())

    def queue(
        self,
        *,
        ended: bool = False,
        state: Union[str, Sequence[str], None] = None,
        all: bool = False,
        user: Optional[str] = None,
        server: Optional[str] = None,
        last: int = 1_000,
    ) -> list[Job]:
        """The user's jobs, the newest first.

        ended: with jobs that have ended; otherwise only those that wait or run.
        state: only jobs in one of these states.
        all, user: jobs of all users, or of another one; for operators.
        last: at most so many.
        """
        return cast("list[Job]", self._connection.queue(_states(ended, state), all, user, server, _most(last)).wait())

    def job(self, job: JobLike) -> Job:
        """A job as it is now."""
        return cast(Job, self._connection.job(_id(job)).wait())

    # A text is one job ID, not its letters.
    @overload
    def wait(  # type: ignore[overload-overlap]
        self, jobs: JobLike, *, timeout: Optional[float] = None, check: bool = False
    ) -> Job: ...
    @overload
    def wait(self, jobs: Iterable[JobLike], *, timeout: Optional[float] = None, check: bool = False) -> list[Job]: ...
    def wait(
        self, jobs: Union[JobLike, Iterable[JobLike]], *, timeout: Optional[float] = None, check: bool = False
    ) -> Union[Job, list[Job]]:
        """Waits until jobs have ended: their records, in the same order.

        timeout: the longest wait, in seconds. Then all jobs are asked for once more, and `WaitTimeoutError` has those that ended. With 0
            the call does not wait for the end of a job.
        check: raise `JobFailedError` if a job did not complete.
        """
        ids = _ids(jobs)
        ended: dict[int, Job] = {}
        for index, job in self._ended(ids, timeout):
            ended[index] = job
        found = _checked([ended[index] for index in range(len(ids))], check)
        return found[0] if isinstance(jobs, (Job, str)) else found

    def as_completed(self, jobs: Iterable[JobLike], *, timeout: Optional[float] = None) -> Iterator[Job]:
        """The records of jobs as they end, the first one first. `timeout` is the longest wait for all of them, in seconds."""
        for _, job in self._ended(_ids(jobs), timeout):
            yield job

    def _ended(self, ids: list[str], timeout: Optional[float]) -> Iterator[tuple[int, Job]]:
        pending = self._connection.pending(ids)
        until = None if timeout is None else clock.monotonic() + timeout
        ended: dict[int, Job] = {}
        while len(ended) < len(ids):
            left = None if until is None else max(0.0, until - clock.monotonic())
            task = pending.next()
            try:
                index, job = task.wait(left)
            except TimeoutError:
                task.cancel()
                yield from self._ended_by_now(ids, ended)
                return
            ended[index] = job
            yield index, job

    def _ended_by_now(self, ids: list[str], ended: dict[int, Job]) -> Iterator[tuple[int, Job]]:
        """Asks for the other jobs once, and raises `WaitTimeoutError` if one of them has not ended."""
        tasks = [(index, self._connection.job(one)) for index, one in enumerate(ids) if index not in ended]
        until = clock.monotonic() + ASKING_S
        try:
            for index, task in tasks:
                try:
                    job = cast(Job, task.wait(max(0.0, until - clock.monotonic())))
                except (TimeoutError, UnavailableError):
                    continue
                if job.is_final:
                    ended[index] = job
                    yield index, job
        finally:
            for _, task in tasks:
                task.cancel()
        if len(ended) < len(ids):
            raise _time_up(ids, ended)

    @overload
    def cancel(self, jobs: JobLike) -> Job: ...  # type: ignore[overload-overlap]
    @overload
    def cancel(self, jobs: Iterable[JobLike]) -> list[Job]: ...
    def cancel(self, jobs: Union[JobLike, Iterable[JobLike]]) -> Union[Job, list[Job]]:
        """Withdraws waiting jobs, and ends running ones: their records after that. A job that has ended stays as it is."""
        tasks = [self._connection.cancel(one) for one in _ids(jobs)]
        found = [cast(Job, task.wait()) for task in tasks]
        return found[0] if isinstance(jobs, (Job, str)) else found

    def logs(self, job: JobLike, *, stderr: bool = False) -> str:
        """What a job has written so far on its standard output, or error. `NotRunError` if it has not started."""
        return _text(self._connection.output(_id(job), stderr).wait())

    def fetch(self, job: JobLike, out: PathLike) -> Results:
        """Fetches the results of a job that has ended into a folder: ``stdout``, ``stderr`` and ``work/...``."""
        return cast(Results, self._connection.fetch(_id(job), Path(out)).wait())

    def sweep(
        self,
        service: Optional[str] = None,
        /,
        *,
        out: PathLike,
        progress: Progress = False,
        **options: Unpack[SweepOptions],
    ) -> SweepResult:
        """Runs a service, or a script, once for each combination of arguments, and waits until all instances have ended.

        Options are those of ``pliant sweep``: ``client.sweep(script="fit.sh", time="10m", vary={"seed": range(1, 101)},
        args=["{seed}"], out="results")``. The folder `out` has progress and tables; the same call resumes the sweep in it.

        progress: True shows a bar; a function is called with the numbers of instances that have ended and of all.

        Ctrl-C ends the call. Submitted jobs continue, and the same call, or `resume_sweep`, goes on.
        """
        words = words_of(service, options, SWEEP_OPTIONS)
        with reported(progress, "instances") as report:
            return cast(SweepResult, self._connection.sweep(words, Path(out), report.call).wait())

    def resume_sweep(self, out: PathLike, *, progress: Progress = False) -> SweepResult:
        """Goes on with the sweep of a folder, or reads its outcome if it is over."""
        with reported(progress, "instances") as report:
            return cast(SweepResult, self._connection.sweep(None, Path(out), report.call).wait())

    def explore(
        self,
        service: Optional[str] = None,
        /,
        *,
        out: PathLike,
        progress: Progress = False,
        **options: Unpack[ExploreOptions],
    ) -> ExplorationResult:
        """Runs ``min`` mandatory requests, and as many optional ones as free cores allow until ``deadline``, a length of time from now.

        Options are those of ``pliant explore``. The folder `out` has the results. Ctrl-C ends the exploration; its results are kept.

        progress: True shows a bar; a function is called with the numbers of completed requests and of the most that can be.
        """
        words = words_of(service, options, EXPLORE_OPTIONS)
        with reported(progress, "requests") as report:
            return cast(ExplorationResult, self._connection.explore(words, Path(out), report.call).wait())

    def launch(
        self,
        application: PathLike,
        *,
        out: Optional[PathLike] = None,
        detach: bool = False,
        check: bool = False,
        progress: Optional[Callable[[Launch], None]] = None,
        **options: Unpack[LaunchOptions],
    ) -> Launch:
        """Launches an application of communicating tasks on several clusters at once, and waits until it is over.

        application: the file of the application (docs/reference/files/launch.md). Options are those of ``pliant launch``:
            ``client.launch("app.toml", time="10m", out="run")``. With ``dry_run=True`` the tasks are mapped, and nothing runs.
        out: a folder that gets the results of the tasks once the launch is over, each in a folder of its name.
        detach: return once the agent has the launch and the servers have the input files. The launch continues; the same call with its
            key, without `detach`, waits for it.
        check: raise `LaunchFailedError` if it did not complete.
        progress: called with the launch whenever its state has changed. Its exception ends the launch.

        Ctrl-C ends the launch, and waits until no task runs; a second Ctrl-C does not wait. Raises `LaunchUnknownError` if an agent may
        have accepted it.
        """
        task = self._connection.launch(*_launch(application, options, detach, out), progress)
        try:
            return _launched(task.wait(), check and not detach)
        except KeyboardInterrupt:
            # The first wait has asked for its end.
            with contextlib.suppress(PliantError):
                task.wait()
            raise

    def __repr__(self) -> str:
        return f"Client(user={self.user!r})"

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self)


def _interrupted(task: Task) -> Optional[SubmissionUnknownError]:
    """What became known of a submission that Ctrl-C has stopped: its key and server, if a server has or may have the job."""
    task.cancel()
    try:
        job = cast(Job, task.wait(STOPPING_S))
    except SubmissionUnknownError as unknown:
        return unknown
    except (PliantError, TimeoutError):
        return None
    return SubmissionUnknownError(
        f"interrupted; {job.server} has accepted the job as {job.id}", "cancel it, or go on with its ID", job.key, job.server
    )


def _launch(
    application: PathLike, options: Mapping[str, Any], detach: bool, out: Optional[PathLike]
) -> tuple[list[str], bool, Optional[Path]]:
    """The arguments of the native call."""
    if detach and out is not None:
        raise InputError("out: expected a launch that is waited for, found one with detach")
    if detach and options.get("dry_run"):
        raise InputError("detach: expected a launch that runs, found one with dry_run")
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise InputError(f"out: expected a folder, found the file {Path(out)}")
    return words_of_launch(application, options), detach, None if out is None else Path(out)


def _launched(launch: Launch, check: bool) -> Launch:
    if check and not launch.is_completed:
        raise LaunchFailedError(f"{launch.id}: {launch.why or launch.state}", "its tasks show how they ended", launch)
    return launch


def not_pickled(connection: object) -> TypeError:
    """The error of a pickle of a client or an executor, which are connections of their process."""
    kind = type(connection).__name__
    return TypeError(f"cannot pickle a {kind}, which is a connection of its process: make another one in the other process")


def _connection(config: Optional[PathLike]) -> _pliant.Connection:
    return _pliant.Connection(None if config is None else Path(config))


def _id(job: JobLike) -> str:
    if isinstance(job, Job):
        return job.id
    if not isinstance(job, str):
        raise InputError(f"job: expected a Job or a job ID like `lyon.17`, found {job!r}")
    return job


def _ids(jobs: Union[JobLike, Iterable[JobLike]]) -> list[str]:
    if isinstance(jobs, (Job, str)):
        return [_id(jobs)]
    if not isinstance(jobs, IterableABC):
        raise InputError(f"jobs: expected a Job, a job ID, or several of them, found {jobs!r}")
    return [_id(job) for job in jobs]


def _most(last: int) -> int:
    """How many jobs a list has at most."""
    if not isinstance(last, int) or not 0 <= last < 2**32:
        raise InputError(f"last: expected a whole number from 0 to {2**32 - 1}, found {last!r}")
    return last


def _states(ended: bool, state: Union[str, Sequence[str], None]) -> list[str]:
    if state is not None:
        return [state] if isinstance(state, str) else list(state)
    return [] if ended else list(OPEN_STATES)


def _text(output: bytes) -> str:
    # Output need not be UTF-8.
    return output.decode(errors="replace")


def _checked(jobs: list[Job], check: bool) -> list[Job]:
    failed = [job for job in jobs if not job.is_completed] if check else []
    if failed:
        first = failed[0]
        how = "" if first.exit is None else f": {first.exit}"
        more = "" if len(failed) == 1 else f", and {len(failed) - 1} more did not complete"
        raise JobFailedError(f"{first.id} {first.state}{how}{more}", "logs(job, stderr=True) has its errors", first)
    return jobs


def _time_up(ids: list[str], ended: dict[int, Job]) -> WaitTimeoutError:
    missing = [one for index, one in enumerate(ids) if index not in ended]
    problem = f"{len(missing)} of {len(ids)} jobs had not ended when time was up: {', '.join(missing)}"
    return WaitTimeoutError(problem, [ended[index] for index in sorted(ended)], missing)
