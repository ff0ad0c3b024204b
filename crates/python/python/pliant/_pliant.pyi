"""The native part of the package."""

import os
from typing import Any, Callable, Mapping, Optional, Sequence, TypedDict, Union

from .campaigns import CampaignRun
from .frames import Figure

PathLike = Union[str, os.PathLike[str]]

__version__: str

class Cluster(TypedDict):
    """A cluster of a platform."""

    name: str
    procs: int
    speed: float
    batch: str

class Platform:
    """The clusters of a simulation."""

    @staticmethod
    def of_clusters(clusters: Sequence[Mapping[str, Any]]) -> Platform:
        """A platform of clusters with ``name`` and ``procs``, and perhaps ``speed`` and ``batch``."""

    @staticmethod
    def single(procs: int) -> Platform:
        """One cluster of that many processors."""

    @staticmethod
    def built_in(name: str) -> Platform:
        """A built-in platform, such as ``grid5000``."""

    @staticmethod
    def read(path: PathLike) -> Platform:
        """The platform of a file in TOML."""

    @property
    def clusters(self) -> list[Cluster]:
        """The clusters."""

    @property
    def total_procs(self) -> int:
        """The processors of all clusters."""

class Table:
    """A table of named columns. It offers the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def to_pydict(self, rows: Optional[int] = None) -> dict[str, list[Any]]:
        """The columns as lists, by their names; of the first rows only, if `rows` says how many."""

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""

    def to_pyarrow(self) -> Any:
        """A `pyarrow.Table`."""

    def _repr_html_(self) -> str: ...

class Workload:
    """Jobs to be simulated, in the order of their submissions."""

    def __len__(self) -> int: ...
    @property
    def name(self) -> str:
        """What it was read or generated from."""

    @property
    def jobs(self) -> Table:
        """The jobs: job, submit, procs, walltime, runtime, user, group, executable and cluster."""

    @property
    def repairs(self) -> dict[str, int]:
        """How many jobs were dropped or repaired, by the reason."""

    @property
    def max_procs(self) -> Optional[int]:
        """The processors of the machine that the log is of, if it says."""

    def write(self, path: PathLike) -> None:
        """Writes the workload to a file: .swf, .swf.gz, .gwf or .gwf.gz."""

class Run:
    """The result of a simulation."""

    @property
    def name(self) -> str:
        """The workload that was simulated."""

    @property
    def jobs(self) -> Table:
        """The jobs that ran: job, cluster, submit, start, end, procs, walltime, moves, managed and reason."""

    @property
    def moves(self) -> Table:
        """The moves of waiting jobs: time, job, from, to, ect_before, ect_after and procs."""

    @property
    def refused(self) -> Table:
        """The jobs that no cluster could take: job, cause, cluster, requested and available."""

    @property
    def summary(self) -> dict[str, Any]:
        """The metrics: the keys of summary.json."""

    def write(self, folder: PathLike, *, files: Optional[Sequence[str]] = None, report: bool = False) -> None:
        """Writes the files of ``pliant simulate --out`` into a folder: csv, parquet, json and swf, or those in `files`."""

    def report_html(self) -> str:
        """The page of ``pliant report``: one HTML file that needs nothing else."""

    def gantt(self) -> Figure:
        """The Gantt chart, which a notebook shows."""

    def utilization(self) -> Figure:
        """Utilization and queue length over time, which a notebook shows."""

    def _gantt_html(self) -> str: ...
    def _utilization_html(self) -> str: ...
    def _repr_html_(self) -> str: ...

def read_workload(path: PathLike, *, repair: str = ..., strict: bool = ..., log_dirs: Sequence[PathLike] = ...) -> Workload: ...
def workload_of_table(table: object) -> Workload: ...
def generate(kind: str, platform: Optional[Platform], given: dict[str, Any]) -> Workload: ...
def simulate(
    workload: Workload,
    platform: Platform,
    options: dict[str, Any],
    custom: dict[str, tuple[object, str]],
    progress: Optional[Callable[[int, int], None]] = ...,
    priority: Optional[PathLike] = ...,
) -> Run: ...

# What policies see.

class WaitingJob:
    """A job that waits or arrives."""

    @property
    def job(self) -> int:
        """Its number in the workload."""

    @property
    def submit(self) -> int:
        """When it was submitted."""

    @property
    def procs(self) -> int:
        """The processors that it asks for."""

    @property
    def walltime(self) -> int:
        """The walltime that it asks for."""

    @property
    def user(self) -> int:
        """The number of its user; -1 if it is unknown."""

    @property
    def cluster(self) -> Optional[str]:
        """The cluster where it waits, or that its user chose; None if its user chose none."""

class Queue:
    """The waiting jobs of a cluster, as columns: in order of submission for a batch policy."""

    def __len__(self) -> int: ...
    @property
    def job(self) -> memoryview[int]:
        """The numbers of the jobs in the workload."""

    @property
    def submit(self) -> memoryview[int]:
        """When they were submitted."""

    @property
    def procs(self) -> memoryview[int]:
        """The processors that they ask for."""

    @property
    def walltime(self) -> memoryview[int]:
        """The walltimes that they ask for, at the speed of the cluster."""

    @property
    def wait(self) -> memoryview[int]:
        """How long they have waited."""

    @property
    def user(self) -> memoryview[int]:
        """The numbers of their users; -1 where it is unknown."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""

    @property
    def capacity(self) -> int:
        """The processors of the cluster."""

    @property
    def releases(self) -> list[tuple[int, int]]:
        """When running jobs are expected to end by their walltimes, as (time, processors) in order of time; for batch policies only."""

