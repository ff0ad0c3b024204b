"""A federation on this machine, for all tests."""

import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest


def command() -> str:
    return os.environ.get("PLIANT_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "pliant")


@pytest.fixture(scope="session", autouse=True)
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the federation; clients find it by their environment."""
    folder = tmp_path_factory.mktemp("federation") / "up"
    subprocess.run([command(), "up", "--dir", folder], check=True, stdout=subprocess.DEVNULL)
    os.environ["PLIANT_CONFIG"] = str(folder / "client.toml")
    try:
        yield folder
    finally:
        subprocess.run([command(), "down", "--dir", folder], check=True, stdout=subprocess.DEVNULL)


def pytest_configure() -> None:
    # A shell has the programs that it starts in the background ignore Ctrl-C, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
