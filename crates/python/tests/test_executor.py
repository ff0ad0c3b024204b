"""Functions as jobs."""

import concurrent.futures
import os
import sys
from concurrent.futures import CancelledError, as_completed
from pathlib import Path

import pytest
from federation import Federation, client, federation  # noqa: F401

import pliant
from pliant.executor import RemoteError, RemoteTraceback

pytest.importorskip("cloudpickle")


@pytest.fixture
def executor(client: pliant.Client):
    with pliant.Executor(client, time="2m", python=sys.executable) as running:
        yield running


def test_values_come_back(executor: pliant.Executor) -> None:
    factor = 3
    future = executor.submit(lambda number, plus=0: (number * factor + plus, os.environ["PLIANT_PROCS"]), 5, plus=1, resources={"rigid": 2})
    assert future.result(timeout=120) == (16, "2")
    assert future.job.procs == 2
    assert list(executor.map(pow, [2, 3, 4], [5, 2, 1], timeout=120)) == [32, 9, 4]


def test_exceptions_come_back_with_their_traceback(executor: pliant.Executor) -> None:
    def divide(number: int) -> float:
        return 1 / number

    error = executor.submit(divide, 0).exception(timeout=120)
    assert isinstance(error, ZeroDivisionError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "ZeroDivisionError: division by zero" in str(error.__cause__), "the traceback is that of the server"
    assert "in divide" in str(error.__cause__)

    def unpicklable() -> None:
        class Odd(Exception):
            def __reduce__(self) -> str:
                raise TypeError("no")

        raise Odd("lost")

    error = executor.submit(unpicklable).exception(timeout=120)
    assert isinstance(error, RemoteError) and "lost" in str(error)

    def only_there() -> None:
        import pathlib
        import sys

        # A module of the folder of the job, which is not here.
        pathlib.Path("module_of_the_job.py").write_text("class OwnError(Exception):\n    pass\n")
        sys.path.insert(0, ".")
        import module_of_the_job

        raise module_of_the_job.OwnError("only there")

    error = executor.submit(only_there).exception(timeout=120)
    assert isinstance(error, RemoteError) and "OwnError: only there" in str(error)


def test_cancelling_a_future_cancels_its_job(executor: pliant.Executor, client: pliant.Client, tmp_path: Path) -> None:
    def wait_for(path: str) -> None:
        import pathlib
        import time

        while not pathlib.Path(path).exists():
            time.sleep(0.05)

    future = executor.submit(wait_for, str(tmp_path / "open"))
    assert not future.done() and future.cancel()
    with pytest.raises(CancelledError):
        future.result(timeout=60)
    assert client.wait(future.job, timeout=60).state == "CANCELED"
    # A job that is cancelled elsewhere is a cancelled future.
    other = executor.submit(wait_for, str(tmp_path / "open"))
    client.cancel(other.job)
    assert list(as_completed([other], timeout=60)) == [other] and other.cancelled()


def test_a_job_that_fails_is_an_error_with_its_last_line(executor: pliant.Executor) -> None:
    def leave() -> None:
        os.write(2, b"leaving\n")
        os._exit(5)

    with pytest.raises(pliant.JobFailedError, match="exit code 5\nleaving") as caught:
        executor.submit(leave).result(timeout=120)
    assert caught.value.job.exit.code == 5


def test_another_version_of_python_is_an_error(client: pliant.Client, tmp_path: Path) -> None:
    other = tmp_path / "python-other"
    code = 'import sys; sys.version_info = (3, 2, 0, "final", 0); sys.argv = sys.argv[1:]; exec(open(sys.argv[0]).read())'
    other.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    other.chmod(0o755)
    with pliant.Executor(client, time="2m", python=str(other)) as executor:
        with pytest.raises(pliant.JobFailedError, match=r"expected Python 3\.\d+, as where the function was submitted, found") as caught:
            executor.submit(abs, -1).result(timeout=120)
    assert caught.value.hint and "python=" in caught.value.hint
    with pliant.Executor(client, time="2m", python="python-of-nowhere") as executor:
        with pytest.raises(pliant.JobFailedError, match="python-of-nowhere"):
            executor.submit(abs, -1).result(timeout=120)


def test_wrong_resources_and_a_closed_executor_are_errors(client: pliant.Client) -> None:
    with pytest.raises(pliant.InputError, match="resources: expected some of"):
        pliant.Executor(client, resources={"cores": 4})
    executor = pliant.Executor(client, time="2m", python=sys.executable)
    with pytest.raises(pliant.RefusedError):
        executor.submit(abs, -1, resources={"rigid": 1000})
    future = executor.submit(abs, -1)
    executor.shutdown(cancel_futures=False)
    assert future.result() == 1
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -1)