class Offers:
    """The offers of clusters for an arriving job, as columns."""

    def __len__(self) -> int: ...
    @property
    def cluster(self) -> list[str]:
        """The names of the clusters."""

    @property
    def procs(self) -> memoryview[int]:
        """The processors that the job would get."""

    @property
    def walltime(self) -> memoryview[int]:
        """Its walltimes."""

    @property
    def start(self) -> memoryview[int]:
        """Its estimated starts."""

    @property
    def completion(self) -> memoryview[int]:
        """Its estimated completions, by the walltimes."""

class Sizes:
    """The sizes that a moldable job can have on a cluster, from the smallest on, as columns."""

    def __len__(self) -> int: ...
    @property
    def procs(self) -> memoryview[int]:
        """Processors."""

    @property
    def walltime(self) -> memoryview[int]:
        """The walltimes."""

    @property
    def start(self) -> memoryview[int]:
        """The estimated starts."""

    @property
    def completion(self) -> memoryview[int]:
        """The estimated completions, by the walltimes."""

class Candidates:
    """The waiting jobs that a reallocation cycle may consider next, the oldest first, as columns. 2**61 - 1 stands for no completion."""

    def __len__(self) -> int: ...
    @property
    def job(self) -> memoryview[int]:
        """The numbers of the jobs in the workload."""

    @property
    def procs(self) -> memoryview[int]:
        """The processors that they ask for."""

    @property
    def current(self) -> memoryview[int]:
        """Their expected completions where they wait, or waited before they were cancelled."""

    @property
    def best(self) -> memoryview[int]:
        """Their expected completions on the best other cluster."""

    @property
    def first(self) -> memoryview[int]:
        """Their earliest expected completions of all."""

    @property
    def second(self) -> memoryview[int]:
        """The second-earliest."""

    @property
    def cluster(self) -> list[str]:
        """The names of the clusters where they wait, or waited."""

class Campaign:
    """A campaign, as read from its file."""

    def __init__(self, path: PathLike, *, traces: Optional[PathLike] = ...) -> None:
        """Reads a campaign file. Logs are searched in its folder, then in `traces`: by default that of the environment variable
        PLIANT_TRACES. Optional workloads whose logs are absent are left out."""

    @property
    def skipped(self) -> list[str]:
        """The optional workloads that are left out, since their logs are absent."""

    def run(
        self,
        out: PathLike,
        *,
        threads: Optional[int] = ...,
        shard: Optional[str] = ...,
        progress: Optional[Callable[[int, int], None]] = ...,
    ) -> CampaignRun:
        """Runs what is left of the campaign in a folder, with the results of ``pliant campaign run``.

        threads: the number of runs at a time; by default one for each core.
        shard: ``I/N`` runs part I of N only.
        progress: a function that is called with the numbers of runs that are in the folder and of all runs.

        Ctrl-C ends a campaign of simulations when the present runs have ended; those that have ended are kept.
        """

    def _run(
        self, out: PathLike, threads: int, shard: str, progress: Optional[Callable[[int, int], None]]
    ) -> dict[str, Any]: ...

class Episode:
    """One sequence of jobs on one cluster, which stops at each pick (`pliant.gym`)."""

    def __init__(
        self, workload: Workload, procs: int, *, first: int, count: int, window: int, backfill: bool
    ) -> None: ...
    @property
    def now(self) -> int:
        """The present time, in seconds after the first submission."""

    def advance(self) -> Optional[tuple[bytearray, int]]:
        """Goes on to the next pick: the features of the window as 32-bit floats, and how many jobs are in it. None if all have ended."""

    def step(self, position: int) -> Optional[tuple[bytearray, int]]:
        """Picks the job at a position of the window, then goes on."""

    def run(self) -> Run:
        """The run of the jobs; the episode is over."""

def _panic() -> None: ...
