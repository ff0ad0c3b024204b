"""Wrong arguments, large inputs and odd calls: errors that name what is wrong, and no end of the interpreter."""

import inspect
import json
import pickle
import re
import signal
import subprocess
import sys
import threading
import warnings
from datetime import timedelta
from pathlib import Path

import pandas
import pyarrow
import pytest

import pliant
from pliant import _pliant

PACKAGE = Path(__file__).resolve().parents[1]
JOBS = {"submit": [0, 5, 9], "procs": [2, 4, 1], "runtime": [30, 20, 10]}


def test_a_panic_is_an_exception() -> None:
    with pytest.raises(BaseException, match="asked for") as caught:
        _pliant._panic()
    assert type(caught.value).__name__ == "PanicException"


def test_wheels_are_built_in_a_profile_in_which_panics_unwind(monkeypatch) -> None:
    monkeypatch.delenv("PLIANT_PROFILE", raising=False)
    text = (PACKAGE / "build_backend.py").read_text()
    found = re.search(r'environ.get\("PLIANT_PROFILE", "(\w+)"\)', text)
    assert found is not None
    manifest = (PACKAGE.parents[1] / "Cargo.toml").read_text()
    profile = manifest.split(f"[profile.{found[1]}]\n")[1].split("\n\n")[0]
    assert 'panic = "unwind"' in profile and 'inherits = "release"' in profile


def test_there_is_no_source_distribution(tmp_path: Path) -> None:
    # Maturin is in environments of builds alone.
    script = "import sys, unittest.mock; sys.modules['maturin'] = unittest.mock.Mock(); import build_backend; "
    script += f"build_backend.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode != 0 and "UnsupportedOperation: Pliant has no source distribution" in done.stderr


def test_simulate_has_the_options_of_the_command(command: str) -> None:
    text = subprocess.run([command, "simulate", "--help"], check=True, capture_output=True, text=True).stdout
    theirs = {word.replace("-", "_") for word in re.findall(r"^\s+(?:-\w, )?--([a-z-]+)", text, re.MULTILINE)}
    ours = set(inspect.signature(pliant.simulate).parameters)
    # Options of reading, of writing, and of the command as such.
    elsewhere = set(inspect.signature(pliant.read_workload).parameters) | {"out", "files", "report"} | {"help", "format", "color"}
    assert "priority" in theirs, text
    assert theirs - elsewhere - {"version", "output"} == ours - {"progress"}


