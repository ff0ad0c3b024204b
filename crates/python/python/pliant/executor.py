"""Functions of Python that run as jobs of a federation, behind the interface of `concurrent.futures`."""

from __future__ import annotations

import pickle
import shutil
import sys
import tempfile
import threading
import zipfile
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, TypeVar

from .client import Client
from .errors import InputError, JobFailedError, PliantError
from .words import SUBMIT_OPTIONS

if TYPE_CHECKING:
    from ._pliant import Job

T = TypeVar("T")
if TYPE_CHECKING:
    JobFuture = Future[Any]
else:
    JobFuture = Future

#: Options of `Client.submit` that are not for functions.
_NOT_FOR_FUNCTIONS = ("script", "args", "arguments", "inputs", "stdin", "merge_output", "chdir", "key", "ignore_sbatch")
_CALL = "call.pickle"
_RESULT = "result.pickle"
_CLOUDPICKLE = "cloudpickle.zip"
_HINT = "choose another interpreter with Executor(python=...)"

# What a job runs. It needs the same version of Python, and no package. Values are written under another name first: a job that is killed
# leaves no half of one.
_SCRIPT = '''#!/usr/bin/env {python}
import os, pickle, sys, traceback
expected = {version!r}
if sys.version_info[:2] != expected:
    found = sys.version.split()[0]
    sys.exit("pliant: expected Python %d.%d, as where the function was submitted, found %s at %s" % (*expected, found, sys.executable))
sys.path.insert(0, os.path.abspath({cloudpickle!r}))
import cloudpickle
def write(ended):
    with open({result!r} + ".part", "wb") as file:
        file.write(ended)
    os.rename({result!r} + ".part", {result!r})
try:
    with open({call!r}, "rb") as file:
        function, arguments, names = pickle.load(file)
    ended = (True, function(*arguments, **names), "")
    text = cloudpickle.dumps(ended)
except BaseException as error:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        text = cloudpickle.dumps((False, error, trace))
        pickle.loads(text)
    except BaseException:
        text = cloudpickle.dumps((False, None, trace))
write(text)
'''


