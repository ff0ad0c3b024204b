"""Functions of Parsl on workers that are jobs of a running `pliant up`."""

import os
import sys
from pathlib import Path

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor

from parsl_provider import PliantProvider


@parsl.python_app
def square(number):
    import os

    return number * number, os.environ["PLIANT_JOB"]


# The jobs of `pliant up` find no Python of a virtual environment.
environment = f"export PATH={Path(sys.executable).parent}:$PATH"
provider = PliantProvider(time="10m", procs=2, worker_init=environment)
executor = HighThroughputExecutor(label="federation", address="127.0.0.1", max_workers_per_node=2, provider=provider)

with parsl.load(Config(executors=[executor], run_dir=os.environ.get("PARSL_RUNS", "parsl-runs"))):
    results = [square(number) for number in range(10)]
    values = [result.result() for result in results]
print(sum(value for value, _ in values), "of", ", ".join(sorted({job for _, job in values})))
