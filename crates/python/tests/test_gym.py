"""The environment is one of Gymnasium, and agents by simple rules get the schedules of the built-in policies."""

import os
import subprocess
import sys
import warnings

import numpy
import pytest
from gymnasium.utils.env_checker import check_env

import pliant
import pliant.gym
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = pliant.generate("lublin", procs=8, jobs=30, load=0.9, seed=3)


def play(environment: pliant.gym.BatchEnv, pick, **reset) -> tuple[float, int]:
    observation, info = environment.reset(**reset)
    steps, over = 0, False
    while not over:
        window = observation.reshape(-1, pliant.gym.FEATURES)[: info["waiting"]]
        observation, reward, over, truncated, info = environment.step(pick(window))
        assert not truncated
        steps += 1
    return reward, steps


def test_it_is_an_environment_of_gymnasium(workload: pliant.Workload) -> None:
    environment = pliant.gym.BatchEnv(workload, procs=128, jobs=40, window=16)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*render.*|.*spec.*")
        check_env(environment, skip_render_check=True)
    assert environment.reset(seed=3)[1] == environment.reset(seed=3)[1]


@pytest.mark.parametrize(("backfill", "batch"), [(False, "fcfs"), (True, "easy")])
def test_an_agent_that_picks_the_oldest_job_is_a_built_in_policy(workload, backfill: bool, batch: str) -> None:
    environment = pliant.gym.BatchEnv(workload, procs=128, jobs=len(workload), backfill=backfill)
    reward, steps = play(environment, lambda window: 0)
    expected = pliant.simulate(workload, procs=128, batch=batch)
    assert environment.run is not None
    assert environment.run.jobs.to_pydict()["start"] == expected.jobs.to_pydict()["start"]
    assert reward == -expected.summary["mean_bounded_slowdown"]
    assert steps == len(workload) if not backfill else 0 < steps < len(workload)


def test_a_table_is_a_workload(workload: pliant.Workload) -> None:
    runs = []
    for jobs in (workload, workload.jobs.to_pandas()):
        environment = pliant.gym.BatchEnv(jobs, procs=128, jobs=50)
        play(environment, lambda window: len(window) - 1, options={"first": 30})
        assert environment.run is not None
        runs.append(environment.run.jobs.to_pydict())
    assert runs[0] == runs[1]


def test_observations_show_the_oldest_waiting_jobs(workload: pliant.Workload) -> None:
    environment = pliant.gym.BatchEnv(workload, procs=128, jobs=200, window=8)
    observation, info = environment.reset(options={"first": 30})
    assert info["first"] == 30 and info["waiting"] == 1
    jobs = {name: values[30:230] for name, values in workload.jobs.to_pydict().items()}
    rows = observation.reshape(8, 8)
    assert rows[0][0] == 0 and rows[0][7] > 0.9, "it has not waited, and the cluster is empty"
    assert rows[0][1] == pytest.approx(jobs["walltime"][0] / max(jobs["walltime"]), abs=2e-5)
    assert rows[0][2] == pytest.approx(jobs["procs"][0] / 128, abs=2e-5)
    assert (rows[1:] == numpy.array([0, 1, 1, 1, 1, 1, 1, 0])).all()
    assert list(environment.action_masks()) == [True] + [False] * 7
    most = 0
    while environment.run is None:
        observation, _, _, _, info = environment.step(7)
        most = max(most, info["waiting"])
        assert ((0 <= observation) & (observation <= 1)).all()
    assert most == 8


@pytest.mark.parametrize("backfill", [False, True])
def test_an_agent_can_look_up_the_jobs_of_its_window(workload: pliant.Workload, backfill: bool) -> None:
    environment = pliant.gym.BatchEnv(workload, procs=128, jobs=200, window=200, backfill=backfill)
    with pytest.raises(pliant.InputError, match="call reset"):
        environment.window_jobs
    columns = workload.jobs.to_pydict()
    submit, procs, walltime = (numpy.array(columns[name]) for name in ("submit", "procs", "walltime"))
    observation, info = environment.reset(options={"first": 30})
    picked, now = [], submit[30]
    while environment.run is None:
        jobs = environment.window_jobs
        assert len(jobs) == info["waiting"] and (numpy.diff(jobs) > 0).all() and now <= environment.now
        now = environment.now
        window = observation.reshape(-1, pliant.gym.FEATURES)[: len(jobs)]
        assert window[:, 2] == pytest.approx(procs[jobs] / 128, abs=2e-5)
        assert window[:, 1] == pytest.approx(walltime[jobs] / max(walltime[30:230]), abs=2e-5)
        assert window[:, 0] == pytest.approx(numpy.minimum((now - submit[jobs]) / 43_200, 1), abs=2e-5)
        picked.append(int(jobs[-1]))
        observation, _, _, _, info = environment.step(len(jobs) - 1)
    assert len(set(picked)) == len(picked) and set(picked) <= set(range(30, 230))
    assert (len(picked) == 200) != backfill


