"""What is tested with every version of Python that a machine has: it needs the wheel and pytest, and no other package."""

import json
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pliant


def test_all_names_are_there() -> None:
    for name in pliant.__all__:
        assert getattr(pliant, name) is not None
    assert sys.version_info >= (3, 9)


#: Modules that take longer to import than the package; a simulation needs none of them.
SLOW = {"asyncio", "cloudpickle", "concurrent.futures", "html", "json", "logging", "pathlib", "pickle", "re", "tempfile", "typing", "zipfile"}
#: Prints the modules that a simulation imports, then those that clients and executors import.
IMPORTS = """
import sys
before = set(sys.modules)
import pliant
run = pliant.simulate(pliant.generate("lublin", procs=8, jobs=20), procs=8)
len(run.jobs), run.summary, dir(pliant)
print(*set(sys.modules) - before)
pliant.AsyncClient, pliant.Executor
print(*set(sys.modules) - before)
"""


def test_modules_are_imported_when_they_are_used() -> None:
    # What the interpreter imports by itself, for example by a .pth file, is not of the package.
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    first, later = (set(line.split()) for line in done.stdout.splitlines())
    assert "pliant.simulation" in first and not first & SLOW
    assert {"pliant.client", "pliant.executor", "asyncio"} <= later


def test_names_and_modules_that_are_imported_later_are_those_of_the_package() -> None:
    code = "import pliant; print(pliant.errors.InputError is pliant.InputError, 'Client' in dir(pliant), 'Client' in vars(pliant))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
    code = "from pliant import *; import pliant; print(*(name for name in pliant.__all__ if name not in globals()), 'Client' in globals())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
    with pytest.raises(AttributeError, match="module 'pliant' has no attribute 'Clients'"):
        pliant.Clients


def test_a_simulation_is_that_of_the_command(command: str, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    line = [command, "trace", "generate", "lublin", "--procs", "64", "--jobs", "300", "--load", "0.9", "--out", str(log)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    out = tmp_path / "theirs"
    line = [command, "simulate", "--workload", str(log), "--procs", "64", "--batch", "easy", "--out", str(out)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    run = pliant.simulate(pliant.read_swf(log), procs=64, batch="easy")
    run.write(tmp_path / "ours")
    assert (tmp_path / "ours" / "jobs.csv").read_bytes() == (out / "jobs.csv").read_bytes()
    # As texts: keys in the same order, and numbers of the same types.
    assert json.dumps(run.summary) == json.dumps(json.loads((out / "summary.json").read_text()))
    assert pickle.loads(pickle.dumps(run)).jobs.to_pydict() == run.jobs.to_pydict()
    assert "<canvas" in run.gantt().page


def test_a_policy_of_ones_own_and_its_errors() -> None:
    class Fcfs(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            starts = []
            for position, procs in enumerate(queue.procs):
                if procs > free:
                    break
                free -= procs
                starts.append(position)
            return starts

    class Overbooking(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            return range(len(queue))

    class Failing(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            raise KeyError("of the policy")

    jobs = pliant.generate("lublin", procs=64, jobs=300, load=0.9)
    own = pliant.simulate(jobs, procs=64, batch=Fcfs())
    assert own.jobs.to_pydict() == pliant.simulate(jobs, procs=64, batch="fcfs").jobs.to_pydict()
    with pytest.raises(pliant.PolicyError, match=r"job \d+: expected a start of at most \d+ free processors"):
        pliant.simulate(jobs, procs=64, batch=Overbooking())
    with pytest.raises(KeyError, match="of the policy"):
        pliant.simulate(jobs, procs=64, batch=Failing())


def test_errors_have_types(tmp_path: Path) -> None:
    with pytest.raises(pliant.FileError, match="none.toml"):
        pliant.Client(tmp_path / "none.toml")
    (tmp_path / "wrong.toml").write_text("agents = 3\n")
    with pytest.raises(pliant.InputError, match="wrong.toml:1"):
        pliant.Client(tmp_path / "wrong.toml")
    with pytest.raises(pliant.InputError, match="expected procs or platform, found neither"):
        pliant.simulate(pliant.generate("lublin", jobs=10))


def test_a_panic_is_an_exception_and_the_interpreter_lives() -> None:
    with pytest.raises(BaseException) as caught:
        pliant._pliant._panic()
    assert type(caught.value).__name__ == "PanicException" and "asked for" in str(caught.value)
    # Also on a thread of Python.
    found: list = []

    def panic() -> None:
        try:
            pliant._pliant._panic()
        except BaseException as error:
            found.append(type(error).__name__)

    thread = threading.Thread(target=panic)
    thread.start()
    thread.join()
    assert found == ["PanicException"]
    # In a call of a federation, which runs on a thread of the package.
    with pytest.raises(pliant.InternalError, match="it panicked\nhint: it is a bug of Pliant"):
        pliant._pliant._panicking_call().wait(60)
    assert len(pliant.generate("lublin", jobs=10)) == 10
