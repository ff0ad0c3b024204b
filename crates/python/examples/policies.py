"""FCFS, SJF and EASY as policies of one's own: equal to the built-in ones, job for job."""

import pliant


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
        starts, releases, shadow, extra = [], queue.releases, None, 0
        for position, (procs, walltime) in enumerate(zip(queue.procs, queue.walltime)):
            if procs <= free and (shadow is None or now + walltime <= shadow or procs <= extra):
                extra -= procs if shadow is not None and now + walltime > shadow else 0
                free -= procs
                starts.append(position)
                releases.append((now + walltime, procs))
            elif shadow is None:  # The first job that does not fit must not be delayed.
                shadow, extra = earliest(procs, free, sorted(releases))
        return starts


def earliest(procs: int, free: int, releases: list[tuple[int, int]]) -> tuple[int, int]:
    """When so many processors are free, and how many are left over then."""
    for at, _ in releases:
        then = free + sum(released for end, released in releases if end <= at)
        if then >= procs:
            return at, then - procs
    raise AssertionError("every job fits on the empty cluster")


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
