"""The native part of the package."""

from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, TypedDict

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
    def read(path: Path) -> Platform:
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

    def write(self, path: Path) -> None:
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

    def write(self, folder: Path, *, files: Optional[Sequence[str]] = None, report: bool = False) -> None:
        """Writes the files of ``pliant simulate --out`` into a folder: csv, parquet, json and swf, or those in `files`."""

    def report_html(self) -> str:
        """The page of ``pliant report``: one HTML file that needs nothing else."""

    def _repr_html_(self) -> str: ...

def read_workload(path: Path, *, repair: str = ..., strict: bool = ..., log_dirs: Sequence[Path] = ...) -> Workload: ...
def workload_of_table(table: object) -> Workload: ...
def generate(
    kind: str,
    platform: Optional[Platform],
    *,
    seed: int = ...,
    month: Optional[str] = ...,
    jobs: Optional[int] = ...,
    days: Optional[float] = ...,
    load: Optional[float] = ...,
    walltime_max: Optional[int] = ...,
) -> Workload: ...
def simulate(
    workload: Workload,
    platform: Platform,
    options: dict[str, Any],
    progress: Optional[Callable[[int, int], None]] = ...,
) -> Run: ...
