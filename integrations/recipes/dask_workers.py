"""Workers of Dask as jobs of a running `pliant up`: for many short calls, arrays and data frames.

Workers connect to the scheduler of Dask on this computer, so servers must reach its address. dask-jobqueue is installed here, distributed on
the servers.
"""

import dask
from dask.distributed import Client
from dask_jobqueue.core import Job, JobQueueCluster

# dask-jobqueue looks up the options that are not given below the name of the batch system.
dask.config.update_defaults({"jobqueue": {"pliant": dask.config.get("jobqueue.slurm")}})


class PliantJob(Job):
    """A job of one or more workers."""

    submit_command = "pliant submit --script"
    cancel_command = "pliant cancel"
    job_id_regexp = r"(?P<job_id>\S+\.\d+)"
    config_name = "pliant"

    def __init__(self, scheduler=None, name=None, walltime="1h", options=(), config_name=None, **others):
        super().__init__(scheduler=scheduler, name=name, config_name=config_name, **others)
        lines = [f"--time {walltime}", f"--rigid {self.worker_cores}", f"--job-name {self.job_name}", *options]
        self.job_header = "\n".join(f"#PLIANT {line}" for line in lines)


class PliantCluster(JobQueueCluster):
    """Workers of Dask on a federation. `options` are further ones of `pliant submit`."""

    job_cls = PliantJob
    config_name = "pliant"


if __name__ == "__main__":
    import dask.array

    address = {"host": "127.0.0.1", "dashboard_address": None}
    # One worker a job: by default dask-jobqueue starts several, and those of one job would be all that is waited for.
    with PliantCluster(cores=2, processes=1, memory="1GB", walltime="10m", scheduler_options=address) as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2)
            jobs = sorted(set(client.run(lambda: __import__("os").environ["PLIANT_JOB"]).values()))
            numbers = dask.array.arange(1_000_000, chunks=100_000)
            print(int((numbers % 7).sum().compute()), "of", ", ".join(jobs))
