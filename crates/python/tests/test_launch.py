"""Launches of communicating tasks against daemons that run."""

import asyncio
import pickle
import signal
import threading
from pathlib import Path

import pytest
from federation import Federation, client, federation  # noqa: F401

import pliant


def application(folder: Path, source: str, sink: str) -> Path:
    """An application of two tasks that communicate."""
    for name, lines in (("source", source), ("sink", sink)):
        (folder / f"{name}.sh").write_text(f"#!/bin/sh\n{lines}\n")
    (folder / "data.txt").write_text("of the source\n")
    path = folder / "pair.toml"
    path.write_text(
        """
mcr_mflops = 1

[[task]]
name = "source"
rcr = 1.0
script = "source.sh"
input = ["data.txt"]

[[task]]
name = "sink"
rcr = 2.0
script = "sink.sh"
arguments = ["x", 3]

[[edge]]
between = ["source", "sink"]
rqoc = 1.0
"""
    )
    return path


def gated(folder: Path) -> Path:
    """An application that ends once the file `open` is in the folder."""
    wait = f"while [ ! -e '{folder}/open' ]; do sleep 0.05; done"
    return application(folder, wait, wait)


def test_an_application_runs_and_its_results_are_fetched(client: pliant.Client, tmp_path: Path) -> None:
    path = application(tmp_path, "cat data.txt > copy.txt", 'echo "$@"; [ -n "$PLIANT_PEERS" ] || exit 9')
    seen: list[str] = []
    launch = client.launch(path, time="1m", out=tmp_path / "out", progress=lambda launch: seen.append(launch.state))
    assert (launch.name, launch.state, launch.outcome, launch.is_completed, launch.is_final) == ("pair", "over", "completed", True, True)
    assert launch.id == f"{launch.agent}/{launch.key}" and launch.owner == client.user
    assert [(task.name, task.exit.code if task.exit else None) for task in launch.tasks] == [("source", 0), ("sink", 0)]
    assert all(task.server and task.machine and task.address and task.affinity and task.affinity >= 1 for task in launch.tasks)
    assert (tmp_path / "out" / "source" / "work" / "copy.txt").read_text() == "of the source\n"
    assert (tmp_path / "out" / "sink" / "stdout").read_text() == "x 3\n"
    assert {file.name for file in launch.results["source"].files} >= {"stdout", "work/copy.txt"}
    assert seen[-1] == "over" and len(seen) == len(set(seen)), "each state is reported once"
    again = pickle.loads(pickle.dumps(launch))
    assert again == launch and again.tasks == launch.tasks and again.results == launch.results and repr(again) == repr(launch)


def test_a_dry_run_maps_tasks_and_runs_nothing(client: pliant.Client, tmp_path: Path) -> None:
    path = application(tmp_path, f"touch '{tmp_path}/ran'", "true")
    launch = client.launch(path, dry_run=True, from_="lyon", mapper="refined", similarity=0.4, name="trial", check=True)
    assert (launch.name, launch.outcome, launch.results) == ("trial", "mapped", {})
    assert all(task.machine for task in launch.tasks) and not (tmp_path / "ran").exists()


def test_a_launch_that_fails_is_a_record_or_an_error(client: pliant.Client, tmp_path: Path) -> None:
    path = application(tmp_path, "exit 4", "sleep 600")
    launch = client.launch(path, time="2m", out=tmp_path / "out")
    assert (launch.outcome, launch.is_completed) == ("failed", False)
    codes = {task.name: task.exit and task.exit.code for task in launch.tasks}
    assert codes["source"] == 4
    with pytest.raises(pliant.LaunchFailedError, match="source") as caught:
        client.launch(path, time="2m", check=True)
    assert caught.value.launch.outcome == "failed"
    same = pickle.loads(pickle.dumps(caught.value))
    assert str(same) == str(caught.value) and same.launch == caught.value.launch


def test_the_same_key_gives_a_launch_that_was_detached(client: pliant.Client, tmp_path: Path) -> None:
    path, key = gated(tmp_path), "0b" * 16
    begun = client.launch(path, time="5m", detach=True, key=key)
    assert begun.key == key and not begun.is_final
    (tmp_path / "open").touch()
    ended = client.launch(path, time="5m", key=key, check=True)
    assert (ended.id, ended.outcome) == (begun.id, "completed")


def test_ctrl_c_ends_a_launch(federation: Federation, client: pliant.Client, tmp_path: Path) -> None:
    path, key = gated(tmp_path), "0c" * 16
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(launch: pliant.Launch) -> None:
        if launch.state == "running":
            signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        client.launch(path, time="5m", key=key, progress=interrupt)
    # The call has waited for the end.
    assert client.launch(path, time="5m", key=key).outcome == "cancelled"


def test_an_exception_of_the_progress_ends_a_launch(client: pliant.Client, tmp_path: Path) -> None:
    path, key = gated(tmp_path), "0d" * 16

    def fail(launch: pliant.Launch) -> None:
        raise KeyError(launch.state)

    with pytest.raises(KeyError):
        client.launch(path, time="5m", key=key, progress=fail)
    assert client.launch(path, time="5m", key=key).outcome == "cancelled"


def test_the_same_for_asyncio(federation: Federation, tmp_path: Path) -> None:
    async def calls() -> None:
        client = pliant.AsyncClient(federation.config)
        path = application(tmp_path, "true", "true")
        assert (await client.launch(path, time="1m", check=True)).is_completed
        running = asyncio.Event()
        loop = asyncio.get_running_loop()
        path, key = gated(tmp_path), "0e" * 16

        def notify(launch: pliant.Launch) -> None:
            if launch.state == "running":
                loop.call_soon_threadsafe(running.set)

        waiting = asyncio.create_task(client.launch(path, time="5m", key=key, progress=notify))
        await running.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await client.launch(path, time="5m", key=key)).outcome == "cancelled"

    asyncio.run(calls())


def test_what_is_wrong_is_named(client: pliant.Client, tmp_path: Path) -> None:
    def check(kind: type, words: str, path: Path, **options) -> None:
        with pytest.raises(kind, match=words):
            client.launch(path, **options)

    path = application(tmp_path, "true", "true")
    check(pliant.FileError, "none.toml", tmp_path / "none.toml")
    check(pliant.InputError, "--time: expected a length of time", path, time="soon")
    check(pliant.InputError, "--similarity", path, similarity=2)
    check(pliant.InputError, "--mapper", path, mapper="luck")
    check(pliant.InputError, "--reservation-timeout: expected 1 s to 86400 s, found 172800 s", path, reservation_timeout="2d")
    check(TypeError, "unexpected option 'nodes'", path, nodes=3)
    check(pliant.InputError, "out: expected a launch that is waited for", path, out=tmp_path / "out", detach=True)
    check(pliant.InputError, "out: expected a folder, found the file", path, out=path)
    path.write_text(path.read_text().replace('script = "sink.sh"', 'script = "absent.sh"'))
    check(pliant.FileError, "absent.sh", path)
    path.write_text("mcr_mflops = 1\n[[task]]\nname = 3\n")
    check(pliant.InputError, "pair.toml:3", path)
