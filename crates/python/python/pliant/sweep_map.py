"""The calls of `Executor.map` as instances of one sweep, whose batches run many short calls in few jobs."""

from __future__ import annotations

import shutil
import threading
import time as clock
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from .calls import HINT, RESULT, Calls, printed, values_of
from .client import Client
from .errors import JobFailedError, PliantError, UnavailableError
from .words import SWEEP_OPTIONS, words_of

if TYPE_CHECKING:
    from ._pliant import Instance, Task

#: The time between two attempts to fetch results of a server that is down, s.
_PAUSE_S = 2.0


class SweepMap:
    """The calls of one `map`: an instance runs a chunk of them. `on_end` is called once no instance runs any more."""

    def __init__(
        self,
        client: Client,
        calls: Calls,
        folder: Path,
        function: Callable[..., Any],
        chunks: Iterable[Sequence[Tuple[Any, ...]]],
        options: Mapping[str, Any],
        on_end: Callable[[SweepMap], None],
    ) -> None:
        self._client = client
        self._folder = folder
        self._on_end = on_end
        # Guards the two below: the files of calls are removed when the sweep is over and its values are not read any more.
        self._lock = threading.Lock()
        self._is_over = False
        self._is_read = False
        script, inputs, self._lengths = calls.write_some(folder, function, chunks)
        self._ended: list[Future[Instance]] = [Future() for _ in self._lengths]
        self._task: Optional[Task] = None
        if not self._lengths:
            self._over()
            return
        # A call runs once, as in other executors.
        given = {"retries": 0, **options, "script": script, "inputs": inputs, "vary": {"call": range(len(self._lengths))}}
        words = words_of(None, given, SWEEP_OPTIONS)
        self._task = client._connection.sweep(words, folder / "sweep", None, self._on_instances)
        self._task.add_done_callback(self._over)

    @property
    def is_over(self) -> bool:
        """True if no instance runs any more."""
        return self._is_over

    def cancel(self) -> None:
        """Cancels the calls that have not ended. Does not wait for that."""
        if self._task is not None:
            self._task.cancel()

    def values(self, until: Optional[float]) -> Iterator[Any]:
        """The values of the calls in their order, as they come. Calls whose values are not asked for any more are cancelled."""
        try:
            fetched: Dict[str, Path] = {}
            for future, length in zip(self._ended, self._lengths):
                instance = future.result(None if until is None else until - clock.monotonic())
                yield from values_of(self._outcomes(instance, fetched, until), length)
        finally:
            self.cancel()
            with self._lock:
                self._is_read = True
                is_over = self._is_over
            if is_over:
                self._remove()

    def _outcomes(self, instance: Instance, fetched: Dict[str, Path], until: Optional[float]) -> bytes:
        """The outcomes of the calls of an instance that has ended."""
        if instance.state != "completed" or instance.job is None:
            raise self._failed(instance)
        outcomes = printed(instance.output)
        if outcomes is not None:
            return outcomes
        if instance.job not in fetched:
            fetched[instance.job] = self._fetched(instance.job, until)
        path = fetched[instance.job] / "work" / str(instance.number) / RESULT
        if not path.is_file():
            raise PliantError(f"{instance.job}: expected the values of instance {instance.number}, found none")
        return path.read_bytes()

    def _fetched(self, job: str, until: Optional[float]) -> Path:
        """The folder of the results of a job, which has run several instances."""
        out = self._folder / job
        while True:
            try:
                self._client.fetch(job, out)
                return out
            except UnavailableError:
                if until is not None and clock.monotonic() >= until:
                    raise FutureTimeoutError from None
                clock.sleep(_PAUSE_S)

    def _failed(self, instance: Instance) -> PliantError:
        """The error of an instance that has no outcomes, with the last line of its errors."""
        lines = instance.error.strip().splitlines()
        last = f"\n{lines[-1]}" if lines else ""
        if instance.job is None:
            return PliantError(f"instance {instance.number}: {instance.how}{last}")
        problem = f"{instance.job}: instance {instance.number}: {instance.how}{last}"
        hint = HINT if "Python" in last or "env:" in last else None
        return JobFailedError(problem, hint, self._client.job(instance.job))

    def _on_instances(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            future = self._ended[instance.number]
            if future.done():
                continue
            if instance.state == "cancelled":
                future.cancel()
            else:
                future.set_result(instance)

    def _over(self) -> None:
        """The sweep has ended: calls without an end get its error, or are cancelled."""
        failure: Optional[BaseException] = None
        if self._task is not None:
            try:
                self._task.wait(0)
            except BaseException as error:
                failure = error
        for future in self._ended:
            if future.done():
                continue
            if failure is None:
                future.cancel()
            else:
                future.set_exception(failure)
        with self._lock:
            self._is_over = True
            is_read = self._is_read
        if is_read:
            self._remove()
        self._on_end(self)

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
