"""The table in the README of DIR-LAB's deep-batch-scheduler (RLScheduler, Zhang et al., SC 2020), from Python.

The mean bounded slowdown of five orders on ten sequences of 1,024 jobs, without and with backfilling, in two ways. `loop` has the loop of that
program as a batch policy, and gives the published figures. `play` has the orders as agents of the environment `pliant.gym`, in which
learning agents are compared with them; it backfills by EASY's rule. docs/research/orders.md explains the differences.

The logs are in the folder PLIANT_TRACES. One that is not there is skipped; for the synthetic Lublin-1 (data/lublin_256.swf of that program,
which is not part of Pliant) another sample of the same model is taken, whose figures may differ by any factor.

    python published_table.py [SEQUENCES]
"""

import gzip
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple, Optional

import pliant
import pliant.gym

#: That program draws the first jobs of its sequences from the first 10,000 jobs, with seed 1 of its generator.
FIRST = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
COUNT = 1_024


class Job(NamedTuple):
    """A job of a log, as that program reads it."""

    submit: int
    run: int
    procs: int
    request: int


# The heuristics of that program: the lowest rank is next, and ties go by submission. They take the wait from the start of a job that has not
# started, which is -1. So the wait is minus the submission.
def fcfs(job: Job) -> float:
    return job.submit


def sjf(job: Job) -> float:
    return job.request


def f1(job: Job) -> float:
    return log10(job.request) * job.procs + 870 * log10(job.submit)


def log10(value: int) -> float:
    return math.log10(value if value > 0 else 0.1)


def wfp3(job: Job) -> float:
    return -(((-1 - job.submit) / job.request) ** 3) * job.procs


def unicep(job: Job) -> float:
    return -(-1 - job.submit + 1e-15) / (math.log2(job.procs + 1e-15) * job.request)


Rank = Callable[[Job], float]
ORDERS: dict[str, Rank] = {"FCFS": fcfs, "SJF": sjf, "F1": f1, "WFP3": wfp3, "UNICEP": unicep}


def read(path: Path) -> list[Job]:
    """The jobs of a log. One of unknown runtime runs for 10 s, and one that has not run is left out."""
    jobs = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as lines:
        for line in lines:
            if not line.startswith(";"):
                field = [int(float(word)) for word in line.split()]
                run, request = field[3], field[8] if field[8] != -1 else field[3]
                jobs.append(Job(field[1], 10 if run < 0 else run, max(field[4], field[7]), request))
    return [job for job in jobs if job.run > 0]


def lublin() -> list[Job]:
    """Jobs of the model of Lublin-1, whose requests are the runtimes: another sample than that file."""
    columns = pliant.generate("lublin", procs=256, jobs=10_000, seed=1).jobs.to_pydict()
    return [Job(1 + submit, run, procs, run) for submit, run, procs in zip(columns["submit"], columns["runtime"], columns["procs"])]


