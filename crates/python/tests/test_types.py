"""The types of the package hold, and the examples are right by them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((HERE / "examples").glob("*.py"))


def mypy(*arguments: str) -> None:
    line = [sys.executable, "-m", "mypy", "--strict", *arguments]
    done = subprocess.run(line, cwd=HERE / "tests", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_and_its_examples_pass_mypy() -> None:
    mypy("--ignore-missing-imports", "-p", "pliant")
    mypy("--ignore-missing-imports", *map(str, EXAMPLES))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
