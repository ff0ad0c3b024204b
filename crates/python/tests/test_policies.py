"""Policies in Python equal the built-in ones, and what they decide wrongly is an error that names the decision."""

import gc
import itertools
import os
import traceback
import weakref
from pathlib import Path

import numpy
import pytest

import pliant

NEVER = 2**61 - 1


class Fcfs(pliant.BatchPolicy):
    def schedule(self, now, queue, free):
        starts = []
        for position, procs in enumerate(queue.procs):
            if procs > free:
                break
            free -= procs
            starts.append(position)
        return starts


class Easy(pliant.BatchPolicy):
    def schedule(self, now, queue, free):
        starts, releases, shadow, extra = [], queue.releases, None, 0
        for position, (procs, walltime) in enumerate(zip(queue.procs, queue.walltime)):
            if procs <= free and (shadow is None or now + walltime <= shadow or procs <= extra):
                extra -= procs if shadow is not None and now + walltime > shadow else 0
                free -= procs
                starts.append(position)
                releases.append((now + walltime, procs))
            elif shadow is None:
                for shadow, released in sorted(releases):
                    extra += released
                    if free + extra >= procs:
                        break
                extra = free + sum(released for end, released in releases if end <= shadow) - procs
        return starts


def shortest(now, queue):
    return numpy.asarray(queue.walltime)


def wfp3(now, queue):
    wait, walltime, procs = (numpy.asarray(column, float) for column in (queue.wait, queue.walltime, queue.procs))
    return -((wait / walltime) ** 3) * procs


class Earliest(pliant.MappingRule):
    def choose(self, now, job, offers):
        return min(range(len(offers)), key=lambda at: offers.completion[at])


class FirstCompletion(pliant.SizingRule):
    def choose(self, now, sizes, waiting):
        return min(range(len(sizes)), key=lambda at: (sizes.completion[at], sizes.procs[at]))


class MinMin(pliant.HeuristicRule):
    def urgencies(self, now, jobs):
        return -numpy.asarray(jobs.first, float)


class MaxRelGain(pliant.HeuristicRule):
    def urgencies(self, now, jobs):
        assert len(jobs.cluster) == len(jobs) and all(second >= first for first, second in zip(jobs.first, jobs.second))
        none = -1.7976931348623157e308
        for home, other, best in zip(jobs.cluster, jobs.best_cluster, jobs.best):
            assert (other is None) == (best == NEVER) and other != home
        gains = [none if best == NEVER else current - best for current, best in zip(jobs.current, jobs.best)]
        return [gain / procs for gain, procs in zip(gains, jobs.procs)]


def starts(run: pliant.Run) -> dict:
    jobs = run.jobs.to_pydict()
    return {name: jobs[name] for name in ("job", "cluster", "start", "end", "procs", "moves")}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("own", "built_in"),
    [
        ({"batch": Fcfs()}, {"batch": "fcfs"}),
        ({"batch": Easy()}, {"batch": "easy"}),
        ({"batch": "fcfs", "order": shortest}, {"batch": "fcfs", "order": "shortest"}),
        ({"batch": "easy", "order": shortest}, {"batch": "easy", "order": "shortest"}),
        ({"batch": "easy", "order": shortest, "aging": 7200}, {"batch": "easy", "order": "shortest", "aging": "2h"}),
        ({"batch": "easy-sjbf", "order": wfp3}, {"batch": "easy-sjbf", "order": "wfp3"}),
    ],
    ids=lambda options: str(options) if all(isinstance(value, str) for value in options.values()) else "own",
)
def test_own_policies_of_a_cluster_equal_the_built_in_ones(own, built_in, seed: int) -> None:
    jobs = pliant.generate("lublin", procs=128, jobs=1_500, load=1.1, seed=seed)
    ours, theirs = pliant.simulate(jobs, procs=128, **own), pliant.simulate(jobs, procs=128, **built_in)
    assert starts(ours) == starts(theirs)
    assert ours.summary["mean_wait_s"] > 0, "no job waits: nothing is decided"
    assert set(ours.summary["run"]["custom"]) == {name for name in own if not isinstance(own[name], (str, int))}