def test_wrong_arguments_are_errors(workload: pliant.Workload) -> None:
    with pytest.raises(pliant.InputError, match="jobs: expected a whole number from 1 to 2000"):
        pliant.gym.BatchEnv(workload, procs=128, jobs=2_001)
    with pytest.raises(pliant.InputError, match="expected jobs of at most 1 processors, found job"):
        pliant.gym.BatchEnv(workload, procs=1, jobs=100).reset(options={"first": 0})
    with pytest.raises(pliant.InputError, match="expected a sequence of the 2000 jobs, found 100 from 1950 on"):
        pliant.gym.BatchEnv(workload, procs=128, jobs=100).reset(options={"first": 1_950})
    with pytest.raises(pliant.InputError, match="jobs: expected a whole number from 1 to 2000, found 1.5"):
        pliant.gym.BatchEnv(workload, procs=128, jobs=1.5)
    for wrong in (-1, 1.5, 2**80):
        with pytest.raises(pliant.InputError, match="first: expected a whole number from 0 to 4294967295, found"):
            pliant.gym.BatchEnv(workload, procs=128, jobs=100).reset(options={"first": wrong})
    playing = pliant.gym.BatchEnv(workload, procs=128, jobs=100, window=16)
    playing.reset(options={"first": 0})
    for wrong in (-1, 16, 1.5, 2**80, None):
        with pytest.raises(pliant.InputError, match="action: expected a whole number from 0 to 15, found"):
            playing.step(wrong)
    playing.step(numpy.int64(0))
    with pytest.raises(pliant.InputError, match="call reset"):
        pliant.gym.BatchEnv(workload, procs=128).step(0)
    # These are noticed before an episode, not at its end.
    for metric in ("luck", "schema", "clusters"):
        with pytest.raises(pliant.InputError, match=f"metric: expected one of jobs, .*mean_wait_s.*, found '{metric}'"):
            pliant.gym.BatchEnv(workload, procs=128, metric=metric)
    with pytest.raises(pliant.InputError, match="procs: expected a whole number from 1 to 4294967295, found 'all'"):
        pliant.gym.BatchEnv(workload, procs="all")
    with pytest.raises(pliant.InputError, match="backfill: expected True or False, found 'no'"):
        pliant.gym.BatchEnv(workload, procs=128, backfill="no")


ANYTHING = st.none() | st.booleans() | st.integers(-2, 30) | st.sampled_from([2**31, 2**64, -(2**63)]) | st.floats() | st.text(max_size=3)


@settings(max_examples=int(os.environ.get("PLIANT_EXAMPLES", "200")), deadline=None)
@given(
    st.dictionaries(st.sampled_from(["procs", "jobs", "window", "backfill", "metric"]), ANYTHING, max_size=2),
    st.dictionaries(st.just("first"), ANYTHING),
    st.lists(ANYTHING, max_size=40),
)
def test_any_episode_goes_on_or_is_an_error(arguments: dict, options: dict, actions: list) -> None:
    try:
        environment = pliant.gym.BatchEnv(SMALL, **{"procs": 8, "jobs": 10, "window": 4, **arguments})
        environment.reset(seed=1, options=options)
    except pliant.InputError:
        return
    for action in actions:
        try:
            observation, reward, over, _, info = environment.step(action)
        except pliant.InputError:
            continue
        assert observation.shape == environment.observation_space.shape and (observation >= 0).all() and (observation <= 1).all()
        assert info["waiting"] == environment.action_masks().sum() and (reward <= 0 if over else reward == 0)


def test_threads_that_use_one_episode_do_not_wait_for_each_other_for_ever(workload: pliant.Workload) -> None:
    code = """
import sys, threading, pliant
from pliant._pliant import Episode
sys.setswitchinterval(1e-6)
workload = pliant.generate("lublin", procs=128, jobs=50, seed=1)
episode = Episode(workload, 128, first=0, count=50, window=8, backfill=False)
episode.advance()

def fail():
    for _ in range(3_000):
        try:
            episode.step(7_000)
        except pliant.InputError:
            pass

threads = [threading.Thread(target=fail) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("ended")
"""
    # A process of its own: a deadlock holds the interpreter.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "ended\n", done.stderr
