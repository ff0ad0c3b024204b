"""An executor whose calls of the federation fail, come late or come in another order: no future waits for ever, and none gets two ends."""

import concurrent.futures
import gc
import itertools
import pickle
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

import pliant
from pliant import executor as module
from pliant.calls import RESULT, RemoteError, RemoteTraceback, value_of

pytest.importorskip("cloudpickle")

LONG_S = 30
DOWN = pliant.UnavailableError("the server is down")


class Record:
    """A job."""

    exit = None

    def __init__(self, id: str, state: str = "ACTIVE") -> None:
        self.id, self.state = id, state

    @property
    def is_final(self) -> bool:
        return self.state != "ACTIVE"

    @property
    def is_completed(self) -> bool:
        return self.state == "COMPLETED"


class Task:
    """Waits for a job that ends."""

    def __init__(self, client: "MadeUp", ids: list) -> None:
        self.client, self.ids = client, ids

    def wait(self, timeout: float) -> tuple:
        client = self.client
        if client.lost is not None:
            raise client.lost
        with client.changed:
            def ended() -> list:
                return [at for at, one in enumerate(self.ids) if at not in client.given[id(self.ids)] and client.jobs[one].is_final]

            if not client.changed.wait_for(ended, timeout):
                raise TimeoutError
            at = ended()[0]
            client.given[id(self.ids)].add(at)
            return at, client.jobs[self.ids[at]]

    def cancel(self) -> None:
        pass


class Pending:
    def __init__(self, client: "MadeUp", ids: list) -> None:
        self.client, self.ids = client, ids
        client.given[id(ids)] = set()

    def next(self) -> Task:
        return Task(self.client, self.ids)