def workload_of(jobs: list[Job]) -> pliant.Workload:
    """Jobs as a workload. A job that ran for longer than it asked for gets its runtime as its walltime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sequence.swf"
        lines = (
            f"{number} {job.submit} -1 {job.run} {job.procs} -1 -1 {job.procs} {job.request} -1 1 1 1 -1 -1 -1 -1 -1\n"
            for number, job in enumerate(jobs)
        )
        path.write_text("".join(lines))
        workload = pliant.read_swf(path, repair="keep-bad")
    assert len(workload) == len(jobs), "a job was left out"
    return workload


def play(jobs: list[Job], procs: int, rank: Rank, backfill: bool) -> float:
    """The mean bounded slowdown of an agent that picks the waiting job of the lowest rank."""
    ranks = [rank(job) for job in jobs]
    environment = pliant.gym.BatchEnv(workload_of(jobs), procs=procs, jobs=len(jobs), window=len(jobs), backfill=backfill)
    environment.reset(options={"first": 0})
    reward, over = 0.0, False
    while not over:
        waiting = environment.window_jobs.tolist()
        best = min(range(len(waiting)), key=lambda position: ranks[waiting[position]])
        _, reward, over, _, _ = environment.step(best)
    return -reward


class PublishedLoop(pliant.BatchPolicy):
    """The loop of that program: a job is chosen when the one before it has started, and kept until it starts.

    With backfilling, others start meanwhile in order of submission, if their requests end before the start of the chosen job that was expected
    when it was chosen. Processors that the chosen job will not need are not used beyond that start.
    """

    def __init__(self, jobs: list[Job], procs: int, rank: Rank, backfills: bool) -> None:
        self.jobs, self.free, self.backfills = jobs, procs, backfills
        self.ranks = [rank(job) for job in jobs]
        self.waiting: list[int] = []
        self.arrived = 0
        #: When running jobs will have used what they requested.
        self.running: dict[int, int] = {}
        self.chosen: Optional[int] = None
        self.expected = 0

    def on_submit(self, now: int, job: pliant.WaitingJob) -> None:
        self.waiting.append(job.job)
        self.arrived = job.job + 1
        if self.chosen is None:
            self.choose(self.waiting)

    def on_end(self, now: int, job: int) -> None:
        del self.running[job]
        self.free += self.jobs[job].procs

    def choose(self, jobs: list[int]) -> None:
        """Chooses a job, and expects its start by the requests of those that run."""
        self.chosen = min(jobs, key=lambda job: self.ranks[job], default=None)
        if self.chosen is None:
            return
        free, self.expected = self.free, 0
        for job, end in sorted(self.running.items(), key=lambda entry: entry[1]):
            free, self.expected = free + self.jobs[job].procs, end
            if free >= self.jobs[self.chosen].procs:
                return

    def with_arrivals(self, now: int) -> list[int]:
        """The waiting jobs, with those that arrive at this instant: that program has them arrive before other jobs end."""
        arriving, begin = self.arrived, self.jobs[0].submit
        while self.waiting and arriving < len(self.jobs) and self.jobs[arriving].submit - begin == now:
            arriving += 1
        return [*self.waiting, *range(self.arrived, arriving)]

    def start(self, job: int, now: int) -> int:
        self.waiting.remove(job)
        self.running[job] = now + self.jobs[job].request
        self.free -= self.jobs[job].procs
        return job

    def schedule(self, now: int, queue: pliant.Queue, free: int) -> list[int]:
        started = []
        while self.chosen is not None and self.chosen in self.waiting and self.jobs[self.chosen].procs <= self.free:
            started.append(self.start(self.chosen, now))
            self.choose(self.with_arrivals(now))
        if self.backfills and self.chosen is not None:
            for job in list(self.waiting):
                ends_in_time = now + self.jobs[job].request < self.expected
                if job != self.chosen and ends_in_time and self.jobs[job].procs <= self.free:
                    started.append(self.start(job, now))
        positions = {job: position for position, job in enumerate(queue.job)}
        return [positions[job] for job in started]


def loop(jobs: list[Job], procs: int, rank: Rank, backfill: bool) -> float:
    """The mean bounded slowdown of the loop of that program."""
    policy = PublishedLoop(jobs, procs, rank, backfill)
    return float(pliant.simulate(workload_of(jobs), procs=procs, batch=policy).summary["mean_bounded_slowdown"])


#: The figures of the README: for each workload without and with backfilling.
Figures = tuple[float, ...]
PUBLISHED: dict[str, tuple[Figures, Figures]] = {
    "SDSC-SP2": ((1727.54, 2680.55, 1232.06, 3000.88, 1848.45), (1595.12, 2167.84, 1098.22, 1083.12, 548.01)),
    "HPC2N": ((297.18, 157.71, 118.01, 426.99, 609.77), (127.38, 122.04, 71.95, 97.39, 175.12)),
    "Lublin-1": ((7273.77, 277.35, 258.37, 19753.53, 22274.74), (235.82, 73.31, 75.07, 133.87, 307.23)),
}
LOGS = {
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 240),
    "Lublin-1": ("lublin_256.swf", 256),
}


def table(name: str, jobs: list[Job], procs: int, sequences: int, note: str = "") -> None:
    """Prints the figures of a workload: those of the README, of that program's loop, and of the environment."""
    parts = [jobs[first : first + COUNT] for first in FIRST[:sequences]]
    print(f"\n{name + note:<32}" + "".join(f"{order:>10}" for order in ORDERS))
    for backfill, published in zip((False, True), PUBLISHED[name]):
        print("with backfilling" if backfill else "without backfilling")
        rows = {"published": published}
        for row, measure in {"that loop as a batch policy": loop, "pliant.gym": play}.items():
            rows[row] = tuple(sum(measure(part, procs, rank, backfill) for part in parts) / len(parts) for rank in ORDERS.values())
        for row, figures in rows.items():
            print(f"  {row:<30}" + "".join(f"{figure:>10.2f}" for figure in figures))


if __name__ == "__main__":
    sequences = int(sys.argv[1]) if len(sys.argv) > 1 else len(FIRST)
    print(f"mean bounded slowdown, {sequences} sequences of {COUNT} jobs")
    for name, (file, procs) in LOGS.items():
        path = Path(os.environ.get("PLIANT_TRACES", "traces")) / file
        if path.exists():
            table(name, read(path), procs, sequences)
        elif name == "Lublin-1":
            table(name, lublin(), procs, sequences, ", another sample")
        else:
            print(f"skipped: {name} (no {path})")
