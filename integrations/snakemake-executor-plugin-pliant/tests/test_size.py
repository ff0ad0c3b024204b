"""How many processors a job has, and each of its tasks."""

from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_common.exceptions import WorkflowError

import snakemake_executor_plugin_pliant as plugin


def job(threads: int, is_group: bool = False, **resources: Any) -> Any:
    return SimpleNamespace(name="solve", threads=threads, resources=resources, is_group=lambda: is_group)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (job(4), {"rigid": 4}),
        # Without tasks a job is one task.
        (job(4, cpus_per_task=2), {"rigid": 2}),
        (job(1, tasks=8), {"rigid": 8}),
        (job(1, mpi="mpiexec", tasks=8, cpus_per_task=4), {"rigid": 32, "cpus_per_task": 4}),
        (job(2, mpi="mpiexec", tasks=3), {"rigid": 6, "cpus_per_task": 2}),
        (job(2, mpi="mpiexec"), {"rigid": 2, "cpus_per_task": 2}),
        (job(6, is_group=True, mpi="mpiexec", tasks=9), {"rigid": 6}),
    ],
)
def test_tasks_have_processors_each(one: Any, expected: dict[str, int]) -> None:
    assert plugin._size(one) == expected


@pytest.mark.parametrize("value", [0, -1, "two", True])
def test_a_wrong_number_is_named(value: Any) -> None:
    with pytest.raises(WorkflowError, match="rule solve: resource cpus_per_task: expected a whole number above 0, found"):
        plugin._size(job(1, tasks=2, cpus_per_task=value))
