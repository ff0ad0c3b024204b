"""A client of a federation for asyncio. It is a module of its own, since asyncio takes longer to import than all of the package."""

from __future__ import annotations

import asyncio
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterable, NoReturn, Optional, Sequence, Union, cast, overload

from ._pliant import Estimates, ExplorationResult, Job, Launch, Results, SweepResult, Task
from .client import ASKING_S, _checked, _connection, _id, _ids, _launch, _launched, _most, _states, _text, _time_up, not_pickled
from .errors import UnavailableError
from .progress import reported
from .words import EXPLORE_OPTIONS, SUBMIT_OPTIONS, SWEEP_OPTIONS, words_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import JobLike
    from .progress import Progress
    from .words import ExploreOptions, LaunchOptions, PathLike, SubmitOptions, SweepOptions


class AsyncClient:
    """A user's way into a federation, for asyncio: the calls of `Client` as coroutines. Cancelling a coroutine ends its call, not the job."""

    def __init__(self, config: Optional[PathLike] = None) -> None:
        self._connection = _connection(config)

    @property
    def user(self) -> str:
        """The user in the certificate."""
        return self._connection.user

    async def submit(self, service: Optional[str] = None, /, **options: Unpack[SubmitOptions]) -> Job:
        """As `Client.submit`. A coroutine that is cancelled raises nothing more: with a `key` of your own the same call finds the job."""
        return cast(Job, await _awaited(self._connection.submit(words_of(service, options, SUBMIT_OPTIONS))))

    async def estimate(self, service: Optional[str] = None, /, **options: Unpack[SubmitOptions]) -> Estimates:
        """As `Client.estimate`."""
        return cast(Estimates, await _awaited(self._connection.estimate(words_of(service, options, SUBMIT_OPTIONS))))

    async def queue(
        self,
        *,
        ended: bool = False,
        state: Union[str, Sequence[str], None] = None,
        all: bool = False,
        user: Optional[str] = None,
        server: Optional[str] = None,
        last: int = 1_000,
    ) -> list[Job]:
        """As `Client.queue`."""
        return cast("list[Job]", await _awaited(self._connection.queue(_states(ended, state), all, user, server, _most(last))))

    async def job(self, job: JobLike) -> Job:
        """As `Client.job`."""
        return cast(Job, await _awaited(self._connection.job(_id(job))))

    @overload
    async def wait(  # type: ignore[overload-overlap]
        self, jobs: JobLike, *, timeout: Optional[float] = None, check: bool = False
    ) -> Job: ...
    @overload
    async def wait(
        self, jobs: Iterable[JobLike], *, timeout: Optional[float] = None, check: bool = False
    ) -> list[Job]: ...
    async def wait(
        self, jobs: Union[JobLike, Iterable[JobLike]], *, timeout: Optional[float] = None, check: bool = False
    ) -> Union[Job, list[Job]]:
        """As `Client.wait`."""
        ids = _ids(jobs)
        ended: dict[int, Job] = {}
        async for index, job in self._ended(ids, timeout):
            ended[index] = job
        found = _checked([ended[index] for index in range(len(ids))], check)
        return found[0] if isinstance(jobs, (Job, str)) else found

    async def as_completed(self, jobs: Iterable[JobLike], *, timeout: Optional[float] = None) -> AsyncIterator[Job]:
        """As `Client.as_completed`, for ``async for``."""
        async for _, job in self._ended(_ids(jobs), timeout):
            yield job

    async def _ended(self, ids: list[str], timeout: Optional[float]) -> AsyncIterator[tuple[int, Job]]:
        pending = self._connection.pending(ids)
        until = None if timeout is None else clock.monotonic() + timeout
        ended: dict[int, Job] = {}
        while len(ended) < len(ids):
            left = None if until is None else max(0.0, until - clock.monotonic())
            try:
                index, job = await asyncio.wait_for(_awaited(pending.next()), left)
            except asyncio.TimeoutError:
                async for index, job in self._ended_by_now(ids, ended):
                    yield index, job
                return
            ended[index] = job
            yield index, job

    async def _ended_by_now(self, ids: list[str], ended: dict[int, Job]) -> AsyncIterator[tuple[int, Job]]:
        """Asks for the other jobs once, and raises `WaitTimeoutError` if one of them has not ended."""
        missing = [index for index in range(len(ids)) if index not in ended]
        asked = [asyncio.wait_for(_awaited(self._connection.job(ids[index])), ASKING_S) for index in missing]
        for index, job in zip(missing, await asyncio.gather(*asked, return_exceptions=True)):
            if isinstance(job, BaseException):
                if not isinstance(job, (asyncio.TimeoutError, UnavailableError)):
                    raise job
            elif job.is_final:
                ended[index] = job
                yield index, job
        if len(ended) < len(ids):
            raise _time_up(ids, ended)

    @overload
    async def cancel(self, jobs: JobLike) -> Job: ...  # type: ignore[overload-overlap]
    @overload
    async def cancel(self, jobs: Iterable[JobLike]) -> list[Job]: ...
    async def cancel(self, jobs: Union[JobLike, Iterable[JobLike]]) -> Union[Job, list[Job]]:
        """As `Client.cancel`."""
        found = [cast(Job, await _awaited(task)) for task in [self._connection.cancel(one) for one in _ids(jobs)]]
        return found[0] if isinstance(jobs, (Job, str)) else found

    async def logs(self, job: JobLike, *, stderr: bool = False) -> str:
        """As `Client.logs`."""
        return _text(await _awaited(self._connection.output(_id(job), stderr)))

    async def fetch(self, job: JobLike, out: PathLike) -> Results:
        """As `Client.fetch`."""
        return cast(Results, await _awaited(self._connection.fetch(_id(job), Path(out))))

    async def sweep(
        self,
        service: Optional[str] = None,
        /,
        *,
        out: PathLike,
        progress: Progress = False,
        **options: Unpack[SweepOptions],
    ) -> SweepResult:
        """As `Client.sweep`; a cancelled coroutine stops it like Ctrl-C."""
        words = words_of(service, options, SWEEP_OPTIONS)
        with reported(progress, "instances") as report:
            return cast(SweepResult, await _awaited(self._connection.sweep(words, Path(out), report.call)))

    async def resume_sweep(self, out: PathLike, *, progress: Progress = False) -> SweepResult:
        """As `Client.resume_sweep`."""
        with reported(progress, "instances") as report:
            return cast(SweepResult, await _awaited(self._connection.sweep(None, Path(out), report.call)))

    async def explore(
        self,
        service: Optional[str] = None,
        /,
        *,
        out: PathLike,
        progress: Progress = False,
        **options: Unpack[ExploreOptions],
    ) -> ExplorationResult:
        """As `Client.explore`."""
        words = words_of(service, options, EXPLORE_OPTIONS)
        with reported(progress, "requests") as report:
            return cast(ExplorationResult, await _awaited(self._connection.explore(words, Path(out), report.call)))

    async def launch(
        self,
        application: PathLike,
        *,
        out: Optional[PathLike] = None,
        detach: bool = False,
        check: bool = False,
        progress: Optional[Callable[[Launch], None]] = None,
        **options: Unpack[LaunchOptions],
    ) -> Launch:
        """As `Client.launch`; a cancelled coroutine ends the launch."""
        task = self._connection.launch(*_launch(application, options, detach, out), progress)
        return _launched(await _awaited(task), check and not detach)

    def __repr__(self) -> str:
        return f"AsyncClient(user={self.user!r})"

    def __reduce__(self) -> NoReturn:
        raise not_pickled(self)


async def _awaited(task: Task) -> Any:
    """The answer of a call; a call whose coroutine is cancelled ends."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def done() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop was closed before: nothing waits.
            pass

    task.add_done_callback(done)
    try:
        await ended
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task.wait(0)
