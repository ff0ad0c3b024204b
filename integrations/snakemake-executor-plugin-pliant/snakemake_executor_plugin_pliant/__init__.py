"""Runs the jobs of Snakemake on a federation of clusters.

Ready jobs of one rule are submitted in batches. Where a file system is shared, they run in place: in the working directory of the workflow, on
a server that shares it (`[shared]` of the client's file). Where none is (`--shared-fs-usage none`), Pliant carries the files.
"""

import json
import os
import re
import shlex
import shutil
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, AsyncGenerator, Optional

import pliant
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase, SharedFSUsage

from . import files, runner
from .batches import Ready, batches

#: A resource ``pliant_NAME`` of a rule is the option NAME of ``pliant submit``.
PREFIX = "pliant_"
#: The options of ``pliant submit`` that a resource may be.
OPTIONS = (
    "account", "constraint", "cpus_per_task", "deadline", "exclusive", "gpus", "gpus_per_proc", "licenses", "mem", "mem_per_proc", "nice", "nodes",
    "partition", "procs_per_node", "qos", "requeue", "scratch", "server", "server_timeout", "speedup",
)  # fmt: skip
#: The options that choose servers.
CHOOSING = ("account", "constraint", "partition", "qos", "server")
#: What a job gets of the environment of Snakemake, where software is shared.
ENVIRONMENT = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
#: What has to be shared for jobs that run in place, and what may be shared where Pliant carries the files.
IN_PLACE = {SharedFSUsage.INPUT_OUTPUT, SharedFSUsage.SOURCES, SharedFSUsage.PERSISTENCE, SharedFSUsage.SOFTWARE_DEPLOYMENT}
MAY_BE_SHARED = {SharedFSUsage.SOFTWARE_DEPLOYMENT, SharedFSUsage.STORAGE_LOCAL_COPIES}
#: The time between two attempts to submit a job, s.
PAUSE_S = 10.0
#: How many jobs are asked for one by one; more are listed first.
ASKED = 8
#: The folder of the output of jobs that failed, in the working directory, and that of files that come back.
LOGS = Path(".snakemake") / "pliant_logs"
FETCHED = Path(".snakemake") / "pliant_fetched"


def _setting(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text, "env_var": False, "required": False})


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """The settings of the plugin, ``--pliant-...`` on the command line of Snakemake."""

    config: Optional[Path] = _setting(None, "The client's file [default: as for the command pliant]")
    runtime: int = _setting(60, "The time limit in minutes of jobs without the resource runtime")
    without_mem: bool = _setting(False, "Does not ask for the memory of mem_mb, for servers that do not count memory")
    batches: int = _setting(100, "The most jobs of Pliant that the ready jobs of a rule become: more of them run one after the other")
    batch_minutes: int = _setting(240, "The most minutes that the time limits of the jobs of a batch add up to")
    python: str = _setting("python3", "The Python on servers that has Snakemake, where no software is shared")


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
    can_transfer_local_files=True,
)