@pytest.mark.parametrize(
    ("own", "built_in"),
    [
        ({"mapping": Earliest()}, {"mapping": "mct"}),
        ({"batch": Easy()}, {"batch": "easy"}),
        ({"tuner": FirstCompletion(), "moldable": "paper"}, {"tuner": "exhaustive", "moldable": "paper"}),
        ({"realloc": "regular", "heuristic": MinMin()}, {"realloc": "regular", "heuristic": "minmin"}),
        ({"realloc": "all-cancellation", "heuristic": MinMin()}, {"realloc": "all-cancellation", "heuristic": "minmin"}),
        ({"realloc": "regular", "heuristic": MaxRelGain()}, {"realloc": "regular", "heuristic": "maxrelgain"}),
    ],
    ids=["mapping", "batch", "tuner", "minmin", "minmin-all-cancellation", "maxrelgain"],
)
def test_own_policies_of_a_federation_equal_the_built_in_ones(own, built_in) -> None:
    clusters = [{"name": "a", "procs": 32}, {"name": "b", "procs": 24, "speed": 1.5}, {"name": "c", "procs": 16}]
    jobs = pliant.generate("federation", platform=clusters, jobs=500, days=1, load=1.3, seed=5)
    ours, theirs = (pliant.simulate(jobs, platform=clusters, **options) for options in (own, built_in))
    assert starts(ours) == starts(theirs)
    assert ours.summary["reallocations"] == theirs.summary["reallocations"]
    if "heuristic" in own:
        assert ours.summary["reallocations"] > 0, "no job moves: nothing is decided"


def test_own_policies_equal_the_built_in_ones_on_a_real_log() -> None:
    log = Path(os.environ.get("PLIANT_TRACES", "/nowhere")) / "KTH-SP2-1996-2.1-cln.swf.gz"
    if not log.exists():
        pytest.skip(f"{log.name} is not there")
    jobs = pliant.read_swf(log)
    for own, built_in in ({"batch": Easy()}, {"batch": "easy"}), ({"batch": Fcfs()}, {"batch": "fcfs"}):
        assert starts(pliant.simulate(jobs, procs=100, **own)) == starts(pliant.simulate(jobs, procs=100, **built_in))


def test_an_order_is_called_once_for_each_decision_and_not_for_each_job() -> None:
    lengths: list[int] = []

    def order(now, queue):
        lengths.append(len(queue))
        return queue.walltime

    jobs = pliant.generate("lublin", procs=128, jobs=500, load=1.1, seed=2)
    pliant.simulate(jobs, procs=128, batch="easy", order=order)
    # A decision follows a submission or an end.
    assert 0 < len(lengths) <= 2 * len(jobs)
    assert sum(lengths) > 5 * len(lengths), "the queue is short: calls for each job would not be seen"


