"""Pliant, a metascheduler for federations of clusters, in Python.

Simulations of scheduling on one cluster or on many, with every policy that ``pliant simulate`` has::

    import pliant

    run = pliant.simulate(pliant.read_swf("KTH-SP2.swf"), procs=100, batch="cbf")
    run.summary["mean_wait_s"]
    run.jobs.to_pandas()

Times are whole seconds. Tables offer the Arrow PyCapsule interface: polars, pandas, pyarrow and DuckDB take them without a copy.
"""

from ._pliant import Platform, Run, Table, Workload, __version__
from .campaigns import CampaignRun
from .errors import FileError, InputError, PliantError, PolicyError, RefusedJobsWarning
from .frames import Figure
from .policies import BatchPolicy, HeuristicRule, MappingRule, QueueOrder, SizingRule
from .simulation import generate, read_swf, read_workload, simulate

# The live side.
from ._pliant import (
    Estimate,
    Estimates,
    Exit,
    ExplorationResult,
    Instance,
    Job,
    Offer,
    Refusal,
    ResultFile,
    Results,
    SweepResult,
)
from .client import AsyncClient, Client
from .errors import (
    DeniedError,
    JobFailedError,
    NotFoundError,
    NotRunError,
    RefusedError,
    SubmissionUnknownError,
    UnavailableError,
    WaitTimeoutError,
)
from .executor import Executor
# Simulations: what policies of your own see.
from ._pliant import Campaign, Candidates, Offers, Queue, Sizes, WaitingJob

__all__ = [
    "BatchPolicy",
    "Campaign",
    "CampaignRun",
    "Candidates",
    "Figure",
    "FileError",
    "HeuristicRule",
    "InputError",
    "MappingRule",
    "Offers",
    "Platform",
    "PliantError",
    "PolicyError",
    "Queue",
    "QueueOrder",
    "RefusedJobsWarning",
    "Run",
    "Sizes",
    "SizingRule",
    "Table",
    "WaitingJob",
    "Workload",
    "__version__",
    "generate",
    "read_swf",
    "read_workload",
    "simulate",
]

# The live side.
__all__ += [
    "AsyncClient",
    "Client",
    "DeniedError",
    "Estimate",
    "Estimates",
    "Executor",
    "Exit",
    "ExplorationResult",
    "Instance",
    "Job",
    "JobFailedError",
    "NotFoundError",
    "NotRunError",
    "Offer",
    "Refusal",
    "RefusedError",
    "ResultFile",
    "Results",
    "SubmissionUnknownError",
    "SweepResult",
    "UnavailableError",
    "WaitTimeoutError",
]
