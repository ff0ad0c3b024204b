"""Simulations equal those of the command, and errors name what is wrong."""

import filecmp
import json
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pliant
import pytest

OPTIONS = [
    ({"procs": 128, "batch": "cbf"}, "--procs 128 --batch cbf"),
    ({"procs": 128, "batch": "easy", "order": "f1", "aging": "24h"}, "--procs 128 --batch easy --order f1 --aging 24h"),
    ({"procs": 128, "moldable": "paper", "slack": 0.4, "seed": 3}, "--procs 128 --moldable paper --slack 0.4 --seed 3"),
    (
        {"platform": "grid5000", "realloc": "regular", "heuristic": "minmin", "period": timedelta(hours=2), "window": 5},
        "--platform grid5000 --realloc regular --heuristic minmin --period 2h --window 5",
    ),
    ({"procs": 64, "plan_by": "predictions", "ties": "submit-first"}, "--procs 64 --plan-by predictions --ties submit-first"),
]


@pytest.mark.parametrize(("options", "line"), OPTIONS)
def test_results_equal_those_of_the_command(options, line, command, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    pliant.generate("lublin", procs=128, jobs=500, load=0.9, seed=5).write(log)
    subprocess.run([command, "simulate", "--workload", log, *line.split(), "--out", tmp_path / "theirs", "--report"], check=True)
    pliant.simulate(pliant.read_swf(log), **options).write(tmp_path / "ours", report=True)
    theirs = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert theirs == ["jobs.csv", "jobs.parquet", "moves.csv", "refused.csv", "report.html", "schedule.swf", "summary.json"]
    equal, *others = filecmp.cmpfiles(tmp_path / "theirs", tmp_path / "ours", theirs, shallow=False)
    assert (sorted(equal), others) == (theirs, [[], []])


#: With what else each kind of policy decides.
WITH = {
    "batch": {},
    "order": {"batch": "easy"},
    "mapping": {},
    "moldable": {},
    "tuner": {"moldable": "paper"},
    "realloc": {"mapping": "random"},
    "heuristic": {"mapping": "random", "realloc": "regular"},
}


def test_every_policy_of_the_command_gives_the_same_schedule(command: str, tmp_path: Path) -> None:
    log, platform = tmp_path / "log.swf", tmp_path / "two.toml"
    platform.write_text('[[cluster]]\nname = "a"\nprocs = 32\n[[cluster]]\nname = "b"\nprocs = 24\nspeed = 1.5\n')
    pliant.generate("federation", platform=platform, jobs=300, days=1, load=1.3, seed=5).write(log)
    jobs = pliant.read_swf(log)
    text = subprocess.run([command, "policies", "--format", "json"], check=True, capture_output=True, text=True).stdout
    kinds = {kind: [one["name"] for one in policies] for kind, policies in json.loads(text).items() if kind != "schema"}
    assert set(kinds) == set(WITH)
    schedules = set()
    for kind, names in kinds.items():
        for name in names:
            options = {**WITH[kind], kind: name}
            theirs, ours = (tmp_path / side / f"{kind}-{name}" for side in ("theirs", "ours"))
            words = [word for option, value in options.items() for word in (f"--{option}", value)]
            line = [command, "simulate", "--workload", log, "--platform", platform, *words, "--out", theirs, "--files", "csv,json"]
            subprocess.run(line, check=True, capture_output=True)
            pliant.simulate(jobs, platform=platform, **options).write(ours, files=["csv", "json"])
            for file in ("jobs.csv", "moves.csv", "summary.json"):
                assert (ours / file).read_bytes() == (theirs / file).read_bytes(), f"{kind} {name}: {file}"
            schedules.add((ours / "jobs.csv").read_bytes())
    assert len(schedules) > 20, "the options change nothing"


def test_platforms(tmp_path: Path) -> None:
    clusters = [{"name": "lyon", "procs": 64, "speed": 1.5}, {"name": "paris", "procs": 32, "batch": "easy"}]
    platform = pliant.Platform.of_clusters(clusters)
    assert platform.clusters[0] == {"name": "lyon", "procs": 64, "speed": 1.5, "batch": "cbf"}
    assert (platform.clusters[1]["speed"], platform.total_procs) == (1.0, 96)
    file = tmp_path / "two.toml"
    file.write_text('[[cluster]]\nname = "lyon"\nprocs = 64\nspeed = 1.5\n[[cluster]]\nname = "paris"\nprocs = 32\nbatch = "easy"\n')
    assert pliant.Platform.read(file).clusters == platform.clusters
    jobs = pliant.generate("federation", platform=platform, jobs=300, seed=2)
    by_table = pliant.simulate(jobs, platform=clusters).jobs.to_pydict()
    assert by_table == pliant.simulate(jobs, platform=file).jobs.to_pydict()
    assert set(by_table["cluster"]) == {"lyon", "paris"}


def test_refused_jobs_and_moves() -> None:
    jobs = pliant.generate("federation", platform="grid5000", jobs=2_000, days=3, load=1.2, seed=4)
    run = pliant.simulate(jobs, platform="grid5000", realloc="regular", mapping="random")
    moves = run.moves.to_pydict()
    assert len(run.moves) == run.summary["reallocations"] > 0
    assert all(before - after > 60 for before, after in zip(moves["ect_before"], moves["ect_after"]))
    refused = pliant.simulate(jobs, procs=16).refused.to_pydict()
    assert set(refused["cause"]) == {"larger-than-cluster"}
    assert all(requested > 16 == available for requested, available in zip(refused["requested"], refused["available"]))


def test_wrong_options_are_named(workload: pliant.Workload) -> None:
    def check(words: str, **options) -> None:
        with pytest.raises(pliant.InputError, match=words):
            pliant.simulate(workload, **options)

    check("expected procs or platform, found neither")
    check("expected procs or platform, found both", procs=1, platform="grid5000")
    check("expected a batch policy .*, found `none`", procs=64, batch="none")
    check("expected moldable with tuner, found none", procs=64, tuner="slack")
    check("expected realloc .* with period, found none", procs=64, period=3600)
    check("tuner: expected a tuner", procs=64, moldable="paper", tuner="greed")
    check("period: expected a whole number from", procs=64, realloc="regular", period=-1)
    check("expected a whole number of seconds", procs=64, realloc="regular", period=timedelta(milliseconds=1))
    check("dedicated_share: expected a share above 0", procs=64, dedicated_share=float("nan"))
    check("expected one of grid5000", platform="grid")
    check("found 0", procs=0)
    check("speed", platform=[{"name": "a", "procs": 1, "speed": -1.0}])
    with pytest.raises(TypeError):
        pliant.simulate(workload, procs=64, no_such_option=1)  # type: ignore[call-arg]
    with pytest.raises(pliant.FileError, match="No such file") as caught:
        pliant.read_swf("none.swf")
    assert isinstance(caught.value, OSError)
    with pytest.raises(pliant.FileError, match="none.toml.*No such file"):
        pliant.simulate(workload, platform="none.toml")
    with pytest.raises(pliant.InputError, match="`load`"):
        pliant.generate("lublin", jobs=10, load=-1.0)


def test_an_exception_of_the_progress_ends_the_simulation() -> None:
    workload = pliant.generate("lublin", procs=128, jobs=100_000, load=1.2, seed=7)
    calls: list[tuple[int, int]] = []
    run = pliant.simulate(workload, procs=128, progress=lambda done, total: calls.append((done, total)))
    assert calls and calls == sorted(calls) and {total for _, total in calls} == {100_000}
    assert len(run.jobs) == 100_000
    # The last report is that of the end, also of a simulation that is over at once.
    assert calls[-1] == (100_000, 100_000) and calls.count(calls[-1]) == 1
    pliant.simulate(pliant.generate("lublin", procs=8, jobs=5), procs=8, progress=lambda *counts: calls.append(counts))
    assert calls[-1] == (5, 5)

    def fail(done: int, total: int) -> None:
        raise KeyError(done, total)

    with pytest.raises(KeyError):
        pliant.simulate(workload, procs=128, progress=fail)


def test_ctrl_c_ends_a_simulation_and_other_threads_run_meanwhile() -> None:
    jobs = pliant.generate("lublin", procs=128, jobs=100_000, load=1.2, seed=1)
    main = threading.main_thread().ident
    assert main is not None
    # A timer runs in another thread, while the simulation has released the interpreter.
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        pliant.simulate(jobs, procs=128, batch="cbf")
    timer.join()


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_progress_is_a_bar_on_standard_error(workload: pliant.Workload, has_tqdm: bool, capsys, monkeypatch) -> None:
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    pliant.simulate(workload, procs=128, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.rstrip().splitlines()[-1].split("\r")[-1]
    assert ("2000/2000" in last) if has_tqdm else (last == "2,000 of 2,000 jobs")
    pliant.simulate(workload, procs=128, progress=False)
    assert capsys.readouterr().err == ""


def test_the_frame_of_a_chart_is_as_high_as_its_clusters_need() -> None:
    def heights(clusters: int) -> tuple[int, int]:
        platform = pliant.Platform.of_clusters([{"name": f"c{number}", "procs": 8} for number in range(clusters)])
        run = pliant.simulate(pliant.generate("lublin", procs=8, jobs=20), platform=platform)
        for figure in (run.gantt(), run.utilization()):
            assert f"height:{figure.height}px" in figure._repr_html_()
        return run.gantt().height, run.utilization().height

    assert heights(1) < heights(3) < heights(30) == (1_200, 1_200)
