"""The native part of the package."""

import os
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, TypedDict, Union, final, overload

from .campaigns import CampaignRun
from .frames import Figure, GanttChart, UtilizationChart
from .progress import Progress

PathLike = Union[str, os.PathLike[str]]

__version__: str

class Cluster(TypedDict):
    """A cluster of a platform."""

    name: str
    procs: int
    speed: float
    batch: str

@final
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

    def _repr_html_(self) -> str: ...

@final
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

@final
class Workload:
    """Jobs to be simulated, in the order of their submissions."""

    @staticmethod
    def of_table(table: object) -> Workload:
        """The jobs of a table with the columns ``submit``, ``procs`` and ``runtime``, and perhaps ``walltime``, ``job``, ``user``,
        ``group``, ``executable`` and ``cluster``: a data frame of polars or pandas, a table of pyarrow, a relation of DuckDB.

        Times are whole seconds, or instants and lengths of time as columns of these types. Other columns are ignored; a name that is
        close to one of these is an error, as is a job number that two rows have."""

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

    def _repr_html_(self) -> str: ...

@final
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

    def report(self) -> Figure:
        """The same page, which a notebook shows; its `write` writes it to a file."""

    def gantt(self) -> GanttChart:
        """The Gantt chart, which a notebook shows; its `plot` draws it with matplotlib."""

    def utilization(self) -> UtilizationChart:
        """Utilization and queue length over time, which a notebook shows; its `plot` draws them with matplotlib."""

    def _gantt_html(self) -> str: ...
    def _utilization_html(self) -> str: ...
    def _bars(self) -> Table: ...
    def _bins(self) -> Table: ...
    def _clusters(self) -> list[tuple[str, int]]: ...
    def _repr_html_(self) -> str: ...

def read_workload(path: PathLike, *, repair: str = ..., strict: bool = ..., log_dirs: Sequence[PathLike] = ...) -> Workload: ...
def generate(kind: str, platform: Optional[Platform], given: dict[str, Any]) -> Workload: ...
def simulate(
    workload: Workload,
    platform: Platform,
    options: dict[str, Any],
    custom: dict[str, tuple[object, str]],
    progress: Optional[Callable[[int, int], None]] = ...,
    priority: Optional[PathLike] = ...,
) -> Run: ...

# A client of a federation.

@final
class Exit:
    """How a job ended."""

    @property
    def how(self) -> str:
        """``code``, ``signal``, ``over-walltime``, ``over-limit``, ``cancelled``, ``not-started`` or ``lost``."""

    @property
    def code(self) -> Optional[int]:
        """The exit code, if there is one."""

    @property
    def signal(self) -> Optional[int]:
        """The signal that ended it, if one did."""

    @property
    def why(self) -> Optional[str]:
        """The reason, if there is more to say."""

    @property
    def text(self) -> str:
        """All of it, for people."""

@final
class Estimate:
    """The size, start and completion that a server expects of a job."""

    @property
    def procs(self) -> int:
        """Processors."""

    @property
    def walltime(self) -> int:
        """The time limit on these processors, in seconds."""

    @property
    def start(self) -> int:
        """The start, in seconds since 1970-01-01 00:00 UTC."""

    @property
    def completion(self) -> int:
        """The latest completion, in seconds since 1970-01-01 00:00 UTC."""

@final
class Job:
    """A job, as it was when it was asked for. Instants are seconds since 1970-01-01 00:00 UTC."""

    @property
    def id(self) -> str:
        """The job ID, such as ``lyon.17``."""

    @property
    def key(self) -> str:
        """The key of its submission."""

    @property
    def name(self) -> str:
        """The service, or the name of the script."""

    @property
    def owner(self) -> str:
        """The user who submitted it."""

    @property
    def server(self) -> str:
        """The server that has it: another one after a move."""

    @property
    def state(self) -> str:
        """``NEW``, ``QUEUED``, ``ACTIVE``, ``COMPLETED``, ``FAILED`` or ``CANCELED``."""

    @property
    def is_final(self) -> bool:
        """True if it has ended."""

    @property
    def is_completed(self) -> bool:
        """True if it has ended with exit code 0."""

    @property
    def procs(self) -> int:
        """The processors that it runs or ran on."""

    @property
    def gpus(self) -> Optional[int]:
        """Its GPUs in all, if it asked for some."""

    @property
    def walltime(self) -> int:
        """The time limit on these processors, in seconds."""

    @property
    def submitted(self) -> int:
        """When it was accepted."""

    @property
    def started(self) -> Optional[int]:
        """When it started."""

    @property
    def ended(self) -> Optional[int]:
        """When it ended."""

    @property
    def exit(self) -> Optional[Exit]:
        """How it ended."""

    @property
    def expected(self) -> Estimate:
        """The estimate that the server promised when it accepted the job."""

    @property
    def moves(self) -> int:
        """How often it was moved to another server."""

    @property
    def requeues(self) -> int:
        """How often it was queued again after a node failed under it."""

