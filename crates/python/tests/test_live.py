"""A client of a federation: every call against daemons that run."""

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from federation import Federation, client, federation, gated, script  # noqa: F401

import pliant
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pliant.words import SUBMIT_OPTIONS


def test_a_service_from_the_estimate_to_its_results(client: pliant.Client, tmp_path: Path) -> None:
    work = {"arguments": {"samples": 1000}}
    estimates = client.estimate("pi", **work)
    assert {offer.server for offer in estimates.offers} == {"bordeaux", "lyon", "toulouse"}
    assert estimates.best == estimates.offers[0]
    completions = [offer.estimate.completion for offer in estimates.offers]
    assert completions == sorted(completions)
    job = client.submit("pi", **work)
    assert (job.name, job.state) in [("pi", state) for state in ("NEW", "QUEUED", "ACTIVE", "COMPLETED")]
    ended = client.wait(job, timeout=60, check=True)
    assert (ended.id, ended.is_completed, ended.exit.code) == (job.id, True, 0)
    assert ended.submitted <= ended.started <= ended.ended
    assert client.logs(job).strip()
    results = client.fetch(job, tmp_path / "out")
    assert "stdout" in {file.name for file in results.files}
    assert (tmp_path / "out" / "stdout").read_text() == client.logs(job)
    assert job.id in {one.id for one in client.queue(ended=True)}
    assert job.id not in {one.id for one in client.queue()}
    assert client.job(job.id) == ended


def test_a_script_with_files_arguments_variables_and_options(client: pliant.Client, tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_text("b\na\n")
    path = script(tmp_path, '#PLIANT --time 2m --job-name sorter\nsort data.txt > sorted.txt; echo "$WORD" "$@"')
    job = client.submit(script=path, rigid=2, inputs={"data.txt": tmp_path / "my.txt"}, env={"WORD": "x y"}, args=["1", "2 3"])
    assert (job.name, job.procs, job.walltime) == ("sorter", 2, 120)
    client.wait(job, timeout=60, check=True)
    assert client.logs(job) == "x y 1 2 3\n"
    client.fetch(job, tmp_path / "out")
    assert (tmp_path / "out" / "work" / "sorted.txt").read_text() == "a\nb\n"


def test_a_script_in_a_shared_folder(client: pliant.Client, tmp_path: Path) -> None:
    client.wait(client.submit(script=script(tmp_path, "pwd > here"), time=60, chdir=tmp_path), timeout=60, check=True)
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)


def test_jobs_come_as_they_end(client: pliant.Client, tmp_path: Path) -> None:
    slow = client.submit(script=gated(tmp_path), time="5m")
    fast = client.submit("pi", arguments={"samples": 10})
    ended = client.as_completed([slow, fast], timeout=60)
    assert next(ended).id == fast.id
    (tmp_path / "open").touch()
    assert [job.id for job in ended] == [slow.id]


def test_jobs_beyond_those_that_are_followed_at_a_time_are_seen(client: pliant.Client, tmp_path: Path) -> None:
    done = client.wait(client.submit("pi", arguments={"samples": 10}), timeout=60)
    path = gated(tmp_path)
    waiting = [client.submit(script=path, time="5m") for _ in range(66)]
    assert next(client.as_completed([*waiting, done], timeout=60)).id == done.id
    cancelled = client.cancel(waiting)
    assert len(cancelled) == 66
    assert {job.state for job in client.wait(waiting, timeout=120)} == {"CANCELED"}


def test_jobs_that_do_not_complete(client: pliant.Client, tmp_path: Path) -> None:
    failing = client.submit(script=script(tmp_path, "echo wrong >&2; exit 3"), time="1m")
    with pytest.raises(pliant.JobFailedError, match="exit code 3") as caught:
        client.wait([failing], timeout=60, check=True)
    assert (caught.value.job.id, caught.value.job.exit.code) == (failing.id, 3)
    assert client.logs(failing, stderr=True) == "wrong\n"
    slow = client.submit(script=gated(tmp_path), time="5m")
    with pytest.raises(pliant.WaitTimeoutError) as timeout:
        client.wait([failing, slow], timeout=0.5)
    assert timeout.value.not_ended == [slow.id] and isinstance(timeout.value, TimeoutError)
    client.cancel(slow)
    assert client.wait(slow, timeout=60).state == "CANCELED"


