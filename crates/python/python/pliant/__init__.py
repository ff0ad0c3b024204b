"""Pliant, a metascheduler for federations of clusters, in Python.

Simulations of scheduling on one cluster or on many, with every policy that ``pliant simulate`` has::

    import pliant

    run = pliant.simulate(pliant.read_swf("KTH-SP2.swf"), procs=100, batch="cbf")
    run.summary["mean_wait_s"]
    run.jobs.to_pandas()

Times are whole seconds. Tables offer the Arrow PyCapsule interface: polars, pandas, pyarrow and DuckDB take them without a copy.
"""

from typing import TYPE_CHECKING

from ._pliant import (
    Campaign,
    Candidates,
    Estimate,
    Estimates,
    Exit,
    ExplorationResult,
    Instance,
    Job,
    Launch,
    LaunchTask,
    Offer,
    Offers,
    Platform,
    Queue,
    Refusal,
    ResultFile,
    Results,
    Run,
    Sizes,
    SweepResult,
    Table,
    WaitingJob,
    Workload,
    __version__,
)
from .campaigns import CampaignRun
from .client import Client
from .errors import (
    DeniedError,
    FileError,
    InputError,
    InternalError,
    JobFailedError,
    LaunchFailedError,
    LaunchUnknownError,
    NotFoundError,
    NotRunError,
    PliantError,
    PolicyError,
    RefusedError,
    RefusedJobsWarning,
    SubmissionUnknownError,
    UnavailableError,
    WaitTimeoutError,
)
from .executor import Executor
from .frames import Figure
from .policies import BatchPolicy, HeuristicRule, MappingRule, QueueOrder, SizingRule
from .simulation import generate, read_swf, read_workload, simulate

if TYPE_CHECKING:
    from .async_client import AsyncClient
else:

    def __getattr__(name):
        """The client for asyncio is imported when it is first asked for: see its module."""
        if name != "AsyncClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .async_client import AsyncClient

        globals()[name] = AsyncClient
        return AsyncClient

    def __dir__():
        return sorted({*globals(), "AsyncClient"})


__all__ = [
    "AsyncClient",
    "BatchPolicy",
    "Campaign",
    "CampaignRun",
    "Candidates",
    "Client",
    "DeniedError",
    "Estimate",
    "Estimates",
    "Executor",
    "Exit",
    "ExplorationResult",
    "Figure",
    "FileError",
    "HeuristicRule",
    "InputError",
    "Instance",
    "InternalError",
    "Job",
    "JobFailedError",
    "Launch",
    "LaunchFailedError",
    "LaunchTask",
    "LaunchUnknownError",
    "MappingRule",
    "NotFoundError",
    "NotRunError",
    "Offer",
    "Offers",
    "Platform",
    "PliantError",
    "PolicyError",
    "Queue",
    "QueueOrder",
    "Refusal",
    "RefusedError",
    "RefusedJobsWarning",
    "ResultFile",
    "Results",
    "Run",
    "Sizes",
    "SizingRule",
    "SubmissionUnknownError",
    "SweepResult",
    "Table",
    "UnavailableError",
    "WaitTimeoutError",
    "WaitingJob",
    "Workload",
    "__version__",
    "generate",
    "read_swf",
    "read_workload",
    "simulate",
]