def test_a_policy_follows_submissions_and_ends() -> None:
    class Following(Fcfs):
        def __init__(self):
            self.events, self.columns = [], []

        def on_submit(self, now, job):
            self.events.append(("submit", now, job.job, job.procs, job.walltime, job.user, job.cluster))

        def on_end(self, now, job):
            self.events.append(("end", now, job))

        def schedule(self, now, queue, free):
            names = ("job", "submit", "procs", "walltime", "wait", "user")
            columns = {name: list(getattr(queue, name)) for name in names}
            assert all(len(column) == len(queue) for column in columns.values())
            self.columns.append((now, free, queue.cluster, queue.capacity, queue.releases, columns))
            with pytest.raises(TypeError):
                queue.procs[0] = 1  # type: ignore[index]
            return super().schedule(now, queue, free)

    policy = Following()
    table = pliant.generate("lublin", procs=8, jobs=3, seed=1).jobs.to_pandas()
    table = table.assign(job=[7, 8, 9], submit=[0, 10, 20], procs=[8, 8, 8], runtime=[30, 30, 30], walltime=[60, 50, 40], user=[1, 2, -1])
    run = pliant.simulate(table[["job", "submit", "procs", "runtime", "walltime", "user"]], procs=8, batch=policy)
    assert run.jobs.to_pydict()["start"] == [0, 30, 60]
    name = run.jobs.to_pydict()["cluster"][0]
    assert policy.events == [
        ("submit", 0, 7, 8, 60, 1, name),
        ("submit", 10, 8, 8, 50, 2, name),
        ("submit", 20, 9, 8, 40, -1, name),
        ("end", 30, 7),
        ("end", 60, 8),
        ("end", 90, 9),
    ]
    # No call while no waiting job fits.
    assert [at for at, *_ in policy.columns] == [0, 30, 60]
    assert policy.columns[1] == (
        30, 8, name, 8, [],
        {"job": [8, 9], "submit": [10, 20], "procs": [8, 8], "walltime": [50, 40], "wait": [20, 10], "user": [2, -1]},
    )  # fmt: skip


def policy_of(decide):
    class Own(pliant.BatchPolicy):
        def schedule(self, now, queue, free):
            return decide(now, queue, free)

    return Own()


def test_impossible_decisions_are_errors_that_name_the_decision() -> None:
    rows = {"job": [70, 71, 72], "submit": [0, 5, 9], "procs": [2, 4, 1], "runtime": [30, 20, 10]}
    import pyarrow

    table = pyarrow.table(rows)

    def check(words: str, **options) -> None:
        with pytest.raises(pliant.PolicyError, match=words):
            pliant.simulate(table, **{"procs": 4, **options})

    everything = policy_of(lambda now, queue, free: range(len(queue)))
    # Job 71 waits until job 72 comes: then 72 fits on the 2 free processors, and 71 does not.
    check("job 71: expected a start of at most 2 free processors at 9 s, found one of 4", batch=everything)
    check("job 70: expected starts of waiting jobs, each once, at 0 s", batch=policy_of(lambda *_: [0, 0]), procs=8)
    check("expected the position of a waiting job from 0 to 0 at 0 s, found 1", batch=policy_of(lambda *_: [1]))
    check("found -1", batch=policy_of(lambda *_: [-1]))
    # A mask is no list of positions, and a number beyond 64 bits is a wrong decision.
    check("expected the position of a waiting job at 0 s, found True\n.*flatnonzero", batch=policy_of(lambda now, queue, free: numpy.asarray(queue.procs) > 0))
    check("the position of a waiting job at 0 s, found False", batch=policy_of(lambda *_: [False]))
    check("expected the position of a waiting job at 0 s, found a number beyond 64 bits", batch=policy_of(lambda *_: [2**80]))
    # What is no decision at all, such as that of a method without `return`.
    check("expected positions of waiting jobs at 0 s, found None\nhint: return a list", batch=policy_of(lambda *_: None))
    check("expected positions of waiting jobs at 0 s, found 7", batch=policy_of(lambda *_: numpy.int64(7)))
    check("expected the position of a waiting job at 0 s, found 'a'", batch=policy_of(lambda *_: ["a"]))
    check("expected the position of a waiting job at 0 s, found 0.5", batch=policy_of(lambda *_: [0.5]))
    # Iterables without an end, which would fill the memory, and those with one that is far.
    check("job 70: expected starts of waiting jobs, each once, at 0 s", batch=policy_of(lambda *_: itertools.repeat(0)), procs=8)
    check("expected the position of a waiting job from 0 to 0 at 0 s, found 1", batch=policy_of(lambda *_: itertools.count()))
    check("expected 1 ranks, one for each job, at 0 s, found 2", batch="easy", order=lambda now, queue: itertools.count())
    check("expected 1 ranks, one for each job, at 0 s, found 1000000000000", batch="easy", order=lambda now, queue: range(10**12))
    check("expected 1 ranks, one for each job, at 0 s, found 0", batch="easy", order=lambda now, queue: iter(()))
    check("expected numbers as ranks at 0 s, found None", batch="easy", order=lambda now, queue: None)
    check("expected numbers as ranks at 0 s, found 'a'", batch="easy", order=lambda now, queue: ["a"])
    check("expected numbers as ranks at 0 s, found a number beyond the range of floats", batch="easy", order=lambda now, queue: [10**400])
    check("expected 1 ranks, one for each job, at 0 s, found 2", batch="easy", order=lambda now, queue: [1, 2])
    check("job 70: expected numbers as ranks at 0 s, found NaN", batch="easy", order=lambda now, queue: [float("nan")])

    class Nowhere(pliant.MappingRule):
        def choose(self, now, job, offers):
            return len(offers)

    check("expected the position of an offer from 0 to 0 at 0 s, found 1", mapping=Nowhere())

    class Beyond(pliant.MappingRule):
        def choose(self, now, job, offers):
            return 2**80

    check("expected the position of an offer at 0 s, found a number beyond 64 bits", mapping=Beyond())

    class Silent(pliant.MappingRule):
        def choose(self, now, job, offers):
            offers.completion[0]

    check("expected the position of an offer at 0 s, found None", mapping=Silent())