def test_a_key_gives_the_same_job(client: pliant.Client) -> None:
    first = client.submit("pi", arguments={"samples": 10})
    again = client.submit("pi", arguments={"samples": 10}, key=first.key, server=first.server)
    assert (again.id, again.key) == (first.id, first.key)
    key = "000102030405060708090a0b0c0d0e0f"
    jobs = [client.submit("pi", arguments={"samples": 10}, key=key) for _ in range(2)]
    assert jobs[0].id == jobs[1].id and jobs[0].key == key
    with pytest.raises(pliant.InputError, match="the submission that this key was first used for"):
        client.submit("pi", arguments={"samples": 11}, key=key)


def test_errors_have_types_and_hints(client: pliant.Client, tmp_path: Path) -> None:
    def check(kind: type, words: str, call) -> pliant.PliantError:
        with pytest.raises(kind, match=words) as caught:
            call()
        return caught.value

    path = script(tmp_path, "true")
    check(pliant.NotFoundError, "lyon.99999", lambda: client.job("lyon.99999"))
    check(pliant.NotFoundError, "lyon.99999", lambda: client.wait("lyon.99999", timeout=30))
    check(pliant.InputError, "job ID", lambda: client.cancel("nonsense"))
    refused = check(pliant.RefusedError, "no server accepts", lambda: client.submit("nothing"))
    assert refused.causes and set(refused.causes) == {"not-offered"}
    check(pliant.RefusedError, "no server accepts", lambda: client.submit(script=path, time="1m", rigid=1000))
    error = check(pliant.InputError, "--time: expected a length of time", lambda: client.submit(script=path, time="90"))
    assert error.hint
    check(pliant.InputError, "expected --time", lambda: client.submit(script=path))
    check(pliant.InputError, "expected a service or script", lambda: client.submit())
    check(pliant.FileError, "No such file", lambda: client.submit(script=tmp_path / "none", time="1m"))
    check(pliant.InputError, "array", lambda: client.submit(script=script(tmp_path, "#PLIANT --array 1-3"), time="1m"))
    check(pliant.InputError, "state: expected one of", lambda: client.queue(state="RUNNING"))
    check(pliant.FileError, "cannot read", lambda: pliant.Client(tmp_path / "none.toml"))
    check(pliant.InputError, "script: expected a file", lambda: client.submit(script="-", time="1m"))
    check(TypeError, "nonsense", lambda: client.submit("pi", nonsense=1))
    slow = client.submit(script=script(tmp_path, "true"), time="5m", begin="now+1h")
    waits = check(pliant.NotRunError, "has not started", lambda: client.logs(slow))
    assert waits.job.id == slow.id
    client.cancel(slow)


OPTIONS = ["--time", "--time=1m", "--rigid=2", "--in=", "--env=A=b", "--nodes=3", "--mem=1G", "--gpus=a:1", "--begin=now", "--", "pi", "samples=3"]
WORDS = st.lists(st.sampled_from(OPTIONS) | st.text(max_size=8) | st.text(max_size=8).map("--time={}".format), max_size=5)


@settings(max_examples=int(os.environ.get("PLIANT_EXAMPLES", "2_000")), deadline=None)
@given(WORDS)
def test_any_words_give_estimates_or_an_error(client: pliant.Client, words: list[str]) -> None:
    # A word that is the path of a file of this machine would be read.
    assume(not any("/" in word or word == "-" for word in words))
    try:
        assert client._connection.estimate(words).wait().offers
    except pliant.PliantError as error:
        assert error.problem


ANYTHING = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([2**31, 2**63, 2**70]) | st.floats() | st.text(max_size=4)
ANYTHING |= st.lists(ANYTHING, max_size=3) | st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2)
# Those that name a file of this machine are left out.
NAMES = [name for name in SUBMIT_OPTIONS if name not in ("script", "inputs", "stdin", "chdir")]


@settings(max_examples=int(os.environ.get("PLIANT_EXAMPLES", "500")), deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=3), ANYTHING)
def test_any_options_give_estimates_or_an_error(client: pliant.Client, options: dict, job: object) -> None:
    for call in (lambda: client.estimate("pi", **options), lambda: client.job(job), lambda: client.queue(last=job)):
        try:
            call()
        except (pliant.PliantError, UnicodeEncodeError):
            pass


