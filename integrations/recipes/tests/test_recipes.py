"""The recipes run as they are on a federation on this machine: their values are right, and jobs of the federation have computed them."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pliant
import pytest

RECIPES = Path(__file__).resolve().parents[1]
SCRIPTS = sysconfig.get_path("scripts")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a user of a federation, in an activated environment of Python."""
    command = os.environ.get("PLIANT_COMMAND") or str(Path(SCRIPTS) / "pliant")
    folder = tmp_path_factory.mktemp("federation")
    up = folder / "up"
    subprocess.run([command, "up", "--dir", up], check=True, stdout=subprocess.DEVNULL)
    own = {"PATH": f"{Path(command).parent}:{SCRIPTS}:{os.environ['PATH']}", "PLIANT_CONFIG": str(up / "client.toml")}
    try:
        yield {**os.environ, **own, "XDG_STATE_HOME": str(folder / "state"), "PYTHONDONTWRITEBYTECODE": "1"}
    finally:
        subprocess.run([command, "down", "--dir", up], check=True, stdout=subprocess.DEVNULL)


def printed(recipe: str, folder: Path, environment: dict[str, str]) -> tuple[str, list[str]]:
    """The value and the jobs that a recipe prints."""
    line = [sys.executable, RECIPES / recipe]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^(\d+) of (.+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return found[1], found[2].split(", ")


@pytest.mark.parametrize(
    ("recipe", "value", "jobs", "name", "state"),
    [
        # 0 + 1 + 2 + 3, each a job; the last job adds them.
        ("dask_calls.py", "6", 4, "batch_execute_tasks", "COMPLETED"),
        # The workers end when the cluster is closed. 142,857 times 0 + 1 + ... + 6.
        ("dask_workers.py", "2999997", 2, "dask-worker", "CANCELED"),
        # The squares from 0 to 81.
        ("parsl_example.py", "285", 1, "parsl-workers", "CANCELED"),
    ],
)
def test_a_recipe(recipe: str, value: str, jobs: int, name: str, state: str, tmp_path: Path, environment: dict[str, str]) -> None:
    found, ran = printed(recipe, tmp_path, environment)
    assert (found, len(ran)) == (value, jobs)
    client = pliant.Client(environment["PLIANT_CONFIG"])
    for job in client.wait(ran, timeout=60):
        assert (job.name, job.state) == (name, state)
    assert client.queue() == []


def test_each_recipe_is_in_the_guide_and_is_tested() -> None:
    recipes = {path.name for path in RECIPES.glob("*.py")}
    assert recipes == {"dask_calls.py", "dask_workers.py", "parsl_example.py", "parsl_provider.py"}
    guide = RECIPES.parents[1] / "docs" / "guides" / "workflows.md"
    assert all(name in guide.read_text() for name in recipes)
