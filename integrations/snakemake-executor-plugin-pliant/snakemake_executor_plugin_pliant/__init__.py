"""Runs the jobs of Snakemake on a federation of clusters.

Each job of Snakemake is a job of Pliant that runs in place: in the working directory of the workflow, on a server that shares its file
system (`[shared]` of the client's file).
"""

import os
import re
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

#: A resource ``pliant_NAME`` of a rule is the option NAME of ``pliant submit``.
PREFIX = "pliant_"
#: The options of ``pliant submit`` that a resource may be, and those of them that are numbers or flags.
OPTIONS = (
    "account", "constraint", "deadline", "exclusive", "gpus", "gpus_per_proc", "licenses", "mem", "mem_per_proc", "nice", "nodes",
    "partition", "procs_per_node", "qos", "requeue", "scratch", "server", "server_timeout", "speedup",
)  # fmt: skip
#: What a job gets of the environment of Snakemake, where software is shared.
ENVIRONMENT = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
#: The time between two attempts to submit a job, s.
PAUSE_S = 10.0
#: The folder of the output of jobs that failed, in the working directory.
LOGS = Path(".snakemake") / "pliant_logs"


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """The settings of the plugin, ``--pliant-...`` on the command line of Snakemake."""

    config: Optional[Path] = field(
        default=None,
        metadata={"help": "The client's file [default: as for the command pliant]", "env_var": False, "required": False},
    )
    runtime: int = field(
        default=60,
        metadata={"help": "The time limit in minutes of jobs without the resource runtime", "env_var": False, "required": False},
    )
    without_mem: bool = field(
        default=False,
        metadata={
            "help": "Does not ask for the memory of mem_mb, for servers that do not count memory",
            "env_var": False,
            "required": False,
        },
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """Submits jobs, follows them, and cancels them."""

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings
        self.settings = settings if isinstance(settings, ExecutorSettings) else ExecutorSettings()
        needed = {SharedFSUsage.INPUT_OUTPUT, SharedFSUsage.SOURCES, SharedFSUsage.PERSISTENCE, SharedFSUsage.SOFTWARE_DEPLOYMENT}
        missing = needed - set(self.workflow.storage_settings.shared_fs_usage)
        if missing:
            names = ", ".join(sorted(one.name.lower().replace("_", "-") for one in missing))
            raise WorkflowError(
                f"expected a shared file system for all of the workflow, found none for {names}: jobs run in its working directory"
            )
        try:
            self.client = pliant.Client(self.settings.config)
            self.follower = pliant.AsyncClient(self.settings.config)
        except pliant.PliantError as error:
            raise WorkflowError(f"pliant: {error}") from None
        self.directory = Path(os.getcwd())

    def run_job(self, job: JobExecutorInterface) -> None:
        script = self.get_jobscript(job)
        self.write_jobscript(job, script)
        try:
            accepted = self._submitted(job, {"script": script, **self._options(job)})
        except pliant.PliantError as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"pliant does not run the job: {error} ")
            return
        self.logger.info(f"Job {job.jobid} is {accepted.id}.")
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=accepted.id))

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
                problem = error
            except pliant.InputError as error:
                # With its key it may go to no other server than the first one, which may be down.
                if "key" not in options:
                    raise
                problem = error
            self.logger.warning(f"Job {job.jobid} is not submitted yet, trying again in {PAUSE_S:.0f} s: {problem.problem}")
            time.sleep(PAUSE_S)

    def _options(self, job: JobExecutorInterface) -> dict[str, Any]:
        """The options of `pliant.Client.submit` that the resources of a job mean."""
        resources = job.resources
        options: dict[str, Any] = {
            "chdir": self.directory,
            "job_name": _name(job),
            "rigid": max(1, int(job.threads)),
            "time": f"{int(resources.get('runtime') or self.settings.runtime)}m",
            "env": {name: os.environ[name] for name in ENVIRONMENT if os.environ.get(name)},
            # The script is Snakemake's: its comments are no options.
            "ignore_sbatch": True,
        }
        if not self.settings.without_mem:
            if resources.get("mem_mb_per_cpu"):
                options["mem_per_proc"] = f"{int(resources['mem_mb_per_cpu'])}M"
            elif resources.get("mem_mb"):
                options["mem"] = f"{int(resources['mem_mb'])}M"
        gpus = resources.get("gpu") or resources.get("gpus")
        if gpus:
            options["gpus"] = gpus
        for name in resources.keys():
            if name.startswith(PREFIX):
                option = name[len(PREFIX) :]
                if option not in OPTIONS:
                    raise WorkflowError(f"resource {name}: expected {PREFIX} with one of {', '.join(OPTIONS)}")
                options[option] = _value(option, resources[name])
        return options

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        for info in active_jobs:
            async with self.status_rate_limiter:
                try:
                    job = await self.follower.job(info.external_jobid)
                except pliant.UnavailableError as error:
                    # A daemon is down: jobs run on, and it comes back.
                    self.logger.debug(f"pliant: {error}")
                    yield info
                    continue
                except pliant.PliantError as error:
                    self.report_job_error(info, msg=f"{info.external_jobid}: {error} ")
                    continue
            if job.state == "COMPLETED":
                self.report_job_success(info)
            elif job.is_final:
                logs = await self._logs(job)
                how = "" if job.exit is None else f", {job.exit}"
                self.report_job_error(info, msg=f"{job.id} is {job.state}{how}. ", aux_logs=logs)
            else:
                yield info

    async def _logs(self, job: pliant.Job) -> list[str]:
        """The output of a job that failed, in a file."""
        texts = []
        for stderr in (False, True):
            try:
                texts.append(await self.follower.logs(job, stderr=stderr))
            except pliant.PliantError as error:
                self.logger.debug(f"pliant: {job.id}: {error}")
        path = self.directory / LOGS / f"{job.id}.log"
        if not any(texts):
            return []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(texts))
        return [str(path)]

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for info in active_jobs:
            if info.external_jobid is None:
                continue
            try:
                self.client.cancel(info.external_jobid)
            except pliant.PliantError as error:
                self.logger.error(f"pliant: cannot cancel {info.external_jobid}: {error}")


def _name(job: JobExecutorInterface) -> str:
    """The name of a job: that of its rule or group, and its number."""
    name = f"group-{job.groupid}" if job.is_group() else f"{job.name}-{job.jobid}"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _value(option: str, value: Any) -> Any:
    """The value of an option. A flag is a number in a resource."""
    return bool(value) if option == "exclusive" else value
