"""Workloads and simulations."""

from __future__ import annotations

import os
import warnings

from . import _pliant
from ._pliant import Platform, Run, Workload
from .errors import InputError, RefusedJobsWarning
from .policies import BatchPolicy, FunctionOrder, HeuristicRule, MappingRule, QueueOrder, SizingRule
from .progress import reported
from .times import seconds, seconds_or_text

# `typing` and `pathlib` take longer to import than all that a simulation needs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Mapping, Optional, Sequence, Union

    from .policies import Rank
    from .progress import Progress

    Seconds = Union[int, str, timedelta]
    PathLike = Union[str, os.PathLike[str]]
    PlatformLike = Union[Platform, PathLike, Sequence[Mapping[str, Any]]]


def read_workload(
    path: PathLike, *, repair: str = "clean", strict: bool = False, traces: Optional[PathLike] = None
) -> Workload:
    """Reads a workload: a log (.swf, .gwf, Batsim .json, compressed or not) or a workload file (.toml).

    repair: what to do with invalid jobs: drop or repair them (``clean``), or keep them if possible (``keep-bad``).
    strict: raise an error at the first job that would be repaired or dropped.
    traces: the folder of the logs of a workload file; by default that of the environment variable PLIANT_TRACES, or of the file.
    """
    folder = traces if traces is not None else os.environ.get("PLIANT_TRACES")
    folders = [] if folder is None else [folder]
    return _pliant.read_workload(path, repair=repair, strict=strict, log_dirs=folders)


def read_swf(path: PathLike, *, repair: str = "clean", strict: bool = False) -> Workload:
    """Reads a log in the Standard Workload Format, compressed with gzip or not."""
    return read_workload(path, repair=repair, strict=strict)


def generate(
    kind: str,
    *,
    platform: Optional[PlatformLike] = None,
    procs: Optional[int] = None,
    seed: int = 1,
    month: Optional[str] = None,
    jobs: Optional[int] = None,
    days: Optional[float] = None,
    load: Optional[float] = None,
    walltime_max: Optional[Seconds] = None,
) -> Workload:
    """Generates a workload; the same seed gives the same jobs on every machine.

    kind: ``grid5000``, ``pwa-g5k``, ``lublin``, ``uniform``, ``gaussian`` or ``federation``.
    platform, procs: what the jobs are for; by default the generator's own platform, or one cluster of 128 processors.
    month: of ``grid5000``: the month of 2008 whose numbers of jobs are generated, such as ``april``.
    jobs: how many (``lublin``, ``uniform``, ``gaussian``, ``federation``).
    days: over which jobs arrive (``federation``).
    load: the work of the jobs as a share of the platform's capacity.
    walltime_max: the longest requested walltime (``uniform``, ``gaussian``): whole seconds, a text such as ``1h``, or a `timedelta`.
    """
    target = None if platform is None and procs is None else platform_of(platform, procs)
    longest = seconds_or_text("walltime_max", walltime_max)
    given = {"seed": seed, "month": month, "jobs": jobs, "days": days, "load": load, "walltime_max": longest}
    return _pliant.generate(kind, target, given)