@final
class Offer:
    """The estimate of one server."""

    @property
    def server(self) -> str:
        """The server."""

    @property
    def estimate(self) -> Estimate:
        """Its estimate."""

    @property
    def free_procs(self) -> int:
        """Its free processors."""

    @property
    def queue_length(self) -> int:
        """The number of its waiting jobs."""

    @property
    def partition(self) -> Optional[str]:
        """The partition that the estimate is of, if partitions are compared."""

@final
class Refusal:
    """Why a server does not take a job."""

    @property
    def server(self) -> Optional[str]:
        """The server, if it is one."""

    @property
    def cause(self) -> str:
        """A word for programs, such as ``too-large``."""

    @property
    def why(self) -> str:
        """The reason, for people."""

@final
class Estimates:
    """The estimates of the servers of a federation."""

    @property
    def best(self) -> Optional[Offer]:
        """The offer that completes first."""

    @property
    def offers(self) -> list[Offer]:
        """The offers, best first."""

    @property
    def refusals(self) -> list[Refusal]:
        """The servers that do not take the job."""

    @property
    def down(self) -> list[str]:
        """Servers that are not connected."""

    @property
    def servers(self) -> int:
        """The number of known servers."""

    @property
    def answered(self) -> int:
        """The number of servers that answered."""

@final
class ResultFile:
    """A file that a job left."""

    @property
    def name(self) -> str:
        """Its path in the folder of results: ``stdout``, ``stderr`` or ``work/...``."""

    @property
    def bytes(self) -> int:
        """Its size."""

@final
class Results:
    """The results of a job, in a folder."""

    @property
    def files(self) -> list[ResultFile]:
        """The files that were fetched."""

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """The first files that cannot be fetched, each with the reason."""

    @property
    def left_out_count(self) -> int:
        """The number of files that cannot be fetched."""

    @property
    def stdout_cut(self) -> bool:
        """True if some of the standard output was dropped."""

    @property
    def stderr_cut(self) -> bool:
        """True if some of the standard error was dropped."""

@final
class Instance:
    """One run of a sweep."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def values(self) -> list[tuple[str, str]]:
        """The arguments that vary, with its values."""

    @property
    def state(self) -> str:
        """``completed``, ``failed``, ``cancelled``, ``submitted`` or ``waiting``."""

    @property
    def code(self) -> Optional[int]:
        """Its exit code, if it has one."""

    @property
    def how(self) -> str:
        """How it ended, for people."""

    @property
    def tries(self) -> int:
        """How often it ended or was lost."""

    @property
    def server(self) -> Optional[str]:
        """The server of its last run."""

    @property
    def job(self) -> Optional[str]:
        """The job of its last run."""

    @property
    def elapsed(self) -> Optional[float]:
        """How long it took, in seconds."""

    @property
    def output(self) -> str:
        """The end of its standard output."""

    @property
    def error(self) -> str:
        """The end of its standard error."""

@final
class SweepResult:
    """The outcome of a sweep: a sequence of its instances, which are read when they are asked for."""

    @property
    def dir(self) -> Path:
        """The folder with its tables and its progress."""

    @property
    def completed(self) -> int:
        """Instances that ended well."""

    @property
    def failed(self) -> int:
        """Instances that failed in their last run."""

    @property
    def cancelled(self) -> int:
        """Instances that were cancelled."""

    @property
    def retried(self) -> int:
        """Runs that were repeated."""

    @property
    def jobs(self) -> int:
        """The jobs that it was submitted in."""

    @property
    def interrupted(self) -> bool:
        """True if it was stopped before its end."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, number: int, /) -> Instance: ...
    @overload
    def __getitem__(self, number: slice, /) -> list[Instance]: ...
    def __iter__(self) -> Instances: ...

@final
class Instances:
    """The instances of a sweep, one after the other."""

    def __iter__(self) -> Instances: ...
    def __next__(self) -> Instance: ...

@final
class ExplorationResult:
    """The outcome of an exploration."""

    @property
    def mandatory(self) -> int:
        """Mandatory requests that completed."""

    @property
    def optional(self) -> int:
        """Optional requests that completed."""

    @property
    def failed(self) -> int:
        """Requests that failed."""

    @property
    def late(self) -> Optional[float]:
        """How long after the deadline the last mandatory request completed, in seconds; None if it was in time."""

    @property
    def settled(self) -> bool:
        """True if all servers have acknowledged that open requests are cancelled."""

    @property
    def interrupted(self) -> bool:
        """True if it was stopped before its end."""

    @property
    def dir(self) -> Path:
        """The folder with its results."""