class MadeUp:
    """A client whose jobs end when a test says so, and whose calls fail as it says."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.jobs: dict = {}
        self.values: dict = {}
        self.given: dict = {}
        self.numbers = itertools.count(1)
        self.lost: Optional[BaseException] = None
        self.on_submit: Callable[[dict], None] = lambda options: None
        self.on_cancel: Callable[[str], None] = lambda job: None
        self.on_fetch: Callable[[str], None] = lambda job: None
        self.asked: list = []
        self.followed = 0

    @property
    def _connection(self) -> "MadeUp":
        return self

    def pending(self, ids: list) -> Pending:
        self.followed += 1
        return Pending(self, ids)

    def submit(self, **options: Any) -> Record:
        self.on_submit(options)
        job = Record(f"lyon.{next(self.numbers)}")
        with self.changed:
            self.jobs[job.id] = job
        return job

    def end(self, job: str, state: str = "COMPLETED", value: Any = None) -> None:
        self.values[job] = value
        with self.changed:
            self.jobs[job].state = state
            self.changed.notify_all()

    def cancel(self, job: Record) -> Record:
        self.on_cancel(job.id)
        self.end(job.id, "CANCELED")
        return self.jobs[job.id]

    def job(self, job: str) -> Record:
        self.asked.append(job)
        raise DOWN

    def logs(self, job: Any, stderr: bool = False) -> str:
        return ""

    def fetch(self, job: Record, out: Path) -> None:
        self.on_fetch(job.id)
        path = Path(out) / "work" / RESULT
        path.parent.mkdir(parents=True)
        path.write_bytes(pickle.dumps((True, "")) + pickle.dumps(self.values[job.id]))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "_NEW_JOBS_S", 0.02)


@pytest.fixture
def client() -> MadeUp:
    return MadeUp()


@pytest.fixture
def executor(client: MadeUp):
    running = pliant.Executor(client)  # type: ignore[arg-type]
    yield running
    client.on_cancel = client.on_fetch = lambda job: None
    client.lost = None
    running.shutdown(cancel_futures=True)


def test_values_are_settled_and_the_files_of_calls_removed(executor, client) -> None:
    futures = [executor.submit(abs, -number) for number in range(3)]
    folder = executor._folder
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 3
    for number, future in enumerate(futures):
        client.end(future.job.id, value=number)
    assert [future.result(LONG_S) for future in futures] == [0, 1, 2]
    executor.shutdown(wait=True)
    assert not folder.exists()


def test_the_folder_of_a_call_is_removed_once_its_job_has_ended(executor, client) -> None:
    ended, failed, runs = (executor.submit(abs, number) for number in range(3))
    folders = {future: future._folder for future in (ended, failed, runs)}
    client.end(ended.job.id, value=1)
    client.end(failed.job.id, "FAILED")
    assert ended.result(LONG_S) == 1
    assert isinstance(failed.exception(LONG_S), pliant.JobFailedError)
    until = time.monotonic() + LONG_S
    while (folders[ended].exists() or folders[failed].exists()) and time.monotonic() < until:
        time.sleep(0.01)
    assert [folders[future].exists() for future in (ended, failed, runs)] == [False, False, True]


def test_an_executor_that_is_dropped_removes_its_folder(client) -> None:
    executor = pliant.Executor(client)
    future = executor.submit(abs, -1)
    folder = executor._folder
    client.end(future.job.id, value=1)
    assert future.result(LONG_S) == 1
    del executor
    until = time.monotonic() + LONG_S
    while folder.exists() and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    assert not folder.exists()


def test_a_future_is_cancelled_once_by_the_user_and_the_follower(executor, client) -> None:
    class Both(threading.Thread):
        def __init__(self, call: Callable[[], Any]) -> None:
            super().__init__()
            self.call, self.error = call, None

        def run(self) -> None:
            try:
                self.call()
            except BaseException as error:
                self.error = error

    for first in ("user", "follower"):
        future = executor.submit(abs, -1)
        inside, go_on = threading.Event(), threading.Event()
        is_done = future.done

        def stopped(is_done=is_done, inside=inside, go_on=go_on) -> bool:
            found = is_done()
            if not inside.is_set():
                inside.set()
                go_on.wait(LONG_S)
            return found

        # The first one is stopped when it has seen that the future has no end.
        future.done = stopped
        calls = {"user": future._cancelled, "follower": lambda: future._settle(Record(future.job.id, "CANCELED"))}
        one = Both(calls.pop(first))
        one.start()
        assert inside.wait(LONG_S)
        other = Both(calls.popitem()[1])
        other.start()
        other.join(0.2)
        go_on.set()
        one.join(LONG_S), other.join(LONG_S)
        assert (one.error, other.error) == (None, None)
        assert future.cancelled() and future.cancel()
        client.end(future.job.id, "CANCELED")
    # The follower goes on.
    last = executor.submit(abs, -1)
    client.end(last.job.id, value=1)
    assert last.result(LONG_S) == 1


def test_shutdown_cancels_the_others_if_one_cannot_be_cancelled(executor, client) -> None:
    futures = [executor.submit(abs, -number) for number in range(4)]
    tried = []

    def cancel(job: str) -> None:
        tried.append(job)
        if len(tried) in (1, 3):
            raise pliant.UnavailableError(f"cannot reach the server of {job}")

    client.on_cancel = cancel
    with pytest.raises(pliant.UnavailableError, match=f"the server of {futures[0].job.id}"):
        executor.shutdown(wait=False, cancel_futures=True)
    assert tried == [future.job.id for future in futures]
    assert [future.cancelled() for future in futures] == [False, True, False, True]
    client.on_cancel = lambda job: None
    assert futures[0].cancel() and futures[2].cancel()


def test_a_map_whose_time_is_up_cancels_all_calls(executor, client) -> None:
    tried = []

    def cancel(job: str) -> None:
        tried.append(job)
        if len(tried) == 1:
            raise DOWN

    client.on_cancel = cancel
    values = executor.map(abs, range(3), timeout=0.05, buffersize=3)
    jobs = list(client.jobs)
    with pytest.raises(concurrent.futures.TimeoutError) as caught:
        next(values)
    assert tried == jobs
    assert not isinstance(caught.value, pliant.UnavailableError)
    notes = getattr(caught.value, "__notes__", ["the server is down"])
    assert "the server is down" in notes[0]


def test_a_map_submits_no_more_than_its_buffer_ahead(executor, client) -> None:
    values = executor.map(abs, itertools.count(), buffersize=2)
    assert list(client.jobs) == ["lyon.1", "lyon.2"]
    client.end("lyon.1", value=10)
    assert next(values) == 10
    assert list(client.jobs) == ["lyon.1", "lyon.2", "lyon.3"]
    values.close()
    assert {job.state for job in client.jobs.values()} == {"COMPLETED", "CANCELED"}


def test_a_submission_whose_outcome_is_unknown_is_repeated_with_its_key(executor, client, monkeypatch) -> None:
    sent = []

    def submit(options: dict) -> None:
        sent.append(options)
        if len(sent) == 1:
            raise pliant.SubmissionUnknownError("lost", None, "0f" * 16, "lyon")
        if len(sent) == 2:
            raise pliant.InputError("the submission with this key was sent to lyon before; lyon is down")

    client.on_submit = submit
    future = executor.submit(abs, -1)
    assert "key" not in sent[0] and [options["key"] for options in sent[1:]] == ["0f" * 16] * 2
    # The same files: it is the same submission.
    assert sent[0]["script"] == sent[2]["script"] and sent[0]["inputs"] == sent[2]["inputs"]
    client.end(future.job.id, value=1)
    assert future.result(LONG_S) == 1
    monkeypatch.setattr(module, "_ATTEMPTS", 2)

    def lose(options: dict) -> None:
        raise pliant.SubmissionUnknownError("lost", "submit with its key", "0e" * 16, "lyon")

    client.on_submit = lose
    with pytest.raises(pliant.SubmissionUnknownError) as caught:
        executor.submit(abs, -1)
    # What the hint says is possible.
    client.on_submit = sent.append
    executor.submit(abs, -1, resources={"key": caught.value.key})
    assert sent[-1]["key"] == "0e" * 16
    with pytest.raises(pliant.InputError, match="found 'key'"):
        pliant.Executor(client, resources={"key": "0e" * 16})


def test_shutdown_waits_for_a_submission_under_way(executor, client) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def submit(options: dict) -> None:
        inside.set()
        assert go_on.wait(LONG_S)
        assert options["script"].exists() and all(path.exists() for path in options["inputs"].values())

    client.on_submit = submit
    futures: list = []
    submitting = threading.Thread(target=lambda: futures.append(executor.submit(abs, -7)))
    submitting.start()
    assert inside.wait(LONG_S)
    closing = threading.Thread(target=executor.shutdown)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive() and executor._folder.exists()
    go_on.set()
    submitting.join(LONG_S)
    client.end(futures[0].job.id, value=7)
    closing.join(LONG_S)
    assert futures[0].result(LONG_S) == 7 and not closing.is_alive() and not executor._folder.exists()


def test_a_follower_that_fails_fails_all_futures_and_another_one_starts(executor, client) -> None:
    futures = [executor.submit(abs, -1) for _ in range(2)]
    client.lost = ValueError("odd answer")
    for future in futures:
        assert repr(future.exception(LONG_S)) == "ValueError('odd answer')"
    client.lost = None
    future = executor.submit(abs, -1)
    client.end(future.job.id, value=1)
    assert future.result(LONG_S) == 1


def test_a_result_whose_server_is_down_is_fetched_later(executor, client) -> None:
    tries = []

    def fetch(job: str) -> None:
        tries.append(job)
        if len(tries) < 4:
            raise DOWN

    client.on_fetch = fetch
    waits, future = executor.submit(abs, -5), executor.submit(abs, -4)
    client.end(future.job.id, value=4)
    # Also while another job runs.
    assert future.result(LONG_S) == 4 and len(tries) == 4
    assert not waits.done()

    def denied(job: str) -> None:
        raise pliant.DeniedError("not yours")

    client.on_fetch = denied
    client.end(waits.job.id, value=5)
    assert isinstance(waits.exception(LONG_S), pliant.DeniedError)


def test_jobs_that_cannot_be_followed_are_asked_for_after_a_pause(executor, client, monkeypatch) -> None:
    pauses = []
    real = module.clock.sleep

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        real(seconds)

    monkeypatch.setattr(module.clock, "sleep", sleep)
    future = executor.submit(abs, -1)
    client.lost = pliant.UnavailableError("the agent is down")
    until = time.monotonic() + LONG_S
    while len(client.asked) < 3 and time.monotonic() < until:
        real(0.001)
    client.lost = None
    client.end(future.job.id, value=1)
    assert future.result(LONG_S) == 1
    assert len(client.asked) - 1 <= pauses.count(module._PAUSE_S)


def test_a_callback_that_leaves_does_not_stop_the_follower(executor, client) -> None:
    first, second = executor.submit(abs, -1), executor.submit(abs, -2)

    def leave(future: Any) -> None:
        raise SystemExit(3)

    first.add_done_callback(leave)
    client.end(first.job.id, value=1)
    assert first.result(LONG_S) == 1
    client.end(second.job.id, value=2)
    assert second.result(LONG_S) == 2


def test_an_exception_whose_class_is_only_on_the_server_has_its_traceback(tmp_path: Path) -> None:
    path = tmp_path / RESULT
    # The pickle of an object of a class that cannot be imported here.
    path.write_bytes(pickle.dumps((False, "Traceback of the server")) + b"cmodule_of_the_server\nOwnError\n.")
    with pytest.raises(RemoteError, match="Traceback of the server") as caught:
        value_of(path)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    path.write_bytes(pickle.dumps((False, "Traceback of the server")) + pickle.dumps(KeyError("x")))
    with pytest.raises(KeyError) as other:
        value_of(path)
    assert isinstance(other.value.__cause__, RemoteTraceback)


def test_cancelled_futures_are_cancelled_for_those_that_wait(executor, client) -> None:
    future = executor.submit(abs, -1)
    client.end(future.job.id, "CANCELED")
    with pytest.raises(CancelledError):
        future.result(LONG_S)