def test_what_is_no_mapping_or_sequence_is_named(client: pliant.Client, tmp_path: Path) -> None:
    def check(words: str, call) -> None:
        with pytest.raises(pliant.InputError, match=words):
            call()

    path = script(tmp_path, "true")
    check("arguments: expected a mapping, such as a dict, found \\['samples=3'\\]", lambda: client.submit("pi", arguments=["samples=3"]))
    check("env: expected a mapping", lambda: client.submit(script=path, time="1m", env=["A=1"]))
    check("inputs: expected paths, .*found 5", lambda: client.submit(script=path, time="1m", inputs=5))
    check("args: expected a sequence of words, found 5", lambda: client.submit(script=path, time="1m", args=5))
    check("vary: seed: expected .*, found 3", lambda: client.sweep(script=path, time="1m", vary={"seed": 3}, out=tmp_path / "out"))
    check("vary: seed: expected at least one value, found none", lambda: client.sweep(script=path, vary={"seed": []}, out=tmp_path / "out"))
    check("vary: expected a mapping", lambda: client.sweep(script=path, time="1m", vary=["seed=1..3"], out=tmp_path / "out"))
    check("partition: expected a text or several, found 5", lambda: client.submit(script=path, time="1m", partition=5))
    check("expected a service or script, found both", lambda: client.submit("pi", script=path))
    check("job: expected a Job or a job ID like `lyon.17`, found 5", lambda: client.job(5))
    check("jobs: expected a Job, a job ID, or several of them, found None", lambda: client.wait(None))
    check("last: expected a whole number from 0 to 4294967295, found -1", lambda: client.queue(last=-1))


def test_ctrl_c_ends_a_wait_and_other_threads_run_meanwhile(client: pliant.Client, tmp_path: Path) -> None:
    slow = client.submit(script=gated(tmp_path), time="5m")
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        client.wait(slow)
    timer.join()
    assert not client.job(slow).is_final
    (tmp_path / "open").touch()
    client.wait(slow, timeout=60, check=True)


def test_ctrl_c_in_a_submission_has_its_key(federation: Federation, client: pliant.Client, tmp_path: Path) -> None:
    path = script(tmp_path, "true")
    key = "a0" * 16
    # A submission with a key that was used goes to the server that it went to before.
    first = client.submit(script=path, time="1m", server="lyon", key=key)
    daemons = json.loads((federation.folder / "federation.json").read_text())["daemons"]
    lyon = next(daemon["pid"] for daemon in daemons if daemon["name"] == "lyon")
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(1.0, lambda: signal.pthread_kill(main, signal.SIGINT))
    # It takes the request, and does not answer.
    os.kill(lyon, signal.SIGSTOP)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            client.submit(script=path, time="1m", server="lyon", key=key)
    finally:
        os.kill(lyon, signal.SIGCONT)
        timer.join()
    cause = caught.value.__cause__
    assert isinstance(cause, pliant.SubmissionUnknownError), cause
    assert (cause.key, cause.server) == (key, "lyon")
    assert client.submit(script=path, time="1m", server="lyon", key=cause.key).id == first.id


def test_ctrl_c_after_a_job_was_accepted_has_its_id(client: pliant.Client, tmp_path: Path, monkeypatch) -> None:
    class Accepted:
        def wait(self, timeout=None):
            if timeout is None:
                raise KeyboardInterrupt
            return done

        def cancel(self) -> None:
            pass

    class Connection:
        def submit(self, words):
            return Accepted()

    done = client.submit("pi", arguments={"samples": 10})
    monkeypatch.setattr(client, "_connection", Connection())
    with pytest.raises(KeyboardInterrupt) as caught:
        client.submit("pi")
    cause = caught.value.__cause__
    assert isinstance(cause, pliant.SubmissionUnknownError) and done.id in str(cause)
    assert (cause.key, cause.server) == (done.key, done.server)


def test_a_wait_of_no_time_sees_jobs_that_have_ended(federation: Federation, client: pliant.Client, tmp_path: Path) -> None:
    done = client.wait(client.submit("pi", arguments={"samples": 10}), timeout=60)
    assert client.wait(done, timeout=0) == done
    assert client.wait([done, done.id], timeout=0) == [done, done]
    slow = client.submit(script=gated(tmp_path), time="5m")
    with pytest.raises(pliant.WaitTimeoutError) as caught:
        client.wait([slow, done], timeout=0)
    assert (caught.value.ended, caught.value.not_ended) == ([done], [slow.id])
    with pytest.raises(pliant.NotFoundError):
        client.wait("lyon.99999", timeout=0)

    async def the_same() -> None:
        client = pliant.AsyncClient(federation.config)
        assert await client.wait([done, done], timeout=0) == [done, done]
        with pytest.raises(pliant.WaitTimeoutError) as caught:
            await client.wait([slow, done], timeout=0)
        assert (caught.value.ended, caught.value.not_ended) == ([done], [slow.id])

    asyncio.run(the_same())
    client.cancel(slow)