def test_jobs_that_a_policy_never_starts_are_an_error_and_not_lost() -> None:
    jobs = pliant.generate("lublin", procs=64, jobs=300, seed=4)
    procs = jobs.jobs.to_pydict()["procs"]
    left = [job for job, size in zip(jobs.jobs.to_pydict()["job"], procs) if size > 8]

    class Small(Fcfs):
        def schedule(self, now, queue, free):
            starts = []
            for position, size in enumerate(queue.procs):
                if size <= min(8, free):
                    free -= size
                    starts.append(position)
            return starts

    with pytest.raises(pliant.PolicyError, match=f"job {left[0]}: expected all jobs to start, found {len(left)} that still wait"):
        pliant.simulate(jobs, procs=64, batch=Small())
    with pytest.warns(pliant.RefusedJobsWarning):
        for own in (Fcfs(), Easy()):
            run = pliant.simulate(jobs, procs=32, batch=own)
            assert len(run.jobs) + len(run.refused) == len(jobs) and len(run.refused) > 0


def test_exceptions_of_policies_come_with_their_own_traceback() -> None:
    jobs = pliant.generate("lublin", procs=64, jobs=200, seed=2)
    calls = []

    def failing(now, queue, free):
        calls.append(now)
        if len(calls) == 3:
            raise KeyError("mine")
        return []

    with pytest.raises(KeyError, match="mine") as caught:
        pliant.simulate(jobs, procs=64, batch=policy_of(failing))
    assert "failing" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert len(calls) == 3, "the simulation ends at once"

    def generated(now, queue, free):
        yield 0
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine") as caught_later:
        pliant.simulate(jobs, procs=64, batch=policy_of(generated))
    assert "generated" in [frame.name for frame in traceback.extract_tb(caught_later.value.__traceback__)]
    with pytest.raises(TypeError, match="positional argument"):
        pliant.simulate(jobs, procs=64, batch=policy_of(lambda now, queue: [0]))
    with pytest.raises(NotImplementedError, match="a batch policy needs the method schedule"):
        pliant.simulate(jobs, procs=64, batch=pliant.BatchPolicy())
    with pytest.raises(KeyboardInterrupt):
        pliant.simulate(jobs, procs=64, batch="easy", order=interrupted)


def interrupted(now, queue):
    raise KeyboardInterrupt


