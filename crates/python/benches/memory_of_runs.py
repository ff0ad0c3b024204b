"""Memory of the process over many simulations of a log: python memory_of_runs.py LOG PROCS [RUNS]. Each run has its jobs as a table and its
metrics. The resident memory is printed after the first run and after each tenth of all."""

import os
import sys

import pliant


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


log, procs = sys.argv[1:3]
runs = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000
jobs = pliant.read_swf(log)
for number in range(1, runs + 1):
    run = pliant.simulate(jobs, procs=int(procs), batch="easy")
    run.jobs.__arrow_c_stream__()
    run.summary
    if number == 1 or number % max(1, runs // 10) == 0:
        print(f"{number:>6} runs: {resident_mb():.1f} MB")