def test_a_call_that_is_cancelled_at_once_ends(client: pliant.Client) -> None:
    for _ in range(300):
        task = client._connection.job("lyon.1")
        task.cancel()
        try:
            task.wait(30)
        except TimeoutError:
            raise AssertionError("the call does not end") from None
        except (RuntimeError, pliant.PliantError):
            pass


def test_records_and_exceptions_are_pickled(client: pliant.Client, tmp_path: Path) -> None:
    failing = client.submit(script=script(tmp_path, "exit 3"), time="1m")
    with pytest.raises(pliant.JobFailedError) as caught:
        client.wait(failing, timeout=60, check=True)
    job = caught.value.job
    again = pickle.loads(pickle.dumps(job))
    assert again == job and again.exit == job.exit and again.expected == job.expected
    assert repr(again) == repr(job) and pickle.loads(pickle.dumps(job.exit)) == job.exit
    errors = [
        caught.value,
        pliant.WaitTimeoutError("late", [job], ["lyon.7"]),
        pliant.SubmissionUnknownError("lost", "with its key", "0f" * 16, "lyon"),
        pliant.RefusedError("no", "ask", ["not-offered"]),
        pliant.NotRunError("no", None, job),
        pliant.FileError("no file", "look"),
        pliant.InputError("wrong"),
    ]
    for error in errors:
        same = pickle.loads(pickle.dumps(error))
        assert type(same) is type(error) and str(same) == str(error) and vars(same) == vars(error)
    kind, (text,) = job.__reduce__()
    with pytest.raises(pliant.InputError, match="expected the state of a job, found \"SLEEPING\""):
        kind(text.replace('"FAILED"', '"SLEEPING"'))
    with pytest.raises(pliant.InputError, match="exit: expected one of"):
        kind(text.replace('"how":"code"', '"how":"luck"'))


def test_the_same_for_asyncio(federation: Federation, tmp_path: Path) -> None:
    async def calls() -> None:
        client = pliant.AsyncClient(federation.config)
        assert client.user == pliant.Client(federation.config).user
        assert (await client.estimate("pi", arguments={"samples": 10})).best is not None
        jobs = await asyncio.gather(*(client.submit("pi", arguments={"samples": 10}) for _ in range(3)))
        ended = await asyncio.gather(*(client.wait(job, timeout=60) for job in jobs))
        assert [job.id for job in ended] == [job.id for job in jobs]
        assert {job.id async for job in client.as_completed(jobs)} == {job.id for job in jobs}
        assert (await client.logs(jobs[0])).strip()
        assert (await client.fetch(jobs[0], tmp_path / "out")).files
        slow = await client.submit(script=gated(tmp_path), time="5m")
        waiting = asyncio.create_task(client.wait(slow))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(pliant.WaitTimeoutError):
            await client.wait(slow, timeout=0.1)
        assert slow.id in {job.id for job in await client.queue()}
        assert (await client.cancel(slow)).id == slow.id
        assert (await client.wait(slow, timeout=60)).state == "CANCELED"
        with pytest.raises(pliant.NotFoundError):
            await client.job("lyon.99999")

    asyncio.run(calls())


def test_a_wait_survives_the_death_of_a_server(federation: Federation, client: pliant.Client, tmp_path: Path) -> None:
    job = client.submit(script=gated(tmp_path), time="5m", server="lyon")
    ended = client.as_completed([job], timeout=120)
    found: list[pliant.Job] = []
    thread = threading.Thread(target=lambda: found.extend(ended))
    thread.start()
    federation.kill("lyon")
    # The job runs on under its supervisor.
    (tmp_path / "open").touch()
    federation.up()
    thread.join()
    assert [(one.id, one.state) for one in found] == [(job.id, "COMPLETED")]