def test_options_that_own_policies_would_ignore_are_errors(workload: pliant.Workload) -> None:
    def check(words: str, **options) -> None:
        with pytest.raises(pliant.InputError, match=words):
            pliant.simulate(workload, procs=128, **options)

    check("expected no order with a batch policy of your own", batch=Fcfs(), order="f1")
    check("expected no order with a batch policy of your own", batch=Fcfs(), order=shortest)
    check("expected no aging with a batch policy of your own", batch=Fcfs(), aging="7d")
    check("expected a batch policy that serves queue orders .*, found `cbf`", order=shortest)
    check("expected moldable with tuner", tuner=FirstCompletion())
    check("expected no slack with a tuner of your own", tuner=FirstCompletion(), moldable="paper", slack=0.5)
    check("expected realloc .* with heuristic", heuristic=MinMin())
    check("batch: expected a name or an object of BatchPolicy, found <class", batch=Fcfs)
    check("mapping: expected a name or an object of MappingRule, found 3", mapping=3)
    with pytest.raises(pliant.InputError, match="found `no-worse`: it tries moves and discards them"):
        pliant.simulate(workload, platform="grid5000", batch=Easy(), realloc="no-worse")


def test_policies_are_let_go_after_a_simulation(workload: pliant.Workload) -> None:
    policy = Fcfs()
    gone = weakref.ref(policy)
    pliant.simulate(workload, procs=128, batch=policy)
    del policy
    gc.collect()
    assert gone() is None


def test_columns_are_taken_by_numpy_without_a_copy(workload: pliant.Workload) -> None:
    def rank(now, queue):
        array = numpy.asarray(queue.procs)
        assert array.dtype == numpy.int64 and numpy.shares_memory(array, numpy.asarray(queue.procs))
        return array

    assert len(pliant.simulate(workload, procs=128, batch="easy", order=rank).jobs) == len(workload)


def test_views_are_shown_with_their_first_values() -> None:
    seen: dict[str, str] = {}

    class Fcfs(pliant.BatchPolicy):
        def on_submit(self, now, job):
            seen["job"] = repr(job)

        def schedule(self, now, queue, free):
            seen["queue"] = repr(queue)
            return [0] if queue.procs[0] <= free else []

    class First(pliant.MappingRule):
        def choose(self, now, job, offers):
            seen["offers"] = repr(offers)
            return 0

    class Smallest(pliant.SizingRule):
        def choose(self, now, sizes, waiting):
            seen["sizes"] = repr(sizes)
            return 0

    class Oldest(pliant.HeuristicRule):
        def urgencies(self, now, jobs):
            seen["jobs"] = repr(jobs)
            return [0] * len(jobs)

    import pyarrow

    table = pyarrow.table({"submit": [0] * 12, "procs": [4] * 12, "runtime": [30] * 12, "walltime": [40] * 12})
    pliant.simulate(table.slice(0, 3), procs=4, batch=Fcfs())
    assert seen == {"job": "WaitingJob(3: submit=0, procs=4, walltime=40)", "queue": "Queue(cluster: 1 jobs, job=[3], procs=[4], walltime=[40])"}
    two = [{"name": "a", "procs": 4}, {"name": "b", "procs": 4}]
    pliant.simulate(table.slice(0, 1), platform=two, mapping=First())
    assert seen["offers"] == "Offers(2, procs=[4, 4], walltime=[40, 40], start=[0, 0])"
    pliant.simulate(table.slice(0, 1), procs=4, moldable="paper", tuner=Smallest())
    assert seen["sizes"].startswith("Sizes(")
    jobs = pliant.generate("lublin", procs=8, jobs=200, load=1.5, seed=3)
    pliant.simulate(jobs, platform=[{"name": "a", "procs": 8}, {"name": "b", "procs": 8}], realloc="all-cancellation", heuristic=Oldest(), period=60)
    assert seen["jobs"].startswith("Candidates(") and ", current=[" in seen["jobs"]
    pliant.simulate(table, procs=4, batch=Fcfs())

    class Long(pliant.QueueOrder):
        def ranks(self, now, queue):
            if len(queue) > 8:
                seen["long"] = repr(queue)
            return queue.submit

    pliant.simulate(table, procs=4, batch="easy", order=Long())
    assert "procs=[4, 4, 4, 4, 4, 4, 4, 4, ...], " in seen["long"]
