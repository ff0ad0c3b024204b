"""Workflows on a federation: resources, logs, cancellation, and a server that is killed in between."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pliant
import pytest

from conftest import command
from workflows import ended, jobs_of, snakemake, until_there


def test_resources_are_options_of_the_job(tmp_path: Path) -> None:
    rules = '''
rule all:
    input: "sum"

rule count:
    output: "count-{number}"
    threads: 2
    resources: runtime=3, pliant_server="toulouse"
    shell: "echo {wildcards.number} $PLIANT_PROCS > {output}"

rule sum:
    input: expand("count-{number}", number=range(3))
    output: "sum"
    shell: "cat {input} > {output}"
'''
    code, text = ended(snakemake(tmp_path, rules))
    assert code == 0, text
    assert (tmp_path / "sum").read_text() == "0 2\n1 2\n2 2\n"
    client = pliant.Client()
    found = [client.job(job) for job in jobs_of(text)]
    assert len(found) == 4
    by_rule = {rule: [job for job in found if job.name.startswith(rule)] for rule in ("count", "sum")}
    assert {(job.procs, job.walltime, job.server) for job in by_rule["count"]} == {(2, 180, "toulouse")}
    assert {(job.procs, job.walltime) for job in by_rule["sum"]} == {(1, 3600)}


def test_the_output_of_a_job_that_fails_is_kept(tmp_path: Path) -> None:
    rules = '''
rule all:
    input: "good", "bad"

rule good:
    output: "good"
    shell: "touch {output}"

rule bad:
    output: "bad"
    shell: "echo no such data >&2; exit 4"
'''
    code, text = ended(snakemake(tmp_path, rules, "--keep-going"))
    assert code != 0 and (tmp_path / "good").exists() and not (tmp_path / "bad").exists(), text
    logs = list((tmp_path / ".snakemake" / "pliant_logs").iterdir())
    assert len(logs) == 1 and "no such data" in logs[0].read_text(), text
    assert logs[0].name in text and "is FAILED, exit code" in text


def test_a_job_that_no_server_takes_is_an_error_with_the_reason(tmp_path: Path) -> None:
    rules = 'rule all:\n    output: "x"\n    resources: pliant_gpus=4\n    shell: "touch {output}"\n'
    code, text = ended(snakemake(tmp_path, rules))
    assert code != 0 and "no server accepts the job" in text, text
    rules = rules.replace("pliant_gpus=4", "pliant_colour=4")
    code, text = ended(snakemake(tmp_path, rules))
    assert code != 0 and "resource pliant_colour: expected pliant_ with one of" in text, text


def test_a_workflow_on_no_shared_file_system_is_refused(tmp_path: Path, federation: Path) -> None:
    config = federation / "unshared.toml"
    config.write_text((federation / "client.toml").read_text().split("[shared]")[0])
    rules = 'rule all:\n    output: "x"\n    shell: "touch {output}"\n'
    code, text = ended(snakemake(tmp_path, rules, "--pliant-config", str(config)))
    assert code != 0 and "expected a folder on a shared file system" in text, text


GATED = '''
rule all:
    output: "done"
    resources: pliant_server="lyon"
    shell: "touch started; while [ ! -e open ]; do sleep 0.05; done; touch {output}"
'''


def test_ctrl_c_cancels_the_jobs(tmp_path: Path) -> None:
    running = snakemake(tmp_path, GATED)
    until_there(tmp_path / "started", running)
    os.killpg(running.pid, signal.SIGINT)
    code, text = ended(running)
    (job,) = jobs_of(text)
    assert code != 0 and pliant.Client().wait(job, timeout=60).state == "CANCELED", text


def test_a_workflow_survives_the_death_of_a_server(tmp_path: Path, federation: Path) -> None:
    running = snakemake(tmp_path, GATED)
    until_there(tmp_path / "started", running)
    daemons = json.loads((federation / "federation.json").read_text())["daemons"]
    os.kill(next(one["pid"] for one in daemons if one["name"] == "lyon"), signal.SIGKILL)
    (tmp_path / "open").touch()
    # The job completes while its server is down.
    until_there(tmp_path / "done", running)
    subprocess.run([command(), "up", "--dir", federation], check=True, stdout=subprocess.DEVNULL)
    code, text = ended(running)
    assert code == 0, text


@pytest.mark.parametrize("package", ["snakemake_executor_plugin_pliant"])
def test_the_types_hold(package: str, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "mypy", "--strict", "--allow-subclassing-any", "--ignore-missing-imports", "-p", package]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
