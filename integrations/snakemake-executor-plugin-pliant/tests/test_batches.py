"""Ready jobs of a rule run in batches: few submissions for many jobs, and each job has an outcome of its own."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pliant
import pytest

import snakemake_executor_plugin_pliant as plugin
from conftest import command
from snakemake_executor_plugin_pliant import files, runner
from snakemake_executor_plugin_pliant.batches import Ready, batches
from workflows import CARRIED, ended, jobs_of, snakemake, until_there


class Job:
    def __init__(self, name: str, jobid: int, is_group: bool = False) -> None:
        self.name, self.jobid, self.group = name, jobid, is_group

    def is_group(self) -> bool:
        return self.group


def ready(name: str, count: int, minutes: int = 1, **options: Any) -> list[Ready]:
    return [Ready(Job(name, number), minutes, options) for number in range(count)]


@pytest.mark.parametrize(
    ("jobs", "most", "minutes", "expected"),
    [
        (ready("a", 3), 100, 240, [1, 1, 1]),
        (ready("a", 10), 4, 240, [3, 3, 2, 2]),
        (ready("a", 5_000), 100, 240, [50] * 100),
        # A batch takes ten minutes at most, but a job that takes longer runs, too.
        (ready("a", 30), 1, 10, [10, 10, 10]),
        (ready("a", 3, minutes=60), 1, 10, [1, 1, 1]),
        # Of each rule, and of each size.
        (ready("a", 4) + ready("b", 4) + ready("a", 2, rigid=2), 2, 240, [2, 2, 2, 2, 1, 1]),
        ([Ready(Job("a", number, True), 1, {}) for number in range(3)], 1, 240, [1, 1, 1]),
        ([], 1, 1, []),
    ],
)
def test_batches(jobs: list[Ready], most: int, minutes: int, expected: list[int]) -> None:
    found = list(batches(jobs, most, minutes))
    assert [len(batch) for batch in found] == expected
    assert sorted(map(id, (one for batch in found for one in batch))) == sorted(map(id, jobs))
    assert all(len({one.kind for one in batch}) == 1 for batch in found)


MANY = """
rule all:
    input: expand("out/{number}", number=range(12))

rule one:
    input: "in.txt"
    output: "out/{number}"
    resources: runtime=2
    shell: "cat {input} > {output}; echo {wildcards.number} >> {output}; echo from {wildcards.number} >&2; [ {wildcards.number} != 7 ]"
"""


@pytest.mark.parametrize("options", [(), CARRIED], ids=["in place", "carried"])
def test_a_batch_is_one_submission_and_its_jobs_have_their_own_outcomes(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "in.txt").write_text("input\n")
    code, text = ended(snakemake(tmp_path, MANY, "--pliant-batches", "2", "--keep-going", *options))
    assert code != 0, text
    there = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert there == {str(number): f"input\n{number}\n" for number in range(12) if number != 7}, text
    submitted = jobs_of(text)
    assert len(submitted) == 12 and len(set(submitted)) == 2
    client = pliant.Client()
    found = [client.job(job) for job in sorted(set(submitted))]
    assert sorted(job.state for job in found) == ["COMPLETED", "FAILED"]
    assert {job.walltime for job in found} == {6 * 120}
    (log,) = (tmp_path / ".snakemake" / "pliant_logs").iterdir()
    # The output of the job that failed, and of no other one of its batch.
    assert [line for line in log.read_text().splitlines() if line.startswith("from ")] == ["from 7"]
    assert log.name in text and "is FAILED, exit code 1" in text


def test_a_batch_with_too_many_bytes_of_inputs_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = object.__new__(plugin.Executor)
    submitted: list[list[int]] = []
    monkeypatch.setattr(files, "BYTES", 25)
    made.staged = True
    made._inputs = lambda batch: {str(one.job.jobid): tmp_path / str(one.job.jobid) for one in batch}
    made._written = lambda batch, inputs: submitted.append([one.job.jobid for one in batch]) or {}
    made._submitted = lambda job, options: type("Accepted", (), {"id": "lyon.1"})
    made.logger = logging.getLogger("pliant-test")
    made.report_job_submission = lambda info: None
    for number in range(5):
        (tmp_path / str(number)).write_text("x" * (30 if number == 4 else 10))
    made._run(ready("a", 5))
    assert submitted == [[0, 1], [2], [3], [4]]


def test_ctrl_c_cancels_a_batch(tmp_path: Path) -> None:
    rules = """
rule all:
    input: expand("out-{number}", number=range(3))

rule one:
    output: "out-{number}"
    shell: "touch started; while [ ! -e open ]; do sleep 0.05; done; touch {output}"
"""
    running = snakemake(tmp_path, rules, "--pliant-batches", "1")
    until_there(tmp_path / "started", running)
    os.killpg(running.pid, signal.SIGINT)
    code, text = ended(running)
    (job,) = set(jobs_of(text))
    assert code != 0 and pliant.Client().wait(job, timeout=60).state == "CANCELED", text


def test_a_batch_survives_the_death_of_its_server(tmp_path: Path, federation: Path) -> None:
    rules = """
rule all:
    input: expand("out-{number}", number=range(3))

rule one:
    output: "out-{number}"
    resources: pliant_server="lyon"
    shell: "touch started; while [ ! -e open ]; do sleep 0.05; done; echo {wildcards.number} > {output}"
"""
    running = snakemake(tmp_path, rules, "--pliant-batches", "1")
    until_there(tmp_path / "started", running)
    daemons = json.loads((federation / "federation.json").read_text())["daemons"]
    os.kill(next(one["pid"] for one in daemons if one["name"] == "lyon"), signal.SIGKILL)
    (tmp_path / "open").touch()
    for number in range(3):
        until_there(tmp_path / f"out-{number}", running)
    subprocess.run([command(), "up", "--dir", federation], check=True, stdout=subprocess.DEVNULL)
    code, text = ended(running)
    assert code == 0 and len(set(jobs_of(text))) == 1, text


def test_a_job_of_a_batch_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    scripts = {
        1: "#!/bin/sh\n(sleep 1000; touch late) & echo $! > child; sleep 1000\n",
        2: "#!/bin/sh\necho second > second\n",
    }
    jobs = []
    for number, script in scripts.items():
        path = tmp_path / f"{number}.sh"
        path.write_text(script)
        jobs.append({"id": number, "script": str(path), "text": None, "time_s": 1, "files": []})
    (tmp_path / "batch.json").write_text(json.dumps({"sources": None, "programs": [], "jobs": jobs}))
    line = [sys.executable, runner.__file__, "batch.json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "1 124\n2 0\n")
    assert "the time limit of 1 s is exceeded" in done.stderr
    child = int((tmp_path / "child").read_text())
    # It may be a zombie until the init process has waited for it.
    stat = Path(f"/proc/{child}/stat")
    while stat.exists() and ") Z " not in stat.read_text():
        time.sleep(0.05)
    assert (tmp_path / "second").exists() and not (tmp_path / "late").exists()
