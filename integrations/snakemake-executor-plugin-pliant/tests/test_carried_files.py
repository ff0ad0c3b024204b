"""Workflows where no file system is shared: Pliant carries sources, inputs and outputs, and no storage provider is needed."""

import json
import os
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pliant
import pytest

from conftest import command
from snakemake_executor_plugin_pliant import files, runner
from workflows import CARRIED, ended, jobs_of, snakemake, until_there


@pytest.fixture
def unshared(federation: Path) -> tuple[str, ...]:
    """Options of a client whose file names no shared file system."""
    config = federation / "unshared.toml"
    config.write_text((federation / "client.toml").read_text().split("[shared]")[0])
    return (*CARRIED, "--pliant-config", str(config))


COUNT = "text = open(snakemake.input.text).read()\nopen(snakemake.output[0], 'w').write(f'{len(text)} {snakemake.config[\"unit\"]}')\n"
FILES = """
configfile: "config/config.yaml"

rule all:
    input: "results/count.txt", "results/listing.txt", "results/many", "results/last.txt"

rule count:
    input: text="data/text with a space.txt"
    output: "results/count.txt"
    log: "logs/count.log"
    script: "scripts/count.py"

rule tool:
    input: tool="data/tool", folder="data/folder"
    output: "results/listing.txt"
    log: "logs/tool.log"
    shell: "{input.tool} {input.folder} > {output} 2> {log}; pwd >> {log}"

rule many:
    output: directory("results/many"), protected("results/program")
    shell: "mkdir -p {output[0]}/none; for i in 1 2 3; do echo $i > {output[0]}/$i; done; touch {output[1]}; chmod +x {output[1]}"

rule step:
    input: "results/count.txt"
    output: temp("results/step")
    shell: "cp {input} {output}"

rule last:
    input: "results/many", "results/count.txt", "results/step"
    output: "results/last.txt"
    shell: "cat results/many/[123] {input[1]} {input[2]} > {output}"
"""