@final
class LaunchTask:
    """A task of a launch."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def server(self) -> Optional[str]:
        """Its server, once it is mapped."""

    @property
    def machine(self) -> Optional[str]:
        """Its machine, once it is mapped."""

    @property
    def affinity(self) -> Optional[float]:
        """What its machine had left, as a multiple of what the task needs, when it was mapped."""

    @property
    def address(self) -> Optional[str]:
        """Where it listens, once that is known."""

    @property
    def exit(self) -> Optional[Exit]:
        """How it ended."""

    @property
    def not_spawned(self) -> Optional[str]:
        """Why it was not added to the running launch."""

@final
class Launch:
    """A launch of communicating tasks, as it was when it was asked for."""

    @property
    def id(self) -> str:
        """Its ID, as ``pliant launch list`` lists it."""

    @property
    def key(self) -> str:
        """Its key: the same call with it gives this launch."""

    @property
    def agent(self) -> str:
        """The agent that coordinates it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def owner(self) -> str:
        """Its owner."""

    @property
    def state(self) -> str:
        """``mapping``, ``reserving``, ``running``, ``ending`` or ``over``."""

    @property
    def outcome(self) -> Optional[str]:
        """``completed``, ``mapped``, ``not-mapped``, ``not-reserved``, ``cancelled`` or ``failed``, once it is decided."""

    @property
    def why(self) -> Optional[str]:
        """The outcome with its reason, for people."""

    @property
    def submitted(self) -> int:
        """When it was accepted."""

    @property
    def tasks(self) -> list[LaunchTask]:
        """Its tasks, in the order of the application."""

    @property
    def unacknowledged(self) -> list[str]:
        """Servers that have not acknowledged the decision."""

    @property
    def results(self) -> dict[str, Results]:
        """The results of tasks that were fetched, by the names of tasks."""

    @property
    def is_final(self) -> bool:
        """True if it is over: no task runs any more."""

    @property
    def is_completed(self) -> bool:
        """True if every task ended with exit code 0, or was mapped in a dry run."""

@final
class Task:
    """A call in progress."""

    def wait(self, timeout: Optional[float] = None) -> Any: ...
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, callback: Callable[[], None]) -> None: ...

@final
class Pending:
    """Jobs that are waited for."""

    def next(self) -> Task: ...

@final
class Connection:
    """A user's way into the federation."""

    def __new__(cls, config: Optional[Path] = None) -> Connection: ...
    @property
    def user(self) -> str: ...
    def submit(self, words: list[str]) -> Task: ...
    def estimate(self, words: list[str]) -> Task: ...
    def queue(
        self, states: list[str], all: bool, user: Optional[str], server: Optional[str], most: int
    ) -> Task: ...
    def job(self, job: str) -> Task: ...
    def cancel(self, job: str) -> Task: ...
    def pending(self, jobs: list[str]) -> Pending: ...
    def output(self, job: str, stderr: bool) -> Task: ...
    def fetch(self, job: str, folder: Path) -> Task: ...
    def sweep(
        self,
        words: Optional[list[str]],
        out: Path,
        progress: Optional[Callable[[int, int], None]],
        ended: Optional[Callable[[list[Instance]], None]] = None,
    ) -> Task: ...
    def explore(self, words: list[str], out: Path, progress: Optional[Callable[[int, int], None]]) -> Task: ...
    def launch(
        self, words: list[str], detach: bool, out: Optional[Path], progress: Optional[Callable[[Launch], None]]
    ) -> Task: ...

# What policies see.

@final
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

@final
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

@final
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

@final
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

@final
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
        """Their expected completions on the best other cluster, or on the best of all clusters if they were cancelled."""

    @property
    def best_cluster(self) -> list[Optional[str]]:
        """The names of these clusters; None where no cluster takes the job."""

    @property
    def first(self) -> memoryview[int]:
        """Their earliest expected completions of all."""

    @property
    def second(self) -> memoryview[int]:
        """The second-earliest."""

    @property
    def cluster(self) -> list[str]:
        """The names of the clusters where they wait, or waited."""

@final
class Campaign:
    """A campaign, as read from its file."""

    def __new__(cls, path: PathLike, *, traces: Optional[PathLike] = ...) -> Campaign:
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
        progress: Progress = ...,
    ) -> CampaignRun:
        """Runs what is left of the campaign in a folder, with the results of ``pliant campaign run``.

        threads: the number of runs at a time; by default one for each core.
        shard: ``I/N`` runs part I of N only.
        progress: True shows a bar; a function is called with the numbers of runs that are in the folder and of all runs.

        Ctrl-C ends a campaign of simulations at once, and one of another kind when the present runs have ended. Runs that have ended
        are kept.
        """

    def _run(
        self, out: PathLike, threads: int, shard: str, progress: Optional[Callable[[int, int], None]]
    ) -> dict[str, Any]: ...

@final
class Episode:
    """One sequence of jobs on one cluster, which stops at each pick (`pliant.gym`)."""

    def __new__(
        cls, workload: Workload, procs: int, *, first: int, count: int, window: int, backfill: bool
    ) -> Episode: ...
    @property
    def now(self) -> int:
        """The present time, in seconds on the clock of the workload."""

    @property
    def window(self) -> bytearray:
        """The positions in the workload of the jobs of the window, as 64-bit integers."""

    def advance(self) -> Optional[tuple[bytearray, int]]:
        """Goes on to the next pick: the features of the window as 32-bit floats, and how many jobs are in it. None if all have ended."""

    def step(self, position: int) -> Optional[tuple[bytearray, int]]:
        """Picks the job at a position of the window, then goes on."""

    def run(self) -> Run:
        """The run of the jobs; the episode is over."""

def _panic() -> None: ...
def _panicking_call() -> Task: ...
def _duration_s(text: str) -> int: ...
