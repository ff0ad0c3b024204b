"""A provider of Parsl: its workers run as jobs of a federation.

Workers of the `HighThroughputExecutor` connect to the computer that runs Parsl, so servers must reach `address`. Parsl is installed on servers.
"""

import tempfile
from pathlib import Path
from typing import Any, Optional, Sequence

import pliant
from parsl.jobs.states import JobState, JobStatus
from parsl.launchers import SingleNodeLauncher
from parsl.providers.base import ExecutionProvider

STATES = {
    "NEW": JobState.PENDING,
    "QUEUED": JobState.PENDING,
    "ACTIVE": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELED": JobState.CANCELLED,
}


class PliantProvider(ExecutionProvider):
    """A block of workers is a job of one node.

    client: the client; by default one with the files of the command pliant.
    time, procs: the time limit and the processors of a block.
    resources: other options of `pliant.Client.submit`.
    worker_init: lines of a shell before the workers start, such as those that activate an environment.
    """

    def __init__(
        self,
        client: Optional[pliant.Client] = None,
        *,
        time: str = "1h",
        procs: int = 1,
        resources: Optional[dict[str, Any]] = None,
        worker_init: str = "",
        init_blocks: int = 1,
        min_blocks: int = 0,
        max_blocks: int = 1,
    ) -> None:
        self.client = client if client is not None else pliant.Client()
        self.options = {"time": time, "rigid": procs, **(resources or {})}
        self.worker_init, self.launcher = worker_init, SingleNodeLauncher()
        self.init_blocks, self.min_blocks, self.max_blocks = init_blocks, min_blocks, max_blocks
        self.nodes_per_block, self.parallelism = 1, 1.0
        self.cores_per_node, self.mem_per_node = procs, None
        self.script_dir: Optional[str] = None
        self.resources: dict[object, Any] = {}

    @property
    def label(self) -> str:
        return "pliant"

    @property
    def status_polling_interval(self) -> int:
        return 5

    def submit(self, command: str, tasks_per_node: int, job_name: str = "parsl") -> object:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "workers.sh"
            script.write_text(f"#!/bin/bash\n{self.worker_init}\n{self.launcher(command, tasks_per_node, self.nodes_per_block)}\n")
            job = self.client.submit(script=script, job_name="parsl-workers", **self.options)
        self.resources[job.id] = {"job_id": job.id}
        return job.id

    def status(self, job_ids: Sequence[object]) -> Sequence[JobStatus]:
        return [self._status(str(one)) for one in job_ids]

    def _status(self, job: str) -> JobStatus:
        try:
            found = self.client.job(job)
        except pliant.UnavailableError as error:
            # A daemon is down: the workers run on.
            return JobStatus(JobState.UNKNOWN, str(error))
        return JobStatus(STATES[found.state], None if found.exit is None else str(found.exit))

    def cancel(self, job_ids: Sequence[object]) -> Sequence[bool]:
        return [self._cancel(str(one)) for one in job_ids]

    def _cancel(self, job: str) -> bool:
        try:
            return self.client.cancel(job).is_final
        except pliant.PliantError:
            return False
