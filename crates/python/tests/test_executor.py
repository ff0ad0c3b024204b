"""Functions as jobs."""

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
