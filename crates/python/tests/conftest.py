"""The package as it is installed: the source tree is not on the path."""

import shutil
import sysconfig
from pathlib import Path

import pytest

import pliant


@pytest.fixture(scope="session")
def command() -> str:
    """The command of the wheel."""
    found = shutil.which("pliant", path=sysconfig.get_path("scripts"))
    assert found is not None, "the wheel has no command"
    return found


@pytest.fixture(scope="session")
def workload() -> pliant.Workload:
    return pliant.generate("lublin", procs=128, jobs=2_000, load=0.9, seed=7)


def pytest_configure() -> None:
    source = Path(__file__).resolve().parents[1]
    assert source not in Path(pliant.__file__).resolve().parents, "the tests are for an installed wheel"
