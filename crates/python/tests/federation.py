"""A federation on this machine for tests of a client: an agent and three servers on loopback."""

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import pytest

import pliant


@dataclass
class Federation:
    """A running federation."""

    command: str
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "client.toml"

    def up(self) -> None:
        """Starts the daemons that do not run."""
        subprocess.run([self.command, "up", "--dir", self.folder], check=True, stdout=subprocess.DEVNULL)

    def kill(self, name: str) -> None:
        """Kills a daemon by its process ID; its jobs run on."""
        daemons = json.loads((self.folder / "federation.json").read_text())["daemons"]
        pid = next(daemon["pid"] for daemon in daemons if daemon["name"] == name)
        os.kill(pid, signal.SIGKILL)
        # Its journal is locked until its last thread has ended, and `pliant up` fails if it starts another daemon before that.
        while runs(pid):
            time.sleep(0.01)

    def down(self) -> None:
        subprocess.run([self.command, "down", "--dir", self.folder], check=True, stdout=subprocess.DEVNULL)


def runs(pid: int) -> bool:
    """Whether a thread of the process has not ended."""
    try:
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/task").exists()
    return any(state not in "ZX" for state in states)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    command = os.environ.get("PLIANT_COMMAND") or shutil.which("pliant", path=sysconfig.get_path("scripts"))
    assert command is not None, "the wheel has no command"
    folder = tmp_path_factory.mktemp("federation")
    # Notes of keys are in the state folder of the user.
    previous = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    running = Federation(command, folder / "up")
    running.up()
    try:
        yield running
    finally:
        running.down()
        if previous is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = previous


@pytest.fixture(scope="module")
def client(federation: Federation) -> pliant.Client:
    return pliant.Client(federation.config)


def script(folder: Path, lines: str) -> Path:
    """A script in a file."""
    path = folder / "job.sh"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    return path


def gated(folder: Path) -> Path:
    """A script that ends once the file `open` is in the folder."""
    return script(folder, f"while [ ! -e '{folder}/open' ]; do sleep 0.05; done")
