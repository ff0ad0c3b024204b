"""The package as it is installed: the source tree is not on the path."""

from __future__ import annotations

import os
import shutil
import signal
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note_skipped(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    note_skipped(report)


def note_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Notes what a test was skipped for, so that `cargo xtask test` ends with it as with what other tests leave out."""
    notes = os.environ.get("PLIANT_SKIPPED")
    if notes and report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2].removeprefix("Skipped: ")
        kind = "file" if why.endswith("is not there") else "other"
        with open(notes, "a") as file:
            file.write(f"{kind}\tpython::{report.nodeid}\t{why}\n")


def pytest_configure() -> None:
    source = Path(__file__).resolve().parents[1]
    # A shell has the programs that it starts in the background ignore Ctrl-C, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert source not in Path(pliant.__file__).resolve().parents, "the tests are for an installed wheel"
