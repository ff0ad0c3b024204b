"""The resources of a rule are options of the submission; memory is asked for only where a server counts it."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pliant
import pytest
from snakemake_interface_common.exceptions import WorkflowError

import snakemake_executor_plugin_pliant as plugin
from workflows import ended, jobs_of

UP = SimpleNamespace(down=[])
DOWN = SimpleNamespace(down=["lyon"])
NONE = pliant.RefusedError("no server accepts the job")


class MadeUp:
    """A client whose servers answer an estimate with memory, and one without it, like this."""

    def __init__(self, with_memory: Any, without: Any) -> None:
        self.answers, self.asked = {True: with_memory, False: without}, []

    def estimate(self, **options: Any) -> Any:
        self.asked.append(options)
        answer = self.answers["mem" in options]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def executor(folder: Path, client: MadeUp, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> plugin.Executor:
    """An executor without a workflow: only what options need."""
    monkeypatch.setattr(plugin.Executor, "tmpdir", str(folder), raising=False)
    made = object.__new__(plugin.Executor)
    made.settings, made.client, made.counts_memory = plugin.ExecutorSettings(**settings), client, {}
    made.shares_software, made.logger = False, logging.getLogger("pliant-test")
    return made


def options(made: plugin.Executor, threads: int = 1, **resources: Any) -> dict[str, Any]:
    found = made._ready(SimpleNamespace(threads=threads, resources=resources, name="a", jobid=1, is_group=lambda: False)).options
    assert found.pop("ignore_sbatch") is True
    return found


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"mem_mb": 1000}, {"rigid": 1, "mem": "1000M"}),
        ({"mem_mb": 1000, "mem_mb_per_cpu": 200, "threads": 4}, {"rigid": 4, "mem_per_proc": "200M"}),
        ({"gpu": 2}, {"rigid": 1, "gpus": 2}),
        ({"gpus": 3}, {"rigid": 1, "gpus": 3}),
        ({"cpus_per_task": 6, "threads": 2}, {"rigid": 6}),
        ({"threads": 0}, {"rigid": 1}),
        ({"mem_mb": 1000, "pliant_mem": "2G"}, {"rigid": 1, "mem": "2G"}),
        ({"pliant_exclusive": 1, "pliant_server": "lyon"}, {"rigid": 1, "exclusive": True, "server": "lyon"}),
    ],
)
def test_resources(resources: dict, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options(executor(tmp_path, MadeUp(UP, UP), monkeypatch), **resources) == expected


def test_an_unknown_option_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkflowError, match="resource pliant_colour: expected pliant_ with one of"):
        options(executor(tmp_path, MadeUp(UP, UP), monkeypatch), pliant_colour=1)


@pytest.mark.parametrize(
    ("with_memory", "without", "asks"),
    [
        (UP, UP, True),
        (NONE, UP, False),
        # A server that is down may count memory.
        (NONE, DOWN, True),
        # No server takes any job: the submission reports why.
        (NONE, NONE, True),
        (pliant.UnavailableError("the agent is down"), UP, True),
    ],
)
def test_memory_is_asked_for_where_a_server_counts_it(
    with_memory: Any, without: Any, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = executor(tmp_path, MadeUp(with_memory, without), monkeypatch)
    assert ("mem" in options(made, mem_mb=1000)) is asks


def test_servers_are_asked_once_for_each_choice_of_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = MadeUp(NONE, UP)
    made = executor(tmp_path, client, monkeypatch)
    for _ in range(3):
        assert options(made, mem_mb=1000) == {"rigid": 1}
    assert len(client.asked) == 2
    options(made, mem_mb=1000, pliant_server="lyon")
    assert [asked.get("server") for asked in client.asked] == [None, None, "lyon", "lyon"]


def test_no_server_is_asked_with_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = MadeUp(UP, UP)
    assert options(executor(tmp_path, client, monkeypatch, without_mem=True), mem_mb=1000) == {"rigid": 1}
    assert client.asked == []


def test_the_quick_start_runs_without_the_setting(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "x"\n    shell: "touch {output}"\n')
    line = [sys.executable, "-m", "snakemake", "--executor", "pliant", "--jobs", "100", "--seconds-between-status-checks", "1"]
    running = subprocess.Popen(line, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    code, text = ended(running)
    assert code == 0 and (tmp_path / "x").exists() and len(jobs_of(text)) == 1, text
