"""Which jobs of Snakemake run as one job of Pliant."""

import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from snakemake_interface_executor_plugins.jobs import JobExecutorInterface


@dataclass
class Ready:
    """A job that is ready to run, with its options for `pliant.Client.submit`."""

    job: JobExecutorInterface
    minutes: int
    options: dict[str, Any]

    @property
    def kind(self) -> Hashable:
        """The same of all jobs that may run in one batch: jobs of one rule with the same options."""
        if self.job.is_group():
            return ("group", self.job.jobid)
        return (self.job.name, self.minutes, tuple(sorted((name, repr(value)) for name, value in self.options.items())))


def batches(ready: Iterable[Ready], most: int, minutes: int) -> Iterator[list[Ready]]:
    """Distributes the jobs of each kind evenly over at most so many batches, and over more of them if a batch would take more minutes."""
    of_kinds: dict[Hashable, list[Ready]] = {}
    for one in ready:
        of_kinds.setdefault(one.kind, []).append(one)
    for jobs in of_kinds.values():
        longest = max(1, minutes // max(1, jobs[0].minutes))
        count = max(min(most, len(jobs)), -(-len(jobs) // longest))
        size, larger = divmod(len(jobs), count)
        left = iter(jobs)
        for index in range(count):
            yield list(itertools.islice(left, size + (index < larger)))