def test_a_fork_is_an_error_and_not_a_wait_for_ever(federation: Federation) -> None:
    code = (
        "import os, sys, pliant\n"
        "client = pliant.Client(sys.argv[1])\n"
        "client.queue()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: client.queue()\n"
        "    except RuntimeError as error: os._exit(7 if 'fork' in str(error) else 1)\n"
        "    os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, federation.config], timeout=60, env=dict(os.environ))
    assert done.returncode == 7


def test_a_sweep_of_a_script(client: pliant.Client, tmp_path: Path, capsys, monkeypatch) -> None:
    path = script(tmp_path, 'echo "$1"; echo odd >&2; [ "$1" != 3 ]')
    seen: list[tuple[int, int]] = []
    options = {"time": "1m", "vary": {"seed": range(1, 6)}, "args": ["{seed}"], "retries": 0, "out": tmp_path / "out"}
    result = client.sweep(script=path, progress=lambda ended, all: seen.append((ended, all)), **options)
    assert (len(result), result.completed, result.failed, result.interrupted) == (5, 4, 1, False)
    assert seen[-1] == (5, 5) and seen == sorted(seen)
    assert [(one.values, one.state, one.output) for one in result] == [
        ([("seed", str(seed))], "failed" if seed == 3 else "completed", f"{seed}\n") for seed in range(1, 6)
    ]
    assert [one.number for one in result[1:4]] == [1, 2, 3] and [one.number for one in result[::-2]] == [4, 2, 0] and result[9:] == []
    assert result[-1].number == 4 and result[2].code == 1 and result[2].error == "odd\n"
    with pytest.raises(IndexError):
        result[5]
    assert (tmp_path / "out" / "results.csv").exists()
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert client.resume_sweep(tmp_path / "out", progress=True).completed == 4
    assert capsys.readouterr().err.endswith("\r5 of 5 instances\n")
    # The same call reads the outcome; another one is refused.
    assert client.sweep(script=path, **options).failed == 1
    with pytest.raises(pliant.InputError):
        client.sweep(script=path, **{**options, "vary": {"seed": [7, 8]}})
    with pytest.raises(pliant.InputError, match="without commas"):
        client.sweep(script=path, **{**options, "vary": {"seed": ["a,b"]}})


def test_an_exception_of_the_progress_ends_a_sweep_which_resumes(client: pliant.Client, tmp_path: Path) -> None:
    options = {"arguments": {"samples": 1000}, "vary": {"seed": range(1, 4)}, "out": tmp_path / "out"}

    def fail(ended: int, all: int) -> None:
        raise KeyError(ended)

    with pytest.raises(KeyError):
        client.sweep("pi", progress=fail, **options)
    assert client.sweep("pi", **options).completed == 3


def test_an_exploration(client: pliant.Client, tmp_path: Path) -> None:
    path = script(tmp_path, 'echo "$1"')
    result = client.explore(script=path, time="1m", vary={"x": range(1, 5)}, args=["{x}"], min=2, deadline=60, out=tmp_path / "out")
    assert (result.mandatory, result.optional, result.failed, result.interrupted) == (2, 2, 0, False)
    assert result.settled and result.late is None


def test_sweeps_and_explorations_for_asyncio(federation: Federation, tmp_path: Path) -> None:
    path = script(tmp_path, 'echo "$1"')
    seen: list[tuple[int, int]] = []

    async def calls() -> None:
        client = pliant.AsyncClient(federation.config)
        options = {"time": "1m", "args": ["{x}"]}
        swept, explored = await asyncio.gather(
            client.sweep(script=path, vary={"x": range(1, 4)}, out=tmp_path / "sweep", progress=lambda *counts: seen.append(counts), **options),
            client.explore(script=path, vary={"x": range(1, 5)}, min=2, deadline=60, out=tmp_path / "exploration", **options),
        )
        assert (swept.completed, swept.failed, [one.output for one in swept]) == (3, 0, ["1\n", "2\n", "3\n"])
        assert seen[-1] == (3, 3)
        assert (explored.mandatory, explored.optional, explored.settled) == (2, 2, True)
        again = await client.resume_sweep(tmp_path / "sweep")
        assert [one.output for one in again] == [one.output for one in swept]
        with pytest.raises(pliant.PliantError, match="none"):
            await client.resume_sweep(tmp_path / "none")

    asyncio.run(calls())


EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples" / "live").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run_and_their_types_hold(example: Path, federation: Federation, tmp_path: Path) -> None:
    mypy = subprocess.run([sys.executable, "-m", "mypy", "--strict", example], cwd=tmp_path, capture_output=True, text=True)
    assert mypy.returncode == 0, mypy.stdout + mypy.stderr
    environment = {**os.environ, "PLIANT_CONFIG": str(federation.config)}
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=200)
    assert done.returncode == 0 and done.stdout, done.stdout + done.stderr
