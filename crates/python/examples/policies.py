"""FCFS, SJF and EASY as policies of one's own: equal to the built-in ones, job for job."""

import pliant

NEVER = 2**61 - 1


class Fcfs(pliant.BatchPolicy):
    def schedule(self, now: int, queue: pliant.Queue, free: int) -> list[int]:
        starts = []
        for position, procs in enumerate(queue.procs):
            if procs > free:
                break
            free -= procs
            starts.append(position)
        return starts


def shortest(now: int, queue: pliant.Queue) -> memoryview:
    return queue.walltime


class Easy(pliant.BatchPolicy):
    def schedule(self, now: int, queue: pliant.Queue, free: int) -> list[int]:
        starts, running, shadow, extra = [], queue.releases, NEVER, 0
        for position, (procs, end) in enumerate(zip(queue.procs, (now + walltime for walltime in queue.walltime))):
            if procs <= free and (end <= shadow or procs <= extra):
                starts.append(position)
                running.append((end, procs))
                free, extra = free - procs, extra - (procs if end > shadow else 0)
            elif shadow == NEVER:  # The first job that does not fit must not be delayed.
                shadow = next(end for end, _ in sorted(running) if free + released(running, end) >= procs)
                extra = free + released(running, shadow) - procs
        return starts


def released(running: list[tuple[int, int]], by: int) -> int:
    return sum(procs for end, procs in running if end <= by)


jobs = pliant.generate("lublin", procs=128, jobs=2_000, load=0.9, seed=1)
for name, own in {
    "fcfs": pliant.simulate(jobs, procs=128, batch=Fcfs()),
    "fcfs/shortest": pliant.simulate(jobs, procs=128, batch="fcfs", order=shortest),
    "easy": pliant.simulate(jobs, procs=128, batch=Easy()),
}.items():
    built_in = pliant.simulate(jobs, procs=128, batch=name)
    same = own.jobs.to_pydict()["start"] == built_in.jobs.to_pydict()["start"]
    assert same, f"{name}: the starts differ from those of the built-in policy"
    print(f"{name:<14} mean wait {own.summary['mean_wait_s']:>8.0f} s, equal to the built-in one")