def test_a_map_is_one_sweep_whose_short_calls_share_jobs(executor: pliant.Executor, client: pliant.Client) -> None:
    before = {job.id for job in client.queue(ended=True)}
    factor = 3
    values = list(executor.map(lambda number: print("noise") or number * factor, range(200), chunksize=5, timeout=300))
    assert values == [number * factor for number in range(200)]
    jobs = [job for job in client.queue(ended=True) if job.id not in before]
    assert 1 <= len(jobs) < 40, "there are 40 chunks"
    assert {job.name for job in jobs} == {"lambda"}


def test_long_values_and_no_calls(executor: pliant.Executor) -> None:
    lengths = [10, 50_000, 5, 200_000]
    assert list(executor.map(lambda length: b"x" * length, lengths, timeout=300)) == [b"x" * length for length in lengths]
    assert list(executor.map(abs, [])) == []
    with pytest.raises(ValueError, match="chunksize: expected at least 1, found 0"):
        executor.map(abs, [1], chunksize=0)


def test_an_exception_in_a_map_comes_at_its_place_with_its_traceback(executor: pliant.Executor) -> None:
    def divide(number: int) -> float:
        return 12 / number

    values = executor.map(divide, [3, 2, 0, 1], chunksize=3, timeout=300)
    assert [next(values), next(values)] == [4.0, 6.0]
    with pytest.raises(ZeroDivisionError) as caught:
        next(values)
    assert isinstance(caught.value.__cause__, RemoteTraceback) and "in divide" in str(caught.value.__cause__)
    assert next(values, None) is None

    def leave(number: int) -> int:
        if number == 1:
            os.write(2, b"leaving\n")
            os._exit(5)
        return number

    values = executor.map(leave, range(3), timeout=300)
    assert next(values) == 0
    with pytest.raises(pliant.JobFailedError, match="instance 1: exit code 5\nleaving") as failed:
        next(values)
    assert failed.value.job.id in str(failed.value)


def test_a_map_that_is_closed_or_late_is_cancelled(client: pliant.Client, tmp_path: Path) -> None:
    def wait_for(path: str) -> str:
        import pathlib
        import time

        while not pathlib.Path(path).exists():
            time.sleep(0.05)
        return path

    (tmp_path / "open").touch()
    paths = [str(tmp_path / "open"), *(str(tmp_path / "never") for _ in range(5))]
    with pliant.Executor(client, time="30m", python=sys.executable) as executor:
        values = executor.map(wait_for, paths)
        assert next(values) == paths[0], "values come before the sweep is over"
        values.close()
        late = executor.map(wait_for, paths[1:], timeout=1)
        with pytest.raises(concurrent.futures.TimeoutError):
            next(late)
        # Leaving waits until no instance runs.
    assert client.queue() == []
    executor = pliant.Executor(client, time="30m", python=sys.executable)
    values = executor.map(wait_for, paths[1:])
    executor.shutdown(cancel_futures=True)
    with pytest.raises(CancelledError):
        next(values)
    assert client.queue() == []


def test_options_that_no_sweep_has_make_each_call_a_job(client: pliant.Client) -> None:
    before = {job.id for job in client.queue(ended=True)}
    with pliant.Executor(client, time="2m", python=sys.executable, resources={"server": "lyon"}) as executor:
        assert list(executor.map(abs, [-1, -2], timeout=120)) == [1, 2]
    assert [job.server for job in client.queue(ended=True) if job.id not in before] == ["lyon", "lyon"]


def test_what_no_server_takes_is_an_error_of_the_first_value(client: pliant.Client) -> None:
    with pliant.Executor(client, time="2m", python=sys.executable, resources={"rigid": 1000}) as executor:
        values = executor.map(abs, [-1, -2], timeout=120)
        with pytest.raises(pliant.PliantError):
            next(values)
    with pliant.Executor(client, time="soon", python=sys.executable) as executor:
        with pytest.raises(pliant.InputError, match="--time"):
            executor.map(abs, [-1])


def test_another_version_of_python_is_an_error_of_a_map_too(client: pliant.Client) -> None:
    with pliant.Executor(client, time="2m", python="python-of-nowhere") as executor:
        with pytest.raises(pliant.JobFailedError, match="python-of-nowhere") as caught:
            list(executor.map(abs, [-1], timeout=120))
    assert caught.value.hint and "python=" in caught.value.hint
