"""Every public class can be pickled, or says that it cannot."""

import copy
import inspect
import pickle
from pathlib import Path

import pytest
from federation import client, federation, script  # noqa: F401
from test_launch import application

import pliant
from pliant.frames import GanttChart, UtilizationChart

CAMPAIGN = """
name = "one"
seeds = [1]

[[workload]]
name = "lublin"
generate = "lublin"
jobs = 20
procs = 64

[[policy]]
name = "fcfs"
batch = "fcfs"
"""

NOT_PICKLED = {
    "AsyncClient",
    "Campaign",
    "Candidates",
    "Client",
    "Executor",
    "Offers",
    "Queue",
    "Sizes",
    "WaitingJob",
}
#: Classes of which users make subclasses: functions and objects of the user.
OF_USERS = {"BatchPolicy", "HeuristicRule", "MappingRule", "QueueOrder", "SizingRule"}
OF_SIMULATIONS = {"CampaignRun", "Figure", "Platform", "Run", "Table", "Workload"}
OF_CLIENTS = {
    "Estimate",
    "Estimates",
    "Exit",
    "ExplorationResult",
    "Instance",
    "Job",
    "Launch",
    "LaunchTask",
    "Offer",
    "Refusal",
    "ResultFile",
    "Results",
    "SweepResult",
}


def same(thing):
    """A copy by pickle, with the values of all properties; `copy` uses the same method."""
    again = pickle.loads(pickle.dumps(thing))
    for other in (again, copy.copy(thing)):
        assert type(other) is type(thing) and repr(other) == repr(thing)
        if type(thing).__eq__ is not object.__eq__:
            assert other == thing
    return again


def test_each_public_class_is_in_a_list() -> None:
    public = {name for name in pliant.__all__ if inspect.isclass(getattr(pliant, name))}
    errors = {name for name in public if issubclass(getattr(pliant, name), (Exception, Warning))}
    assert public - errors == NOT_PICKLED | OF_USERS | OF_SIMULATIONS | OF_CLIENTS


def test_results_of_simulations(tmp_path: Path) -> None:
    jobs = pliant.generate("lublin", procs=64, jobs=200, load=0.9)
    run = pliant.simulate(jobs, procs=64)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    done = pliant.Campaign(tmp_path / "campaign.toml").run(tmp_path / "out")
    charts = [run.gantt(), run.utilization()]
    things = [jobs, run, run.jobs, pliant.Platform.single(4), done, *charts]
    assert {type(chart) for chart in charts} == {GanttChart, UtilizationChart} and issubclass(GanttChart, pliant.Figure)
    assert {type(thing).__name__ for thing in things} - {"GanttChart", "UtilizationChart"} == OF_SIMULATIONS - {"Figure"}
    for thing in things:
        same(thing)


def test_tables_keep_their_types_and_nulls() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    jobs = {"submit": [0, 1], "procs": [2, 9], "runtime": [5, 5], "cluster": ["a", None]}
    workload = pliant.Workload.of_table(pyarrow.table(jobs))
    with pytest.warns(pliant.RefusedJobsWarning):
        run = pliant.simulate(workload, platform=[{"name": "a", "procs": 4}, {"name": "b", "procs": 4}])
    for table in (run.jobs, run.moves, run.refused, run._bins(), run._bars(), workload.jobs):
        again = same(table)
        assert pyarrow.table(again) == pyarrow.table(table), table
    restore, (columns, kinds) = run.jobs.__reduce__()
    with pytest.raises(pliant.InputError, match="types of 10 columns, found 9"):
        restore(columns, kinds[1:])
    with pytest.raises(pliant.InputError, match="expected a type of columns, found .luck"):
        restore(columns, ["luck", *kinds[1:]])
    with pytest.raises(pliant.InputError):
        restore({**columns, "end": []}, kinds)


def test_answers_of_a_federation(client: pliant.Client, tmp_path: Path) -> None:
    arguments = {"samples": 10}
    estimates = client.estimate("pi", arguments=arguments)
    refused = client.estimate(script=script(tmp_path, "true"), time="1m", rigid=4)
    assert refused.refusals, "two servers are smaller"
    job = client.wait(client.submit("pi", arguments=arguments), timeout=60)
    results = client.fetch(job, tmp_path / "results")
    sweep = client.sweep("pi", arguments=arguments, vary={"seed": range(1, 4)}, out=tmp_path / "sweep")
    path = script(tmp_path, 'echo "$1"')
    exploration = client.explore(script=path, time="1m", vary={"x": [1, 2]}, args=["{x}"], min=2, deadline=60, out=tmp_path / "exploration")
    launch = client.launch(application(tmp_path, "true", "true"), time="1m", out=tmp_path / "launch")
    things = [estimates, refused, estimates.best, estimates.offers[0].estimate, refused.refusals[0], job, job.exit, results, results.files[0]]
    things += [sweep, sweep[0], exploration, launch, launch.tasks[0]]
    assert {type(thing).__name__ for thing in things} == OF_CLIENTS
    for thing in things:
        same(thing)
    again = same(sweep)
    assert [one.output for one in again] == [one.output for one in sweep] and again.dir == sweep.dir
    kept = pickle.dumps(sweep)
    (tmp_path / "sweep" / "journal.jsonl").unlink()
    with pytest.raises(pliant.FileError):
        pickle.loads(kept)


def test_what_cannot_be_pickled_says_so(federation, client: pliant.Client, tmp_path: Path) -> None:
    def check(thing: object) -> None:
        with pytest.raises(TypeError, match=rf"cannot pickle.*{type(thing).__name__}"):
            pickle.dumps(thing)
        tried.add(type(thing).__name__)

    tried: set = set()
    check(client)
    check(pliant.AsyncClient(federation.config))
    pytest.importorskip("cloudpickle")
    with pliant.Executor(client) as executor:
        check(executor)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    check(pliant.Campaign(tmp_path / "campaign.toml"))

    class Batch(pliant.BatchPolicy):
        def on_submit(self, now, job):
            check(job)

        def schedule(self, now, queue, free):
            check(queue)
            return [0] if queue.procs[0] <= free else []

    class Map(pliant.MappingRule):
        def choose(self, now, job, offers):
            check(offers)
            return 0

    class Size(pliant.SizingRule):
        def choose(self, now, sizes, waiting):
            check(sizes)
            return 0

    class Urgency(pliant.HeuristicRule):
        def urgencies(self, now, jobs):
            check(jobs)
            return [0] * len(jobs)

    jobs = pliant.generate("lublin", procs=8, jobs=30, load=0.2)
    pliant.simulate(jobs, procs=8, batch=Batch())
    pliant.simulate(jobs, procs=8, moldable="paper", tuner=Size())
    platform = pliant.Platform.built_in("grid5000")
    busy = pliant.generate("federation", platform=platform, jobs=800, days=1, load=1.2, seed=4)
    pliant.simulate(busy, platform=platform, mapping=Map(), realloc="regular", heuristic=Urgency())
    assert tried == NOT_PICKLED