def test_priorities_are_those_of_the_command(command: str, tmp_path: Path) -> None:
    log, file = tmp_path / "log.swf", tmp_path / "priority.toml"
    pliant.generate("lublin", procs=128, jobs=400, load=1.1, seed=5).write(log)
    file.write_text("[priority]\nage = 10\nsize = 0\nfair_share = 1000\nhalf_life = \"1d\"\nusers = { 0 = 5 }\n")
    line = ["--procs", "128", "--batch", "easy", "--order", "multifactor", "--priority", file, "--out", tmp_path / "theirs"]
    subprocess.run([command, "simulate", "--workload", log, *line], check=True)
    jobs = pliant.read_swf(log)
    pliant.simulate(jobs, procs=128, batch="easy", order="multifactor", priority=file).write(tmp_path / "ours")
    for name in ("jobs.csv", "summary.json"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    with pytest.raises(pliant.InputError, match="expected a cluster with the order multifactor or fair-share"):
        pliant.simulate(jobs, procs=128, priority=file)
    file.write_text("[priority]\nage = -1\n")
    with pytest.raises(pliant.InputError, match="priority.toml"):
        pliant.simulate(jobs, procs=128, batch="easy", order="multifactor", priority=file)
    with pytest.raises(pliant.FileError, match="none.toml"):
        pliant.simulate(jobs, procs=128, batch="easy", order="multifactor", priority="none.toml")


def test_a_policy_that_simulates_itself_is_a_recursion_error() -> None:
    # A process of its own: it would end.
    code = (
        "import pliant\n"
        "jobs = pliant.generate('lublin', procs=8, jobs=3, seed=1)\n"
        "depth = 0\n"
        "class Own(pliant.BatchPolicy):\n"
        "    def schedule(self, now, queue, free):\n"
        "        global depth; depth += 1\n"
        "        pliant.simulate(jobs, procs=8, batch=self)\n"
        "for _ in range(2):\n"
        "    depth = 0\n"
        "    try: pliant.simulate(jobs, procs=8, batch=Own())\n"
        "    except RecursionError as error: print(depth, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith("16 expected at most 16 simulations inside one another") for line in lines), done.stdout


def test_the_wheel_has_its_licences_and_its_description() -> None:
    from importlib.metadata import metadata

    found = metadata("pliant")
    assert sorted(found.get_all("License-File") or []) == ["LICENSE-APACHE", "LICENSE-MIT"]
    assert "pliant.simulate" in (found.get_payload() or found["Description"])


def test_columns_of_categories_are_read() -> None:
    # It was quadratic in the rows and took minutes, which is the limit of a test here.
    rows = 200_000
    table = pandas.DataFrame({"submit": range(rows), "procs": 1, "runtime": 1})
    names = [f"cluster{number % 5_000}" for number in range(rows)]
    categories = table.assign(cluster=pandas.Categorical(names))
    assert pliant.Workload.of_table(categories).jobs.to_pydict()["cluster"] == names


def test_other_threads_run_while_a_table_is_read() -> None:
    rows = 2_000_000
    table = pyarrow.table({name: pyarrow.array(range(rows), pyarrow.int64()) for name in ("submit", "job")})
    ones = pyarrow.array([1] * rows, pyarrow.int64())
    table = table.append_column("procs", ones).append_column("runtime", ones)
    # With the longest switch interval another thread gets its turn only if the interpreter is let go.
    before = sys.getswitchinterval()
    ran, begun = threading.Event(), threading.Event()

    def run() -> None:
        begun.wait()
        ran.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        sys.setswitchinterval(1_000)
        begun.set()
        pliant.Workload.of_table(table)
        has_run = ran.is_set()
    finally:
        sys.setswitchinterval(before)
        thread.join()
    assert has_run


def test_wrong_types_and_numbers_are_named(workload: pliant.Workload) -> None:
    def check(words: str, **options) -> None:
        with pytest.raises(pliant.InputError, match=words):
            pliant.simulate(workload, **{"procs": 128, **options})

    check("procs: expected a whole number from 1 to 4294967295, found -1", procs=-1)
    check("procs: expected a whole number from 1 to 4294967295, found '8'", procs="8")
    check("procs: .*found 1.5", procs=1.5)
    check("seed: expected a whole number from 0 to 18446744073709551615, found -3", seed=-3)
    check("seed: .*found 10{30}", seed=10**30)
    check("window: expected a whole number .*, found -1", realloc="regular", window=-1)
    check("slack: expected a number, found 'much'", moldable="paper", slack="much")
    check("batch: expected a name or an object of BatchPolicy, found 5", batch=5)
    check("found <class .*\nhint: give an object: Own\\(\\)", batch=type("Own", (pliant.BatchPolicy,), {}))
    check("ties: expected a text, found 5", ties=5)
    check("period: expected a whole number from 1 to 1000000000, found 1.5", realloc="regular", period=1.5)
    check("period: expected a length of time with its unit, .*, found `soon`", realloc="regular", period="soon")
    check("period: expected 1s to .*, found `0s`", realloc="regular", period="0s")
    check("progress: expected True, False or a function, found 'yes'", progress="yes")
    check("aging", batch="easy", order="f1", aging=-5)
    check("aging: expected", batch="easy", order="f1", aging="soon")
    check("platform: expected a Platform, a name, a path or a list of mappings, found 7", procs=None, platform=7)
    check("found \\[1\\]", procs=None, platform=[1])
    for wrong in (-1, 0):
        with pytest.raises(pliant.InputError, match=f"jobs: expected a whole number from 1 to 4294967295, found {wrong}"):
            pliant.generate("lublin", jobs=wrong)
    with pytest.raises(pliant.InputError, match="load: expected a number, found 'high'"):
        pliant.generate("lublin", load="high")  # type: ignore[arg-type]


def test_aging_is_a_text_or_a_time(workload: pliant.Workload) -> None:
    waits = {
        str(aging): pliant.simulate(workload, procs=128, batch="easy", order="wfp3", aging=aging).summary["mean_wait_s"]
        for aging in ("2h", 7200, timedelta(hours=2), "none")
    }
    assert waits["2h"] == waits["7200"] == waits["2:00:00"]


def test_times_are_numbers_texts_or_lengths_of_time() -> None:
    jobs = pliant.generate("federation", platform="grid5000", jobs=300, days=1, load=1.2, seed=4)
    moves = [
        pliant.simulate(jobs, platform="grid5000", realloc="regular", period=period, threshold=threshold).moves.to_pydict()
        for period, threshold in ((1_800, 90), ("30m", "90s"), (timedelta(minutes=30), timedelta(seconds=90)))
    ]
    assert moves[0] == moves[1] == moves[2] and moves[0]["job"]
    longest = [max(pliant.generate("uniform", jobs=50, walltime_max=time).jobs.to_pydict()["walltime"]) for time in (3_600, "1h")]
    assert longest[0] == longest[1] <= 3_600


def test_clusters_have_known_keys() -> None:
    def check(words: str, **cluster) -> None:
        with pytest.raises(pliant.InputError, match=words):
            pliant.Platform.of_clusters([cluster])

    check("expected the keys name, procs, speed, batch, found 'proc'", name="a", proc=4)
    check("cluster: expected the key procs, found none", name="a")
    check("cluster a: procs: expected a whole number from 1 to 4294967295, found 0", name="a", procs=0)
    check("cluster a: speed: expected a number, found 'fast'", name="a", procs=1, speed="fast")
    check("cluster: name: expected a text, found 3", name=3, procs=1)
    check("found `fastest`", name="a", procs=1, batch="fastest")


def test_refused_jobs_are_warned_of() -> None:
    with pytest.warns(pliant.RefusedJobsWarning, match="1 of 3 jobs are refused: 1 larger-than-cluster"):
        pliant.simulate(pyarrow.table(JOBS), procs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pliant.simulate(pyarrow.table(JOBS), procs=4)


def test_nulls_of_optional_columns_are_absent_values() -> None:
    columns = {
        **JOBS,
        "walltime": [None, 40, None],
        "job": [None, 17, None],
        "user": [None, None, 3],
        "group": [1, None, None],
        "executable": [None, None, None],
        "cluster": ["a", None, "b"],
    }
    jobs = pliant.Workload.of_table(pyarrow.table(columns)).jobs.to_pydict()
    assert jobs["walltime"] == [30, 40, 10] and jobs["job"] == [1, 17, 3]
    assert (jobs["user"], jobs["group"]) == ([-1, -1, 3], [1, -1, -1])
    assert jobs["executable"] == [-1, -1, -1] and jobs["cluster"] == ["a", "", "b"]


def test_walltimes_beyond_the_last_time_are_an_error() -> None:
    longest = (2**63 - 1) // 16
    table = {"submit": [0] * 8, "procs": [4] * 8, "runtime": [1] * 8, "walltime": [longest] * 8}
    with pytest.raises(pliant.InputError, match="expected jobs whose walltimes end by .* s one after the other"):
        pliant.simulate(pyarrow.table(table), procs=4)


def test_a_report_that_cannot_be_written_is_a_file_error(tmp_path: Path) -> None:
    run = pliant.simulate(pyarrow.table(JOBS), procs=4)
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    with pytest.raises(pliant.FileError, match="report.html"):
        run.write(tmp_path / "out", report=True)
    run.write(str(tmp_path / "text"), report=True)
    assert (tmp_path / "text" / "report.html").read_text().startswith("<!doctype html>")


def test_workloads_platforms_and_runs_are_pickled(workload: pliant.Workload) -> None:
    def same(thing):
        return pickle.loads(pickle.dumps(thing))

    assert same(workload).jobs.to_pydict() == workload.jobs.to_pydict()
    assert same(workload).repairs == workload.repairs
    platform = pliant.Platform.built_in("grid5000")
    assert same(platform).clusters == platform.clusters
    federation = pliant.generate("federation", platform=platform, jobs=800, days=1, load=1.2, seed=4)
    run = pliant.simulate(federation, platform=platform, realloc="regular")
    assert len(run.moves) > 0
    again = same(run)
    assert again.summary == run.summary and again.name == run.name
    for table in ("jobs", "moves", "refused"):
        assert getattr(again, table).to_pydict() == getattr(run, table).to_pydict()
    assert again.report_html() == run.report_html()
    one = pliant.simulate(workload, platform=same(pliant.Platform.single(128)))
    assert one.jobs.to_pydict() == pliant.simulate(workload, procs=128).jobs.to_pydict()


def test_a_pickle_is_checked_as_a_table_is(workload: pliant.Workload) -> None:
    def changed(thing, change, words: str) -> None:
        restore, (text,) = thing.__reduce__()
        state = json.loads(text)
        change(state)
        with pytest.raises(pliant.InputError, match=words):
            restore(json.dumps(state))

    table = pyarrow.table({**JOBS, "job": [7, 8, 9]})
    jobs = pliant.Workload._restored(json.dumps(json.loads(pliant.Workload.of_table(table).__reduce__()[1][0])))
    assert jobs.jobs.to_pydict()["job"] == [7, 8, 9]

    def of_job(key: str, value: object):
        return lambda state: state[0]["jobs"][1].update({key: value})

    changed(jobs, of_job("procs", 0), "row 1: expected a job number below .* and at least 1 processor, found 8 and 0")
    changed(jobs, of_job("log_id", 2**63), "row 1: expected a job number below")
    changed(jobs, of_job("runtime", 0), "row 1: expected 1 <= runtime <= walltime")
    changed(jobs, of_job("runtime", 99), "row 1: expected 1 <= runtime <= walltime")
    changed(jobs, of_job("walltime", 2**63 - 1), "row 1: expected 1 <= runtime <= walltime")
    changed(jobs, of_job("submit", 10), "row 2: expected a submission from 10")
    changed(jobs, of_job("submit", -(2**63)), "row 1: expected a submission from 0")
    changed(jobs, lambda state: state[0]["partitions"].pop(), "expected 3 partitions, one for each job, found 2")
    platform = pliant.Platform.of_clusters([{"name": "a", "procs": 4}, {"name": "b", "procs": 4}])
    changed(platform, lambda state: state[0]["clusters"][0].update(procs=0), "a")
    changed(platform, lambda state: state[0]["clusters"].clear(), "cluster")
    changed(platform, lambda state: state[0]["clusters"][0].update(batch="luck"), "luck")
    run = pliant.simulate(jobs, platform=platform)
    changed(run, lambda state: state[1]["jobs"][0].update(cluster=2), "expected jobs on 2 clusters, found one on cluster")
    changed(run, lambda state: state[1]["jobs"][0].update(start=-1), "job 7: expected a submission, a start and an end")
    with pytest.raises(pliant.InputError):
        pliant.Workload._restored("no JSON")


def test_tables_are_made_once(workload: pliant.Workload) -> None:
    run = pliant.simulate(workload, procs=128)
    assert run.jobs is run.jobs and run.moves is run.moves and run.refused is run.refused
    assert workload.jobs is workload.jobs
    run.summary["jobs"] = -1
    run.summary["run"].clear()
    assert run.summary["jobs"] == len(workload) and run.summary["run"], "a caller may change what it got"


def test_a_report_is_the_page_of_the_run(workload: pliant.Workload, tmp_path: Path) -> None:
    run = pliant.simulate(workload, procs=128)
    report = run.report()
    assert isinstance(report, pliant.Figure) and report._repr_html_() == run._repr_html_()
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == run.report_html()


def test_figures_are_the_parts_of_the_page(workload: pliant.Workload, tmp_path: Path) -> None:
    run = pliant.simulate(workload, procs=128)
    gantt, utilization = run.gantt(), run.utilization()
    for figure in (gantt, utilization):
        assert figure._repr_html_().startswith('<iframe sandbox="allow-scripts"')
        assert "Pliant.Gantt" in figure.page
    assert "<section><h2>Schedule" in gantt.page and "<section hidden><h2>Utilization" in gantt.page
    assert "<section hidden><h2>Schedule" in utilization.page and "<section><h2>Utilization" in utilization.page
    gantt.write(tmp_path / "gantt.html")
    assert (tmp_path / "gantt.html").read_text() == gantt.page
    with pytest.raises(pliant.FileError, match="nowhere"):
        gantt.write(tmp_path / "nowhere" / "gantt.html")


CAMPAIGN = """
name = "orders"
seeds = [1, 2, 3]

[[workload]]
name = "lublin"
generate = "lublin"
jobs = 200
load = 0.9
procs = 64

[[policy]]
name = "fcfs"
batch = "fcfs"

[[policy]]
name = "easy"
batch = "easy"
"""


def test_campaigns_are_those_of_the_command(command: str, tmp_path: Path, capsys, monkeypatch) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(CAMPAIGN)
    subprocess.run([command, "campaign", "run", file, "--out", tmp_path / "theirs", "--quiet"], check=True)
    calls: list[tuple[int, int]] = []
    campaign = pliant.Campaign(file)
    assert repr(campaign) == f"Campaign({file})"
    done = campaign.run(tmp_path / "ours", threads=2, progress=lambda *counts: calls.append(counts))
    assert (done.name, done.kind, done.simulated, done.kept, done.planned) == ("orders", "simulations", 6, 0, 6)
    assert calls[-1] == (6, 6)
    for name in ("results.json", "results.csv"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    frame = pandas.DataFrame(done.runs)
    assert set(frame["policy"]) == {"fcfs", "easy"} and len(frame) == 6
    assert frame.groupby("policy")["mean_wait_s"].mean()["easy"] < frame.groupby("policy")["mean_wait_s"].mean()["fcfs"]
    assert "orders" in done.report_html() and done._repr_html_().startswith("<iframe")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    again = campaign.run(str(tmp_path / "ours"), progress=True)
    assert (again.simulated, again.kept) == (0, 6)
    assert capsys.readouterr().err.endswith("\r6 of 6 runs\n")
    with pytest.raises(pliant.InputError, match="threads: expected a whole number from 0 to 1024, found -1"):
        campaign.run(tmp_path / "other", threads=-1)
    with pytest.raises(pliant.FileError, match="none.toml"):
        pliant.Campaign("none.toml")

    def fail(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        campaign.run(tmp_path / "failed", progress=fail)


def test_ctrl_c_ends_a_campaign_in_the_middle_of_a_run(tmp_path: Path) -> None:
    # Each run takes much longer than the test waits for its end.
    file = tmp_path / "long.toml"
    file.write_text(CAMPAIGN.replace("jobs = 200", "jobs = 400_000").replace("load = 0.9", "load = 1.2"))
    main = threading.main_thread().ident
    assert main is not None
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        signal.pthread_kill(main, signal.SIGINT)

    timer = threading.Thread(target=interrupt)
    timer.start()
    counts: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        counts.append((done, total))
        if total:
            begun.set()

    campaign = pliant.Campaign(file)
    with pytest.raises(KeyboardInterrupt):
        campaign.run(tmp_path / "out", threads=1, progress=progress)
    timer.join()
    assert counts[-1][1] == 6 and (tmp_path / "out" / "records.jsonl").read_text() == "", "a run was not interrupted"
    file.write_text(CAMPAIGN)
    assert pliant.Campaign(file).run(tmp_path / "out").simulated == 6
