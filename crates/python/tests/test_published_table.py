"""The example `published_table.py` gives the figures of the README of deep-batch-scheduler, to the last digit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "published_table.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published_table", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def jobs_of(example: ModuleType, name: str) -> list:
    file, _ = example.LOGS[name]
    path = Path(os.environ.get("PLIANT_TRACES", "/nowhere"), file)
    if not path.exists():
        pytest.skip(f"{file} is not there")
    return example.read(path)


@pytest.mark.parametrize("name", ["SDSC-SP2", "HPC2N"])
@pytest.mark.parametrize("backfill", [False, True], ids=["without backfilling", "with backfilling"])
def test_the_loop_of_that_program_gives_its_figures(example: ModuleType, name: str, backfill: bool) -> None:
    jobs, procs = jobs_of(example, name), example.LOGS[name][1]
    parts = [jobs[first : first + example.COUNT] for first in example.FIRST]
    found = [sum(example.loop(part, procs, rank, backfill) for part in parts) / len(parts) for rank in example.ORDERS.values()]
    assert tuple(round(figure, 2) for figure in found) == example.PUBLISHED[name][backfill]


def test_the_environment_gives_the_same_schedules_without_backfilling(example: ModuleType) -> None:
    """Of jobs that arrive at different instants: the environment shows an agent all that arrive at one."""
    jobs = [example.Job(100 + 7 * number, 1 + number * number % 97, 1 + number % 8, 1 + number * 31 % 101) for number in range(150)]
    for rank in example.ORDERS.values():
        assert example.play(jobs, 8, rank, False) == pytest.approx(example.loop(jobs, 8, rank, False), abs=0)
    assert example.play(jobs, 8, example.sjf, False) > 1.2 * example.play(jobs, 8, example.sjf, True) > 0


def test_lublin_1_is_read_where_its_file_is(example: ModuleType, tmp_path: Path) -> None:
    """The file has no requested times: runtimes are known."""
    lines = (f"{job} {job * 500} -1 {1 + job * 37 % 900} {1 + job % 64} -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n" for job in range(1, 3_100))
    (tmp_path / "lublin_256.swf").write_text("".join(lines))
    assert example.read(tmp_path / "lublin_256.swf")[1] == example.Job(1_000, 75, 3, 75)
    environment = {**os.environ, "PLIANT_TRACES": str(tmp_path)}
    done = subprocess.run([sys.executable, str(EXAMPLE), "1"], env=environment, capture_output=True, text=True, check=True)
    assert "skipped: HPC2N" in done.stdout and "\nLublin-1    " in done.stdout and "another sample" not in done.stdout
    assert "7273.77" in done.stdout and "235.82" in done.stdout


def test_the_environment_agrees_on_a_sequence_of_a_log(example: ModuleType) -> None:
    part = jobs_of(example, "SDSC-SP2")[example.FIRST[0] :][: example.COUNT]
    for rank in example.ORDERS.values():
        assert example.play(part, 128, rank, False) == pytest.approx(example.loop(part, 128, rank, False), rel=0.01)