def test_inputs_sources_and_outputs_are_carried(tmp_path: Path, unshared: tuple[str, ...]) -> None:
    for name, text in {
        "scripts/count.py": COUNT,
        "config/config.yaml": "unit: bytes\n",
        "data/text with a space.txt": "twelve bytes",
        "data/folder/part": "a part\n",
        "data/tool": "#!/bin/sh\ncat $1/part\nls $1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "data" / "folder" / "empty").mkdir()
    (tmp_path / "data" / "tool").chmod(0o755)
    code, text = ended(snakemake(tmp_path, FILES, *unshared))
    assert code == 0, text
    results = tmp_path / "results"
    assert (results / "count.txt").read_text() == "12 bytes"
    assert (results / "listing.txt").read_text() == "a part\nempty\npart\n"
    # The job ran elsewhere, and left nothing else.
    assert "/jobs/" in (tmp_path / "logs" / "tool.log").read_text()
    assert (results / "last.txt").read_text() == "1\n2\n3\n12 bytes12 bytes"
    assert (results / "many" / "none").is_dir()
    # An output that Snakemake protects, and can be executed; one that is temporary.
    assert stat.S_IMODE((results / "program").stat().st_mode) & 0o333 == 0o111
    assert not (results / "step").exists()
    assert {path.name for path in tmp_path.iterdir()} == {".snakemake", "Snakefile", "config", "data", "logs", "results", "scripts"}
    assert not list((tmp_path / ".snakemake" / "pliant_fetched").iterdir())
    # Times of files are such that nothing is left to do.
    code, text = ended(snakemake(tmp_path, FILES, *unshared))
    assert code == 0 and "Nothing to be done" in text, text


def test_groups_and_checkpoints_are_carried(tmp_path: Path, unshared: tuple[str, ...]) -> None:
    rules = """
rule all:
    input: "sum", "chain-3"

checkpoint parts:
    output: directory("parts")
    shell: "mkdir {output}; for i in a b c; do echo $i > {output}/$i.txt; done"

def found(wildcards):
    folder = checkpoints.parts.get().output[0]
    return expand("upper/{name}", name=sorted(glob_wildcards(folder + "/{name}.txt").name))

rule upper:
    input: "parts/{name}.txt"
    output: "upper/{name}"
    group: "upper"
    shell: "tr a-z A-Z < {input} > {output}"

rule sum:
    input: found
    output: "sum"
    shell: "cat {input} > {output}"

rule begin:
    output: "chain-0"
    shell: "echo 0 > {output}"

rule chain:
    input: lambda wildcards: f"chain-{int(wildcards.number) - 1}"
    output: "chain-{number,[1-9]}"
    shell: "cat {input} > {output}; echo {wildcards.number} >> {output}"
"""
    code, text = ended(snakemake(tmp_path, rules, *unshared, "--group-components", "upper=2"))
    assert code == 0, text
    assert (tmp_path / "sum").read_text() == "A\nB\nC\n" and (tmp_path / "chain-3").read_text() == "0\n1\n2\n3\n"
    # Three jobs of `upper` are two groups.
    assert len(set(jobs_of(text))) == len(jobs_of(text)) == 1 + 2 + 1 + 4, text


def test_the_logs_of_a_job_that_fails_come_back(tmp_path: Path, unshared: tuple[str, ...]) -> None:
    rules = """
rule all:
    output: "x"
    log: "logs/x.log"
    shell: "echo kept > {log}; touch {output}; echo no such data >&2; exit 4"
"""
    code, text = ended(snakemake(tmp_path, rules, *unshared))
    assert code != 0 and not (tmp_path / "x").exists(), text
    assert (tmp_path / "logs" / "x.log").read_text() == "kept\n"
    (log,) = (tmp_path / ".snakemake" / "pliant_logs").iterdir()
    assert "no such data" in log.read_text() and log.name in text


def test_software_alone_may_be_shared(tmp_path: Path, unshared: tuple[str, ...]) -> None:
    rules = 'rule all:\n    output: "x"\n    shell: "echo $PATH > {output}; echo $PLIANT_JOB_DIR >> {output}"\n'
    options = (*unshared[2:], "--shared-fs-usage", "software-deployment", "--pliant-python", "/no/python")
    code, text = ended(snakemake(tmp_path, rules, *options))
    assert code == 0, text
    path, folder = (tmp_path / "x").read_text().splitlines()
    assert path.endswith(os.environ["PATH"]) and "/jobs/" in folder
    code, text = ended(snakemake(tmp_path, rules, "--shared-fs-usage", "sources"))
    assert code != 0 and "--shared-fs-usage: expected nothing else to be shared if input-output is not, found sources" in text, text


@pytest.mark.parametrize("path", ["/tmp/data.txt", "../data.txt"])
def test_files_outside_of_the_working_directory_are_refused(path: str, tmp_path: Path, unshared: tuple[str, ...]) -> None:
    rules = f'rule all:\n    output: "{path}"\n    shell: "touch {{output}}"\n'
    code, text = ended(snakemake(tmp_path, rules, *unshared))
    assert code != 0 and f"rule all: expected files below the working directory, found {path}" in text, text


def test_a_workflow_survives_the_death_of_its_server(tmp_path: Path, federation: Path, unshared: tuple[str, ...]) -> None:
    rules = f"""
rule all:
    output: "done"
    resources: pliant_server="lyon"
    shell: "touch {tmp_path}/started; while [ ! -e {tmp_path}/open ]; do sleep 0.05; done; echo carried > {{output}}; touch {tmp_path}/over"
"""
    running = snakemake(tmp_path, rules, *unshared)
    until_there(tmp_path / "started", running)
    daemons = json.loads((federation / "federation.json").read_text())["daemons"]
    os.kill(next(one["pid"] for one in daemons if one["name"] == "lyon"), signal.SIGKILL)
    (tmp_path / "open").touch()
    until_there(tmp_path / "over", running)
    assert not (tmp_path / "done").exists()
    subprocess.run([command(), "up", "--dir", federation], check=True, stdout=subprocess.DEVNULL)
    code, text = ended(running)
    assert code == 0 and (tmp_path / "done").read_text() == "carried\n", text
    assert pliant.Client().job(jobs_of(text)[0]).server == "lyon"


def test_an_archive_of_a_server_writes_nothing_but_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("out.txt", "extra.txt", "folder/inner.txt"):
        path = tmp_path / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    members = {
        "out.txt": "out.txt", "extra.txt": "extra.txt", "folder/inner.txt": "folder/inner.txt",
        "folder/../../escaped.txt": "extra.txt", "../escaped.txt": "extra.txt", "/escaped.txt": "extra.txt",
    }  # fmt: skip
    archive = tmp_path / "1.tar"
    with tarfile.open(archive, "w") as opened:
        for name, inside in members.items():
            member = opened.gettarinfo(tmp_path / "made" / inside)
            member.name = name
            with open(tmp_path / "made" / inside, "rb") as file:
                opened.addfile(member, file)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    files.put_back(archive, ["out.txt", "folder"], tmp_path / "spare")
    found = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "work").rglob("*"))
    assert found == ["work/folder", "work/folder/inner.txt", "work/out.txt"]
    assert not (tmp_path / "escaped.txt").exists() and not (tmp_path / "spare").exists()
    # A link that leads out of the folder is refused.
    with tarfile.open(archive, "w") as opened:
        link = tarfile.TarInfo("out.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
    with pytest.raises(tarfile.TarError):
        files.put_back(archive, ["out.txt"], tmp_path / "spare")


def test_more_files_than_a_submission_takes_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "FILES", 2)
    (tmp_path / "many" / "none").mkdir(parents=True)
    for size in range(5):
        (tmp_path / "many" / str(size)).write_text("x" * size)
    found = files.staged(["many"], tmp_path / "inputs.tar")
    assert files.size_of(path for name, path in found.items() if not name.endswith(runner.INPUTS)) == 3 + 4
    assert set(found) == {f"{runner.RUN}/{name}" for name in ("many/4", "many/3", runner.INPUTS)}
    with tarfile.open(found[f"{runner.RUN}/{runner.INPUTS}"]) as opened:
        assert sorted(opened.getnames()) == ["many/0", "many/1", "many/2", "many/none"]
