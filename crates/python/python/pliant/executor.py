"""Functions of Python that run as jobs of a federation, behind the interface of `concurrent.futures`."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import threading
import time as clock
import weakref
from collections import deque
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, Iterator, Mapping, NoReturn, Optional, Set, Tuple, TypeVar

from . import _pliant
from .calls import HINT, RESULT, Calls, RemoteError, RemoteTraceback, value_of
from .client import Client, not_pickled
from .errors import InputError, JobFailedError, PliantError, SubmissionUnknownError, UnavailableError
from .sweep_map import SweepMap
from .times import seconds
from .words import SUBMIT_OPTIONS, SWEEP_OPTIONS

if TYPE_CHECKING:
    from ._pliant import Job

__all__ = ["Executor", "JobFuture", "RemoteError", "RemoteTraceback"]

T = TypeVar("T")

#: Options of `Client.submit` that are not for functions, and one that is for a single call.
_NOT_FOR_FUNCTIONS = ("script", "args", "arguments", "inputs", "stdin", "merge_output", "chdir", "ignore_sbatch")
_OF_ONE_CALL = "key"
#: How often a submission whose outcome is unknown is repeated with its key, and the time between two attempts and after a failed call, s.
_ATTEMPTS = 30
_PAUSE_S = 2.0
#: How long the follower waits for the end of a job before it looks for new jobs, s.
_NEW_JOBS_S = 0.2


class Executor(BaseExecutor):
    """Runs functions as jobs: ``executor.submit(function, *args, resources={"rigid": 4}).result()``.

    The function, its arguments and its value are pickled with cloudpickle (``pip install cloudpickle``), which goes along with the job:
    the server needs Python of the same minor version, and the packages that the function imports. Each call of `submit` is a job of its
    own; the calls of `map` are instances of one sweep. Cancelling a future cancels its job, in every state.

    client: the client; by default one with the files of the command.
    time: the time limit of a call on one processor.
    resources: other options of `Client.submit`, such as ``{"mem": "4G", "rigid": 4, "server": "lyon"}``.
    python: the interpreter on servers, found on the PATH of jobs; by default ``python3.N`` of this one.
    """

    def __init__(
        self,
        client: Optional[Client] = None,
        *,
        time: Any = "1h",
        resources: Optional[Mapping[str, Any]] = None,
        python: Optional[str] = None,
    ) -> None:
        self._client = client if client is not None else Client()
        self._options = _checked({"time": time, **(resources or {})}, ())
        self._folder = Path(tempfile.mkdtemp(prefix="pliant-executor-"))
        # Also for an executor that is not shut down, and at the end of the program.
        self._removed = weakref.finalize(self, shutil.rmtree, str(self._folder), ignore_errors=True)
        self._calls = Calls(self._folder, python)
        # Guards all below; notified when a submission or the follower ends.
        self._changed = threading.Condition()
        self._closed = False
        self._number = 0
        self._submitting = 0
        # Jobs that have not ended, by ID.
        self._futures: Dict[str, JobFuture[Any]] = {}
        # Sweeps that are not over.
        self._maps: Set[SweepMap] = set()
        # Runs as long as there are such jobs.
        self._follower: Optional[threading.Thread] = None

    # The base class has it without `resources`, which is a keyword here.
    def submit(  # type: ignore[override]
        self, function: Callable[..., T], /, *args: Any, resources: Optional[Mapping[str, Any]] = None, **names: Any
    ) -> JobFuture[T]:
        """Submits a call. `resources` are options of this call, over those of the executor; no argument of the function has that name.

        A submission whose outcome is unknown, because a server went down, is repeated with its key for about a minute. Raises what
        `Client.submit` raises.
        """
        options = {**self._options, **_checked(resources or {}, (_OF_ONE_CALL,))}
        options.setdefault("job_name", _name(function))
        with self._entered() as folder:
            script, inputs = self._calls.write(folder, function, args, names)
            job = self._accepted({"script": script, "inputs": inputs, **options})
            future: JobFuture[T] = JobFuture(self._client, job, folder)
            with self._changed:
                self._futures[job.id] = future
                if self._follower is None:
                    # A daemon: a program that ends without shutdown leaves its jobs to run, as a client that was killed does.
                    self._follower = threading.Thread(target=self._follow, name="pliant-executor", daemon=True)
                    self._follower.start()
        return future

    @contextlib.contextmanager
    def _entered(self) -> Iterator[Path]:
        """A submission: gives its folder, which is removed if it fails."""
        with self._changed:
            if self._closed:
                raise RuntimeError("cannot submit a call after shutdown")
            self._submitting += 1
            self._number += 1
            folder = self._folder / str(self._number)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            with self._changed:
                self._submitting -= 1
                self._changed.notify_all()

    def _accepted(self, options: Dict[str, Any]) -> Job:
        """The record of the job of these options, which is submitted once."""
        try:
            return self._client.submit(**options)
        except SubmissionUnknownError as error:
            unknown = error
        for _ in range(_ATTEMPTS):
            clock.sleep(_PAUSE_S)
            try:
                return self._client.submit(**{**options, "key": unknown.key})
            except PliantError:
                # Also an InputError: with its key the submission may go to no other server than that one, which may be down.
                pass
        raise unknown

    # It has `buffersize`, too, from Python 3.14 on.
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
        buffersize: Optional[int] = None,
    ) -> Iterator[T]:
        """The values of calls in the order of their arguments. All calls are one sweep: short ones share jobs.

        timeout: the longest wait for all of them, in seconds; then `TimeoutError`, and the calls whose values were not given are cancelled.
        chunksize: how many calls one process runs one after the other, which saves the start of the others.
        buffersize: the most calls that are submitted ahead of the value that is given next; by default all. With it each call is a job.

        Each call is a job, too, if `resources` of the executor has options that no sweep has, such as ``server`` or ``deadline``. An error of
        the sweep, such as `RefusedError`, is raised with the first value.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize: expected at least 1, found {chunksize}")
        until = None if timeout is None else clock.monotonic() + timeout
        calls = zip(*iterables)
        if buffersize is None and set(self._options) <= set(SWEEP_OPTIONS):
            return self._swept(fn, calls, chunksize).values(until)
        return self._jobs_of(fn, calls, buffersize, until)

    def _swept(self, function: Callable[..., Any], calls: Iterator[Tuple[Any, ...]], chunksize: int) -> SweepMap:
        """Starts the sweep of these calls."""
        options = dict(self._options)
        options.setdefault("job_name", _name(function))
        if chunksize > 1:
            options["time"] = chunksize * _seconds(options["time"])
        with self._entered() as folder:
            swept = SweepMap(self._client, self._calls, folder, function, _chunks(calls, chunksize), options, self._map_ended)
            with self._changed:
                if not swept.is_over:
                    self._maps.add(swept)
        return swept

    def _map_ended(self, swept: SweepMap) -> None:
        with self._changed:
            self._maps.discard(swept)
            self._changed.notify_all()

    def _jobs_of(
        self, fn: Callable[..., T], calls: Iterator[Tuple[Any, ...]], buffersize: Optional[int], until: Optional[float]
    ) -> Iterator[T]:
        """The values of calls, each of which is a job."""
        futures: Deque[Future[T]] = deque()
        try:
            for arguments in itertools.islice(calls, buffersize):
                futures.append(self.submit(fn, *arguments))
        except BaseException as error:
            _note(error, _cancel_each(futures))
            raise
        return self._values(fn, futures, calls, until)

    def _values(
        self, function: Callable[..., T], futures: Deque[Future[T]], calls: Iterator[Tuple[Any, ...]], until: Optional[float]
    ) -> Iterator[T]:
        try:
            while futures:
                value = futures[0].result(None if until is None else until - clock.monotonic())
                futures.popleft()
                for arguments in itertools.islice(calls, 1):
                    futures.append(self.submit(function, *arguments))
                yield value
        except GeneratorExit:
            failure = _cancel_each(futures)
            if failure is not None:
                raise failure from None
            raise
        except BaseException as error:
            _note(error, _cancel_each(futures))
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. `wait` until all have ended; `cancel_futures` cancels their jobs.

        If a job cannot be cancelled, the others are, and the first error is raised at the end.
        """
        failure: Optional[BaseException] = None
        with self._changed:
            self._closed = True
        if cancel_futures:
            with self._changed:
                while self._submitting:
                    self._changed.wait()
                futures = list(self._futures.values())
                maps = list(self._maps)
            failure = _cancel_each(futures)
            for swept in maps:
                swept.cancel()
        if wait:
            with self._changed:
                # A callback of a future runs in the follower itself.
                while self._submitting or self._maps or self._follower not in (None, threading.current_thread()):
                    self._changed.wait()
            if self._follower is None:
                self._removed()
        if failure is not None:
            raise failure

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self)

    def _follow(self) -> None:
        """Settles futures as their jobs end, until no job is left."""
        try:
            while True:
                with self._changed:
                    if not self._futures:
                        self._follower_ended()
                        return
                    known = dict(self._futures)
                self._follow_known(known)
        except BaseException as error:
            # Nothing may be waited for that is not followed.
            with self._changed:
                futures = list(self._futures.values())
                self._futures.clear()
                self._follower_ended()
            for future in futures:
                with contextlib.suppress(BaseException):
                    future._fail(error)

    def _follower_ended(self) -> None:
        """Records the end of the follower together with the jobs that it saw: the next submission starts another one."""
        self._follower = None
        self._changed.notify_all()

    def _follow_known(self, known: Dict[str, JobFuture[Any]]) -> None:
        """Settles these futures, until there are new ones or one is to be tried again."""
        ids = list(known)
        left = set(ids)
        again: Optional[float] = None
        pending = self._client._connection.pending(ids)
        task = pending.next()
        try:
            while left:
                try:
                    index, job = task.wait(_NEW_JOBS_S)
                except TimeoutError:
                    with self._changed:
                        has_new = bool(self._futures.keys() - known.keys())
                    if has_new or (again is not None and clock.monotonic() >= again):
                        return
                    continue
                except PliantError:
                    self._give_up(left)
                    clock.sleep(_PAUSE_S)
                    return
                left.discard(ids[index])
                if known[ids[index]]._settle(job):
                    self._forget(ids[index])
                else:
                    again = clock.monotonic() + _PAUSE_S
                task = pending.next()
            if again is not None:
                clock.sleep(max(0.0, again - clock.monotonic()))
        finally:
            task.cancel()

    def _give_up(self, ids: Iterable[str]) -> None:
        """Fails the futures whose jobs cannot be followed: one of these, and each is asked for to find out which."""
        for one in ids:
            try:
                self._client.job(one)
            except UnavailableError:
                pass
            except PliantError as error:
                future = self._forget(one)
                if future is not None:
                    future._fail(error)

    def _forget(self, one: str) -> Optional[JobFuture[Any]]:
        with self._changed:
            return self._futures.pop(one, None)


class JobFuture(Future[T]):
    """The value of a function that runs as a job. `job` is the record of the job when it was accepted."""

    def __init__(self, client: Client, job: Job, folder: Path) -> None:
        super().__init__()
        self._client = client
        self._folder = folder
        # Held while the future gets its end, which the user and the follower may give it at the same time. Callbacks run meanwhile.
        self._ending = threading.RLock()
        self.job = job

    def cancel(self) -> bool:
        """Cancels the job, also one that runs. False if it has ended."""
        if self.done():
            return self.cancelled()
        job = self._client.cancel(self.job)
        if job.is_final and job.state != "CANCELED":
            return False
        return self._cancelled()

    def _cancelled(self) -> bool:
        with self._ending:
            if not self.done() and super().cancel():
                self.set_running_or_notify_cancel()
            return self.cancelled()

    def _settle(self, job: Job) -> bool:
        """Sets the value or the exception of a job that has ended; false if a daemon is down and it is to be tried again."""
        try:
            if job.state == "CANCELED":
                self._cancelled()
            elif not self.done():
                try:
                    path = self._fetched(job)
                except UnavailableError:
                    return False
                value = value_of(path)
                with self._ending:
                    if not self.done() and self.set_running_or_notify_cancel():
                        self.set_result(value)
        except BaseException as error:
            self._fail(error)
        shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def _fail(self, error: BaseException) -> None:
        with self._ending:
            if not self.done() and self.set_running_or_notify_cancel():
                self.set_exception(error)

    def _fetched(self, job: Job) -> Path:
        """The file of the result."""
        if not job.is_completed:
            raise _job_failed(self._client, job)
        out = self._folder / "out"
        results = self._client.fetch(job, out)
        path = out / "work" / RESULT
        if not path.is_file():
            why = "; ".join(f"{name}: {reason}" for name, reason in results.left_out)
            raise PliantError(f"{job.id}: expected the value of the function, found none {why}".rstrip())
        return path


def _cancel_each(futures: Iterable[Future[Any]]) -> Optional[BaseException]:
    """Cancels all futures; the first error."""
    first: Optional[BaseException] = None
    for future in futures:
        try:
            future.cancel()
        except Exception as error:
            first = first or error
    return first


def _note(error: BaseException, failure: Optional[BaseException]) -> None:
    """Adds to an error that a call could not be cancelled, where exceptions have notes (Python 3.11)."""
    if failure is not None and hasattr(error, "add_note"):
        error.add_note(f"pliant: a call was not cancelled: {failure}")


def _job_failed(client: Client, job: Job) -> PliantError:
    """The error of a job that ended without a value, with the last line of its errors."""
    how = "" if job.exit is None else f": {job.exit}"
    try:
        lines = client.logs(job, stderr=True).strip().splitlines()
    except PliantError:
        lines = []
    said = f"\n{lines[-1]}" if lines else ""
    return JobFailedError(f"{job.id} {job.state}{how}{said}", HINT if "Python" in said or "env:" in said else None, job)


def _checked(options: Mapping[str, Any], also: Tuple[str, ...]) -> Dict[str, Any]:
    known = set(SUBMIT_OPTIONS) - set(_NOT_FOR_FUNCTIONS) - {_OF_ONE_CALL} | set(also)
    for name in options:
        if name not in known:
            raise InputError(f"resources: expected some of {', '.join(sorted(known))}, found {name!r}")
    return dict(options)


def _name(function: Callable[..., Any]) -> str:
    """The name of a job: that of the function, as far as it is a name of a file."""
    name = getattr(function, "__name__", type(function).__name__)
    return "".join(letter for letter in name if letter.isalnum() or letter in "_-.") or "function"


def _chunks(calls: Iterator[Tuple[Any, ...]], size: int) -> Iterator[Tuple[Tuple[Any, ...], ...]]:
    while True:
        chunk = tuple(itertools.islice(calls, size))
        if not chunk:
            return
        yield chunk


def _seconds(time: Any) -> int:
    return _pliant._duration_s(time) if isinstance(time, str) else seconds("time", time)