class Executor(RemoteExecutor):
    """Submits jobs, follows them, and cancels them."""

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings
        self.settings = settings if isinstance(settings, ExecutorSettings) else ExecutorSettings()
        usage = set(self.workflow.storage_settings.shared_fs_usage)
        self.staged = SharedFSUsage.INPUT_OUTPUT not in usage
        wrong = usage - MAY_BE_SHARED if self.staged else IN_PLACE - usage
        if wrong:
            names = ", ".join(sorted(one.name.lower().replace("_", "-") for one in wrong))
            expected = "nothing else to be shared if input-output is not" if self.staged else "all to be shared if input-output is"
            raise WorkflowError(f"--shared-fs-usage: expected {expected}, found {names}{'' if self.staged else ' to be missing'}")
        for name in ("runtime", "batches", "batch_minutes"):
            if getattr(self.settings, name) < 1:
                raise WorkflowError(f"--pliant-{name.replace('_', '-')}: expected 1 or more, found {getattr(self.settings, name)}")
        self.shares_software = SharedFSUsage.SOFTWARE_DEPLOYMENT in usage
        if self.staged and str(self.snakefile).startswith(".."):
            raise WorkflowError(f"expected the Snakefile below the working directory, found {self.snakefile}: no file system is shared")
        try:
            self.client = pliant.Client(self.settings.config)
            self.follower = pliant.AsyncClient(self.settings.config)
        except pliant.PliantError as error:
            raise WorkflowError(f"pliant: {error}") from None
        self.directory = Path(os.getcwd())
        # Whether servers count memory, by the options that choose servers.
        self.counts_memory: dict[str, bool] = {}

    def get_python_executable(self) -> str:
        return super().get_python_executable() if self.shares_software else shlex.quote(self.settings.python)

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        ready = []
        for job in jobs:
            self.run_job_pre(job)
            ready.append(self._ready(job))
        for batch in batches(ready, self.settings.batches, self.settings.batch_minutes):
            self._run(batch)

    def run_job(self, job: JobExecutorInterface) -> None:
        self._run([self._ready(job)])

    def _run(self, batch: list[Ready]) -> None:
        """Submits jobs that run one after the other as one job."""
        first = batch[0]
        try:
            inputs = self._inputs(batch) if self.staged else {}
            if len(batch) > 1 and files.size_of(inputs.values()) > files.BYTES:
                self._run(batch[: len(batch) // 2])
                self._run(batch[len(batch) // 2 :])
                return
            options = {**first.options, **self._written(batch, inputs), "time": f"{first.minutes * len(batch)}m", "job_name": _name(batch)}
            accepted = self._submitted(first.job, options)
        except (pliant.PliantError, OSError) as error:
            for one in batch:
                self.report_job_error(SubmittedJobInfo(one.job), msg=f"pliant does not run the job: {error} ")
            return
        for one in batch:
            self.logger.info(f"Job {one.job.jobid} is {accepted.id}.")
            self.report_job_submission(SubmittedJobInfo(one.job, external_jobid=accepted.id))

    def _inputs(self, batch: list[Ready]) -> dict[str, Path]:
        """The files that the jobs of a batch read, by their names in the folder of the job."""
        names = dict.fromkeys(name for one in batch for name in files.inputs_of(one.job))
        return files.staged(names, Path(self.tmpdir) / f"inputs-{batch[0].job.jobid}.tar")

    def _written(self, batch: list[Ready], inputs: dict[str, Path]) -> dict[str, Any]:
        """Writes what runs the jobs of a batch: the options of `pliant.Client.submit` for it."""
        described = []
        for one in batch:
            path = self.get_jobscript(one.job)
            self.write_jobscript(one.job, path)
            described.append({
                "id": one.job.jobid,
                "script": path,
                "text": Path(path).read_text() if self.staged else None,
                "time_s": one.minutes * 60 if len(batch) > 1 else None,
                "files": files.files_of(one.job) if self.staged else [],
            })  # fmt: skip
        folder, number = Path(self.tmpdir), batch[0].job.jobid
        batch_file, script = folder / f"batch-{number}.json", folder / f"batch-{number}.sh"
        sources = self._sources() if self.staged else None
        content: dict[str, Any] = {"sources": sources and sources.name, "programs": [], "jobs": described}
        if sources is None:
            program, argument = Path(runner.__file__), batch_file
            options: dict[str, Any] = {"chdir": self.directory}
        else:
            program, argument = Path("runner.py"), Path("batch.json")
            programs = (name for name, path in inputs.items() if os.access(path, os.X_OK))
            content["programs"] = [name.removeprefix(f"{runner.RUN}/") for name in programs]
            own = {"runner.py": Path(runner.__file__), "batch.json": batch_file, sources.name: sources}
            options = {"inputs": {**inputs, **own}}
        batch_file.write_text(json.dumps(content))
        words = " ".join(shlex.quote(str(word)) for word in (program, argument))
        script.write_text(f"#!/bin/sh\nexec {self.get_python_executable()} {words}\n")
        return {"script": script, **options}

    def _sources(self) -> Path:
        """The archive of the workflow: Snakefiles, scripts, configuration, and what git knows in the working directory."""
        path = Path(self.tmpdir) / "sources.tar.xz"
        if not path.exists():
            self.workflow.write_source_archive(path)
        return path

    def _submitted(self, job: JobExecutorInterface, options: dict[str, Any]) -> pliant.Job:
        """Submits a job, and waits for daemons that are down.

        A server may have accepted the job although the answer is missing. Then the job has not failed: Snakemake would run it a second time,
        and both would write the same files. The submission is repeated with its key until its outcome is known, or the user ends Snakemake.
        """
        while True:
            try:
                return self.client.submit(**options)
            except pliant.SubmissionUnknownError as error:
                options["key"] = error.key
                problem: pliant.PliantError = error
            except pliant.UnavailableError as error:
                # With its key the job may go to no other server than the first one, which may be down.
                problem = error
            self.logger.warning(f"Job {job.jobid} is not submitted yet, trying again in {PAUSE_S:.0f} s: {problem.problem}")
            time.sleep(PAUSE_S)

    def _counts_memory(self, options: dict[str, Any]) -> bool:
        """True if a server that these options of a job permit counts memory, or may: one of them is down, or takes no job at all."""
        chosen = {name: value for name, value in options.items() if name in CHOOSING}
        key = repr(sorted(chosen.items()))
        if key not in self.counts_memory:
            script = Path(self.tmpdir) / "memory.sh"
            script.write_text("#!/bin/sh\n")
            question: dict[str, Any] = {"script": script, "time": "1m", "rigid": 1, "ignore_sbatch": True, **chosen}
            try:
                self.client.estimate(**question, mem="1M")
                self.counts_memory[key] = True
            except pliant.RefusedError:
                try:
                    found = self.client.estimate(**question)
                except pliant.PliantError:
                    return True
                if found.down:
                    return True
                self.counts_memory[key] = False
                self.logger.info("No server counts memory: jobs do not ask for any.")
            except pliant.PliantError:
                # The submission has the same problem, and reports it.
                return True
        return self.counts_memory[key]

    def _ready(self, job: JobExecutorInterface) -> Ready:
        """A job with the options of `pliant.Client.submit` that its resources mean."""
        resources = job.resources
        options: dict[str, Any] = {
            **_size(job),
            # The script is the plugin's: its comments are no options.
            "ignore_sbatch": True,
        }
        if self.shares_software:
            options["env"] = {name: os.environ[name] for name in ENVIRONMENT if os.environ.get(name)}
        gpus = resources.get("gpu") or resources.get("gpus")
        if gpus:
            options["gpus"] = gpus
        for name in resources.keys():
            if name.startswith(PREFIX):
                option = name[len(PREFIX) :]
                if option not in OPTIONS:
                    raise WorkflowError(f"resource {name}: expected {PREFIX} with one of {', '.join(OPTIONS)}")
                options[option] = _value(option, resources[name])
        if not self.settings.without_mem and not {"mem", "mem_per_proc"} & options.keys():
            options.update(self._memory(resources, options))
        return Ready(job, int(resources.get("runtime") or self.settings.runtime), options)

    def _memory(self, resources: Any, options: dict[str, Any]) -> dict[str, str]:
        """The memory that a job asks for, where servers count it. Snakemake gives every job a mem_mb, also one that names none."""
        per_proc, total = resources.get("mem_mb_per_cpu"), resources.get("mem_mb")
        if not (per_proc or total) or not self._counts_memory(options):
            return {}
        return {"mem_per_proc": f"{int(per_proc)}M"} if per_proc else {"mem": f"{int(total)}M"}

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        of_jobs: dict[str, list[SubmittedJobInfo]] = {}
        for info in active_jobs:
            of_jobs.setdefault(info.external_jobid, []).append(info)
        for one in await self._open(list(of_jobs)):
            for info in of_jobs.pop(one):
                yield info
        for one, infos in of_jobs.items():
            async with self.status_rate_limiter:
                try:
                    job = await self.follower.job(one)
                    is_over = job.is_final and await self._reported(job, infos)
                except pliant.UnavailableError as error:
                    # A daemon is down: jobs run on, and it comes back.
                    self.logger.debug(f"pliant: {error}")
                    is_over = False
                except (pliant.PliantError, OSError) as error:
                    for info in infos:
                        self.report_job_error(info, msg=f"{one}: {error} ")
                    continue
            if not is_over:
                for info in infos:
                    yield info

    async def _open(self, ids: list[str]) -> list[str]:
        """Those of many jobs that certainly have not ended. The others are asked for one by one."""
        if len(ids) <= ASKED:
            return []
        async with self.status_rate_limiter:
            try:
                found = {job.id for job in await self.follower.queue(last=max(1_000, 2 * len(ids)))}
            except pliant.PliantError as error:
                self.logger.debug(f"pliant: {error}")
                return []
        return [one for one in ids if one in found]

    async def _reported(self, job: pliant.Job, infos: list[SubmittedJobInfo]) -> bool:
        """Reports the outcomes of the jobs of a batch that is over. False if that is to be tried again."""
        fetched, left_out = None, ""
        if self.staged:
            fetched = self.directory / FETCHED / job.id
            try:
                results = await self.follower.fetch(job, fetched)
                left_out = "; ".join(f"{name}: {reason}" for name, reason in results.left_out)
            except pliant.NotRunError:
                fetched = None
        # A batch completes if all of its jobs have succeeded. Otherwise its output says which of them.
        stdout, stderr = ("", "") if job.is_completed else (await self._logs(job, False), await self._logs(job, True))
        codes = dict(re.findall(r"^(\S+) (-?\d+)$", stdout, re.MULTILINE))
        for info in infos:
            number = str(info.job.jobid)
            problem = None
            if not job.is_completed and codes.get(number) != "0":
                how = f"exit code {codes[number]}" if number in codes else job.exit
                problem = job.state + ("" if how is None else f", {how}")
            if fetched is not None:
                # Also of a job that has failed: its logs.
                problem = self._put_back(info.job, fetched, left_out) or problem
            if problem is None:
                self.report_job_success(info)
            else:
                log = self._log_file(job, info.job, stderr)
                self.report_job_error(info, msg=f"{job.id} is {problem}. ", aux_logs=log)
        if fetched is not None:
            shutil.rmtree(fetched, ignore_errors=True)
        return True

    def _put_back(self, job: JobExecutorInterface, fetched: Path, left_out: str) -> Optional[str]:
        """Moves the files that a job has left from the folder of results to their places. The problem, if there is one."""
        archive = fetched / "work" / f"{job.jobid}.tar"
        if not archive.exists():
            return f"without files: {left_out}" if left_out else None
        try:
            files.put_back(archive, files.files_of(job), fetched / "unpacked")
        except (OSError, tarfile.TarError) as error:
            return f"over, but its files cannot be unpacked: {error}"
        return None

    async def _logs(self, job: pliant.Job, stderr: bool) -> str:
        """What a job has written."""
        try:
            return await self.follower.logs(job, stderr=stderr)
        except pliant.UnavailableError:
            raise
        except pliant.PliantError as error:
            self.logger.debug(f"pliant: {job.id}: {error}")
            return ""

    def _log_file(self, job: pliant.Job, of: JobExecutorInterface, stderr: str) -> list[str]:
        """The output of a job that failed, in a file."""
        _, _, own = stderr.partition(runner.HEADING.format(of.jobid) + "\n")
        text = re.split(runner.HEADING.format(r"\S+"), own)[0] or stderr
        if not text:
            return []
        path = self.directory / LOGS / f"{job.id}-{of.jobid}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return [str(path)]

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for one in dict.fromkeys(info.external_jobid for info in active_jobs):
            if one is None:
                continue
            try:
                self.client.cancel(one)
            except pliant.PliantError as error:
                self.logger.error(f"pliant: cannot cancel {one}: {error}")


def _name(batch: list[Ready]) -> str:
    """The name of a batch: that of its rule or group, and the number of its first job."""
    job = batch[0].job
    name = f"group-{job.groupid}" if job.is_group() else f"{job.name}-{job.jobid}"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _size(job: JobExecutorInterface) -> dict[str, int]:
    """The processors of a job, and of each of its tasks if it names tasks, as for Slurm. The resources of a group are sums: it has threads."""
    threads, resources = max(1, int(job.threads)), job.resources
    if job.is_group():
        return {"rigid": threads}
    each = _count(job, "cpus_per_task", threads)
    if not (resources.get("tasks") or resources.get("mpi")):
        return {"rigid": each}
    tasks = _count(job, "tasks", 1)
    return {"rigid": tasks * each} | ({"cpus_per_task": each} if each > 1 else {})


def _count(job: JobExecutorInterface, name: str, default: int) -> int:
    """A resource that is a whole number above 0."""
    value = job.resources.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WorkflowError(f"rule {job.name}: resource {name}: expected a whole number above 0, found {value!r}")
    return value


def _value(option: str, value: Any) -> Any:
    """The value of an option. A flag is a number in a resource."""
    return bool(value) if option == "exclusive" else value
