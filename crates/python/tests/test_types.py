"""The types of the package hold, and the examples are right by them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((HERE / "examples").glob("*.py"))
BENCHES = sorted((HERE / "benches").glob("*.py"))
#: What stubtest need not compare: modules without a stub, what the stub of the native part adds for types, and what it has no use for.
ALLOWED = (r"pliant\.[a-z]\w*\..*", r"pliant\._pliant\.(Cluster|PathLike|__all__)")
#: Arguments with which an example is short.
ARGUMENTS = {"published_table.py": ["1"]}


def test_the_package_and_its_examples_pass_mypy(tmp_path: Path) -> None:
    # Not in the source tree: mypy leaves a cache where it runs, and takes packages from there.
    for arguments in (["-p", "pliant"], EXAMPLES, BENCHES):
        line = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", *arguments]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_have_the_names_and_the_types_of_the_package(tmp_path: Path) -> None:
    allowed, settings = tmp_path / "allowed.txt", tmp_path / "mypy.ini"
    allowed.write_text("".join(f"{pattern}\n" for pattern in ALLOWED))
    settings.write_text("[mypy]\nignore_missing_imports = True\n")
    options = ["--mypy-config-file", str(settings), "--concise", "--ignore-disjoint-bases", "--allowlist", str(allowed)]
    line = [sys.executable, "-m", "mypy.stubtest", "pliant", *options]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example), *ARGUMENTS.get(example.name, [])], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