class RemoteTraceback(Exception):
    """The traceback of an exception on a server: the cause of that exception here."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        return "\n" + self.trace


class RemoteError(PliantError):
    """A function raised an exception that cannot be brought back. The message has its traceback."""


class Executor(BaseExecutor):
    """Runs functions as jobs: ``executor.submit(function, *args, resources={"rigid": 4}).result()``.

    The function, its arguments and its value are pickled with cloudpickle (``pip install pliant[executor]``), which goes along with the job:
    the server needs Python of the same minor version, and the packages that the function imports. Each call is a job of its own, also
    in `map`. Cancelling a future cancels its job, in every state.

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
        self._cloudpickle = _cloudpickle()
        self._client = client if client is not None else Client()
        self._options = _checked({"time": time, **(resources or {})})
        self._python = python or f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self._folder = Path(tempfile.mkdtemp(prefix="pliant-executor-"))
        self._lock = threading.Lock()
        # Jobs that have not ended, by ID.
        self._futures: Dict[str, _JobFuture] = {}
        self._closed = False
        self._number = 0
        self._package = _package(self._folder)
        self._idle = threading.Condition(self._lock)
        self._follower: Optional[threading.Thread] = None

    # The base class has it without `resources`, which is a keyword here.
    def submit(  # type: ignore[override]
        self, function: Callable[..., T], /, *args: Any, resources: Optional[Mapping[str, Any]] = None, **names: Any
    ) -> Future[T]:
        """Submits a call. `resources` are options of this call, over those of the executor; no argument of the function has that name.

        Raises what `Client.submit` raises.
        """
        options = {**self._options, **_checked(resources or {})}
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot submit a call after shutdown")
            self._number += 1
            folder = self._folder / str(self._number)
        folder.mkdir()
        (folder / _CALL).write_bytes(self._cloudpickle.dumps((function, args, names)))
        script = folder / "call.py"
        text = _SCRIPT.format(
            python=self._python,
            version=tuple(sys.version_info[:2]),
            cloudpickle=_CLOUDPICKLE,
            call=_CALL,
            result=_RESULT,
        )
        script.write_text(text)
        options.setdefault("job_name", _name(function))
        inputs = {_CALL: folder / _CALL, _CLOUDPICKLE: self._package}
        job = self._client.submit(script=script, inputs=inputs, **options)
        future = _JobFuture(self._client, job, folder)
        with self._lock:
            self._futures[job.id] = future
            if self._follower is None:
                # A daemon: a program that ends without shutdown leaves its jobs to run, as a client that was killed does.
                self._follower = threading.Thread(target=self._follow, name="pliant-executor", daemon=True)
                self._follower.start()
            self._idle.notify_all()
        return future

    def _follow(self) -> None:
        """Settles futures as their jobs end."""
        connection = self._client._connection
        while True:
            with self._lock:
                while not self._futures:
                    if self._closed:
                        return
                    self._idle.wait()
                known = dict(self._futures)
            ids = list(known)
            pending = connection.pending(ids)
            left = set(ids)
            task = pending.next()
            while left:
                try:
                    ended = task.wait(0.2)
                except TimeoutError:
                    with self._lock:
                        # New jobs are followed with the others.
                        if self._futures.keys() - known.keys():
                            break
                    continue
                except PliantError as error:
                    self._given_up(left, error)
                    break
                index, job = ended
                left.discard(ids[index])
                known[ids[index]]._settle(job)
                with self._lock:
                    self._futures.pop(ids[index], None)
                    self._idle.notify_all()
                task = pending.next()
            task.cancel()

    def _given_up(self, ids: set[str], error: PliantError) -> None:
        """One of these jobs cannot be followed: each is asked for, to find out which."""
        for one in ids:
            try:
                self._client.job(one)
            except PliantError as own:
                if not isinstance(own, ConnectionError):
                    with self._lock:
                        future = self._futures.pop(one, None)
                    if future is not None:
                        future._fail(own)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. `wait` until all have ended; `cancel_futures` cancels their jobs."""
        with self._lock:
            self._closed = True
            futures = list(self._futures.values())
            self._idle.notify_all()
            follower = self._follower
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            if follower is not None:
                follower.join()
            shutil.rmtree(self._folder, ignore_errors=True)


class _JobFuture(JobFuture):
    """The value of a function that runs as a job. `job` is the record of the job when it was accepted."""

    def __init__(self, client: Client, job: Job, folder: Path) -> None:
        super().__init__()
        self._client = client
        self._job_folder = folder
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
        if super().cancel():
            self.set_running_or_notify_cancel()
        return self.cancelled()

    def _settle(self, job: Job) -> None:
        """Sets the value, or the exception."""
        if self.done():
            return
        if job.state == "CANCELED":
            self._cancelled()
            return
        try:
            value = self._value(job)
        except BaseException as error:
            self._fail(error)
        else:
            if self.set_running_or_notify_cancel():
                self.set_result(value)

    def _fail(self, error: BaseException) -> None:
        if not self.done() and self.set_running_or_notify_cancel():
            self.set_exception(error)

    def _value(self, job: Job) -> Any:
        if not job.is_completed:
            raise _job_failed(self._client, job)
        out = self._job_folder / "out"
        results = self._client.fetch(job, out)
        path = out / "work" / _RESULT
        if not path.is_file():
            why = "; ".join(f"{name}: {reason}" for name, reason in results.left_out)
            raise PliantError(f"{job.id}: expected the value of the function, found none {why}".rstrip())
        is_value, value, trace = pickle.loads(path.read_bytes())
        shutil.rmtree(self._job_folder, ignore_errors=True)
        if is_value:
            return value
        if value is None:
            raise RemoteError(trace)
        raise value from RemoteTraceback(trace)


def _job_failed(client: Client, job: Job) -> PliantError:
    """The error of a job that ended without a value, with the last line of its errors."""
    how = "" if job.exit is None else f": {job.exit}"
    try:
        lines = client.logs(job, stderr=True).strip().splitlines()
    except PliantError:
        lines = []
    said = f"\n{lines[-1]}" if lines else ""
    return JobFailedError(f"{job.id} {job.state}{how}{said}", _HINT if "Python" in said or "env:" in said else None, job)


def _checked(options: Mapping[str, Any]) -> Dict[str, Any]:
    for name in options:
        if name not in SUBMIT_OPTIONS or name in _NOT_FOR_FUNCTIONS:
            known = ", ".join(sorted(set(SUBMIT_OPTIONS) - set(_NOT_FOR_FUNCTIONS)))
            raise InputError(f"resources: expected some of {known}, found {name!r}")
    return dict(options)


def _name(function: Callable[..., Any]) -> str:
    """The name of a job: that of the function, as far as it is a name of a file."""
    name = getattr(function, "__name__", type(function).__name__)
    return "".join(letter for letter in name if letter.isalnum() or letter in "_-.") or "function"


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        raise InputError("expected the package cloudpickle, found none", "pip install 'pliant[executor]'") from None
    return cloudpickle


def _package(folder: Path) -> Path:
    """The package cloudpickle as a file that Python imports from."""
    package = Path(_cloudpickle().__file__).parent
    path = folder / _CLOUDPICKLE
    with zipfile.ZipFile(path, "w") as archive:
        for module in sorted(package.glob("*.py")):
            archive.write(module, f"cloudpickle/{module.name}")
    return path
