"""A graph of Dask, each of whose calls is a job of a running `pliant up`: for calls of minutes and more."""

import sys

import dask
import pliant


@dask.delayed
def part(number):
    import os

    return number, os.environ["PLIANT_JOB"]


@dask.delayed
def total(parts):
    return sum(number for number, _ in parts), sorted({job for _, job in parts})


graph = total([part(number) for number in range(4)])
# The jobs of `pliant up` find no Python of a virtual environment. Elsewhere it is the name of an interpreter on the servers that has dask.
with pliant.Executor(time="5m", python=sys.executable) as executor, dask.config.set(num_workers=50):
    # At most `num_workers` jobs at a time.
    value, jobs = graph.compute(scheduler=executor)
print(value, "of", ", ".join(jobs))
