"""The examples of the guides run as they are written, one after the other, and their types hold."""

import asyncio
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from federation import Federation, federation  # noqa: F401
from test_launch import application

import pliant

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "guides"
PAGES = ["python.md", "python-policies.md", "python-live.md"]


def blocks(page: str) -> list[str]:
    """The examples of a page."""
    found = re.findall(r"^```python\n(.*?)^```$", (GUIDES / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no example"
    return found


def run(page: str) -> dict[str, Any]:
    """Runs the examples of a page, as one program. Their names."""
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks(page), 1):
        exec(compile(block, f"{page}, example {number}", "exec"), names)
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which examples run, without a display."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_types_of_examples_hold(page: str, tmp_path: Path) -> None:
    # Each example may give a name another type.
    files = []
    for number, block in enumerate(blocks(page)):
        earlier = "" if number == 0 else "from typing import Any\n" + given(blocks(page)[:number])
        path = tmp_path / f"{page.removesuffix('.md').replace('-', '_')}_{number}.py"
        path.write_text(f"import pliant, pliant.gym\n{earlier}{block}")
        files.append(path)
    line = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--no-strict-optional", "--ignore-missing-imports"]
    done = subprocess.run([*line, *map(str, files)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


#: Names that examples leave to later ones and that keep their types.
TYPES = {"client": "pliant.Client", "run": "pliant.Run"}


def given(earlier: list[str]) -> str:
    """The names of earlier examples that later ones use."""
    names = {name for block in earlier for name in re.findall(r"^(\w+) = ", block, re.MULTILINE)}
    imports = {line for block in earlier for line in re.findall(r"^import .*$", block, re.MULTILINE)}
    return "\n".join([*sorted(imports), *(f"{name}: {TYPES.get(name, 'Any')}" for name in sorted(names))]) + "\n"


def test_simulations(folder: Path) -> None:
    pliant.generate("lublin", procs=100, jobs=500, load=0.7).write("KTH-SP2-1996-2.1-cln.swf.gz")
    (folder / "orders.toml").write_text(
        'name = "orders"\nseeds = [1, 2]\n[[workload]]\nname = "lublin"\ngenerate = "lublin"\njobs = 100\nprocs = 64\n'
        '[[policy]]\nname = "fcfs"\nbatch = "fcfs"\n[[policy]]\nname = "easy"\nbatch = "easy"\n'
    )
    names = run("python.md")
    assert (folder / "out" / "jobs.csv").exists() and (folder / "utilization.pdf").exists()
    assert names["move"].summary["reallocations"] > 0
    assert names["done"].planned == 4


def test_policies(folder: Path) -> None:
    names = run("python-policies.md")
    jobs, wfp3 = names["jobs"], names["Wfp3"]()
    own, built_in = (pliant.simulate(jobs, procs=128, batch="easy", order=order).jobs.to_pydict() for order in (wfp3, "wfp3"))
    assert own["start"] == built_in["start"]
    assert names["environment"].run.summary["mean_bounded_slowdown"] == -names["reward"]


def test_a_federation(folder: Path, federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIANT_CONFIG", str(federation.config))
    (folder / "fit.sh").write_text("#!/bin/sh\necho \"$@\"\n")
    (folder / "data.csv").write_text("1,2\n")
    application(folder, "true", "true").rename(folder / "app.toml")
    # The system may have another version of Python, or none.
    monkeypatch.setattr(pliant, "Executor", functools.partial(pliant.Executor, python=sys.executable))
    names = run("python-live.md")
    assert (folder / "results" / "stdout").read_text() == "--fast\n"
    assert names["result"].completed == 100
    assert names["launch"].is_completed
    assert names["one"].result() == names["walk"](1) != 0
    asyncio.run(names["main"]())
