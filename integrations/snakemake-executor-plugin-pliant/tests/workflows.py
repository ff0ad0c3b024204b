"""Workflows that run in a folder, for tests."""

import re
import subprocess
import sys
import time
from pathlib import Path

#: Options of workflows whose files Pliant carries: no file system is shared.
CARRIED = ("--shared-fs-usage", "none", "--pliant-python", sys.executable)


def snakemake(folder: Path, rules: str, *options: str) -> "subprocess.Popen[str]":
    (folder / "Snakefile").write_text(rules)
    line = [sys.executable, "-m", "snakemake", "--executor", "pliant", "--pliant-without-mem"]
    quick = ["--jobs", "100", "--seconds-between-status-checks", "1", "--latency-wait", "10"]
    return subprocess.Popen(
        [*line, *quick, *options], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def ended(running: "subprocess.Popen[str]") -> tuple[int, str]:
    text, _ = running.communicate(timeout=300)
    return running.returncode, text


def jobs_of(text: str) -> list[str]:
    """The jobs of Pliant that Snakemake says it submitted, one for each job of Snakemake."""
    return re.findall(r"Job \S+ is (\S+\.\d+)\.", text)


def until_there(path: Path, running: "subprocess.Popen[str]") -> None:
    """Waits for a file that a job makes, as long as the workflow runs."""
    while not path.exists():
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.05)