def simulate(
    workload: Any,
    *,
    procs: Optional[int] = None,
    platform: Optional[PlatformLike] = None,
    batch: Union[str, BatchPolicy, None] = None,
    order: Union[str, QueueOrder, Rank, None] = None,
    aging: Optional[Seconds] = None,
    priority: Optional[PathLike] = None,
    ties: Optional[str] = None,
    moldable: Optional[str] = None,
    tuner: Union[str, SizingRule, None] = None,
    slack: Optional[float] = None,
    share: Optional[float] = None,
    mapping: Union[str, MappingRule, None] = None,
    realloc: Optional[str] = None,
    heuristic: Union[str, HeuristicRule, None] = None,
    period: Optional[Seconds] = None,
    threshold: Optional[Seconds] = None,
    window: Optional[int] = None,
    plan_by: Optional[str] = None,
    dedicated_share: Optional[float] = None,
    seed: Optional[int] = None,
    progress: Progress = False,
) -> Run:
    """Simulates a workload on one cluster of `procs` processors, or on a platform.

    Options have the names and the meaning of those of ``pliant simulate``, and ``pliant policies`` explains their words. In place of the
    name of a batch policy, an order, a mapping, a tuner or a heuristic there may be one of your own (`pliant.policies`); an order may be
    a function of the time and the queue.

    workload: a `Workload`, or a table with the columns ``submit``, ``procs`` and ``runtime``, and perhaps ``walltime``, ``job``,
        ``user``, ``group``, ``executable`` and ``cluster``: a data frame of polars or pandas, a table of pyarrow, a relation of DuckDB
        (`Workload.of_table`).
    platform: a `Platform`, the name of a built-in one, the path of a platform file (.toml), or the clusters as mappings.
    aging, period, threshold: whole seconds, a text such as ``1h``, or a `timedelta`.
    progress: True shows a bar (of tqdm, where it is installed), and a function is called with the numbers of jobs that have ended
        and of all jobs.

    Raises `InputError` for what is wrong, and warns of jobs that were refused. Ctrl-C ends the simulation.
    """
    options = {
        "batch": batch,
        "order": FunctionOrder(order) if callable(order) and not isinstance(order, type) else order,
        "aging": aging if aging is None or isinstance(aging, str) else f"{seconds('aging', aging)}s",
        "ties": ties,
        "moldable": moldable,
        "tuner": tuner,
        "slack": slack,
        "share": share,
        "mapping": mapping,
        "realloc": realloc,
        "heuristic": heuristic,
        "period": seconds_or_text("period", period),
        "threshold": seconds_or_text("threshold", threshold),
        "window": window,
        "plan_by": plan_by,
        "dedicated_share": dedicated_share,
        "seed": seed,
    }
    own = {option: value for option, value in options.items() if isinstance(value, OWN.get(option, ()))}
    named = {option: value for option, value in options.items() if option not in own}
    for option, kind in OWN.items():
        value = named.get(option)
        if value is not None and not isinstance(value, str):
            hint = f"give an object: {value.__name__}()" if isinstance(value, type) and issubclass(value, kind) else None
            raise InputError(f"{option}: expected a name or an object of {kind.__name__}, found {value!r}", hint)
    jobs = workload if isinstance(workload, Workload) else Workload.of_table(workload)
    where = platform_of(platform, procs)
    custom: dict[str, tuple[object, str]] = {option: (policy, policy_name(policy)) for option, policy in own.items()}
    with reported(progress, "jobs") as report:
        run = _pliant.simulate(jobs, where, named, custom, report.call, priority)
        report.end(len(jobs))
    if len(run.refused) > 0:
        warnings.warn(refusal(run), RefusedJobsWarning, stacklevel=2)
    return run


# The options that take a policy of the user, and its class.
OWN: Mapping[str, type] = {
    "batch": BatchPolicy,
    "order": QueueOrder,
    "mapping": MappingRule,
    "tuner": SizingRule,
    "heuristic": HeuristicRule,
}


def policy_name(policy: object) -> str:
    """What a policy of the user is called in ``summary.json``."""
    rule = policy.rank if isinstance(policy, FunctionOrder) else type(policy)
    return getattr(rule, "__name__", type(rule).__name__)


def refusal(run: Run) -> str:
    """How many jobs of a run were refused for which reason."""
    from collections import Counter

    causes = Counter(run.refused.to_pydict()["cause"])
    reasons = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
    refused = len(run.refused)
    return f"{refused} of {refused + len(run.jobs)} jobs are refused: {reasons}; the results cover the other jobs only"


def platform_of(platform: Optional[PlatformLike], procs: Optional[int]) -> Platform:
    """The platform that these arguments name: exactly one of them is to be given."""
    if (platform is None) == (procs is None):
        raise InputError(f"expected procs or platform, found {'neither' if procs is None else 'both'}")
    if procs is not None:
        return Platform.single(procs)
    if isinstance(platform, Platform):
        return platform
    if isinstance(platform, (str, os.PathLike)):
        word = os.fspath(platform)
        return Platform.read(word) if word.endswith(".toml") else Platform.built_in(word)
    from collections.abc import Iterable, Mapping

    clusters = list(platform) if isinstance(platform, Iterable) else []
    if not clusters or not all(isinstance(cluster, Mapping) for cluster in clusters):
        expected = "a Platform, a name, a path or a list of mappings"
        raise InputError(f"platform: expected {expected}, found {platform!r}")
    return Platform.of_clusters(clusters)
