"""Policies of your own, for ``pliant.simulate``.

A policy is an object of one of these classes, given in place of a name: ``batch=``, ``order=``, ``mapping=``, ``tuner=`` or
``heuristic=``. It gets the view that the built-in policies have, and its decisions are checked in the same way: one that is impossible
raises `PolicyError`, which names the time, the job and the free processors. An exception of a policy ends the simulation at once and is
raised by ``simulate`` with its own traceback.

Columns of views are read-only ``memoryview`` objects of 64-bit integers: ``numpy.asarray`` takes them without a copy, and everything
works without numpy. Times are whole seconds. What a policy returns may be a list, an array or another iterable.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Union

    from ._pliant import Candidates, Offers, Queue, Sizes, WaitingJob

    Numbers = Iterable[Union[int, float]]
    Rank = Callable[[int, Queue], Numbers]


class BatchPolicy:
    """Decides which waiting jobs of a cluster start. One object serves all clusters of a platform; `Queue.cluster` is which one."""

    def on_submit(self, now: int, job: WaitingJob) -> None:
        """A job has been queued."""

    def on_end(self, now: int, job: int) -> None:
        """The job of that number has ended."""

    def schedule(self, now: int, queue: Queue, free: int) -> Iterable[int]:
        """The positions in `queue` of the jobs that start now, in starting order; `free` processors are free.

        It is called after each submission, end and cancellation, if a waiting job fits. A job that still waits after the last of them
        is a `PolicyError`: a policy that delays a start must start the job at a later event.
        """
        raise NotImplementedError("a batch policy needs the method schedule(now, queue, free)")


class QueueOrder:
    """Decides which waiting job is served first. It is for batch policies that serve orders: easy, easy-sjbf, fcfs and backfill."""

    def ranks(self, now: int, queue: Queue) -> Numbers:
        """The rank of each job of `queue`; the lowest is served first, and ties go by submission.

        The rank of a job must not depend on the other jobs: one that is only estimated is ranked alone.
        """
        raise NotImplementedError("a queue order needs the method ranks(now, queue)")


class MappingRule:
    """Decides which cluster takes an arriving job."""

    def choose(self, now: int, job: WaitingJob, offers: Offers) -> int:
        """The position in `offers` of the cluster that takes `job`. Clusters that cannot run it offer nothing."""
        raise NotImplementedError("a mapping needs the method choose(now, job, offers)")


class SizingRule:
    """Decides how many processors a moldable job gets on a cluster."""

    def choose(self, now: int, sizes: Sizes, waiting: int) -> int:
        """The position in `sizes` of the size that the job gets, if this cluster takes it; `waiting` jobs wait there."""
        raise NotImplementedError("a sizing rule needs the method choose(now, sizes, waiting)")


class HeuristicRule:
    """Decides which waiting job a reallocation cycle considers next."""

    def urgencies(self, now: int, jobs: Candidates) -> Numbers:
        """The urgency of each of `jobs`; the highest is considered next, and ties go to the oldest."""
        raise NotImplementedError("a heuristic needs the method urgencies(now, jobs)")


class FunctionOrder(QueueOrder):
    """The queue order of a function of the time and the queue."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank

    def ranks(self, now: int, queue: Queue) -> Numbers:
        return self.rank(now, queue)
