"""Figures by matplotlib."""

import pickle
import subprocess
import sys

import pytest

import pliant

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

JOBS = {"submit": [0, 0, 5, 5], "procs": [2, 2, 4, 1], "runtime": [30, 20, 10, 200], "job": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def run() -> pliant.Run:
    pyarrow = pytest.importorskip("pyarrow")
    return pliant.simulate(pyarrow.table(JOBS), procs=4, batch="fcfs")


def test_the_gantt_chart_has_each_job_where_it_ran(run: pliant.Run) -> None:
    axes = run.gantt().plot()
    (bars,) = axes.collections
    jobs = run.jobs.to_pydict()
    boxes = [path.get_extents() for path in bars.get_paths()]
    # One rectangle for each job here: its processors are next to each other.
    found = sorted((box.x0, box.x1, box.height) for box in boxes)
    assert found == sorted(zip(map(float, jobs["start"]), map(float, jobs["end"]), map(float, jobs["procs"])))
    assert axes.get_ylim() == (0, 4) and axes.get_xlim() == (0, max(jobs["end"]))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time, seconds", "processors")
    for index, box in enumerate(boxes):
        for other in boxes[index + 1 :]:
            inside = min(box.x1, other.x1) > max(box.x0, other.x0) and min(box.y1, other.y1) > max(box.y0, other.y0)
            assert not inside, "two jobs on one processor"


def test_utilization_and_queue_are_those_of_the_jobs(run: pliant.Run) -> None:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert run.utilization().plot(axes) is axes
    (shares,) = axes.patches
    values, edges, _ = shares.get_data()
    jobs = run.jobs.to_pydict()
    work = sum((end - start) * procs for start, end, procs in zip(jobs["start"], jobs["end"], jobs["procs"]))
    assert sum(values) / 100 * (edges[1] - edges[0]) * 4 == pytest.approx(work)
    right = next(other for other in axes.figure.axes if other is not axes)
    assert isinstance(right, Axes)
    waits, edges, _ = right.patches[0].get_data()
    assert sum(waits) * (edges[1] - edges[0]) == pytest.approx(sum(start - submit for start, submit in zip(jobs["start"], jobs["submit"])))


def test_clusters_are_above_each_other() -> None:
    clusters = [{"name": "a", "procs": 3}, {"name": "b", "procs": 5}]
    jobs = pliant.generate("federation", platform=pliant.Platform.of_clusters(clusters), jobs=60, days=10, load=0.7, seed=1)
    run = pliant.simulate(jobs, platform=clusters)
    axes = run.gantt().plot()
    assert axes.get_ylim() == (0, 8) and [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    lowest = {"a": 0, "b": 3}
    bars = run._bars().to_pydict()
    for path, cluster in zip(axes.collections[0].get_paths(), bars["cluster"]):
        box = path.get_extents()
        assert lowest[cluster] <= box.y0 < box.y1 <= lowest[cluster] + dict(run._clusters())[cluster]
    assert axes.get_xlabel() == "time, days"
    labels = [text.get_text() for text in run.utilization().plot().get_legend().get_texts()]
    assert labels == ["a", "b"]


def test_charts_are_pickled_with_their_run(run: pliant.Run) -> None:
    chart = pickle.loads(pickle.dumps(run.gantt()))
    assert chart.page == run.gantt().page and len(chart.plot().collections[0].get_paths()) == 4


def test_a_run_without_jobs_is_drawn() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.warns(pliant.RefusedJobsWarning):
        run = pliant.simulate(pyarrow.table(JOBS), procs=3)
    run.gantt().plot()
    with pytest.warns(pliant.RefusedJobsWarning):
        nothing = pliant.simulate(pyarrow.table({"submit": [0], "procs": [9], "runtime": [5]}), procs=3)
    nothing.gantt().plot()
    nothing.utilization().plot()


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import pliant\n"
        "chart = pliant.simulate(pliant.generate('lublin', jobs=5, procs=4), procs=4).gantt()\n"
        "try: chart.plot()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "expected the package matplotlib, found none: pip install matplotlib\n"
