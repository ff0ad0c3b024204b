"""A Gymnasium environment of batch scheduling, for learning agents. It needs gymnasium and numpy: ``pip install gymnasium``.

An agent picks which waiting job is next, as in RLScheduler (Zhang et al., SC 2020). It sees the oldest waiting jobs. The picked job starts
as soon as it fits, and until then no other one is picked. With backfilling, other jobs start meanwhile if they do not delay it by their
walltimes (EASY). An episode is a sequence of jobs of a workload, on an empty cluster, until the last one has ended::

    env = pliant.gym.BatchEnv(pliant.read_swf("log.swf"), procs=128, jobs=256, backfill=True)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(0)      # the oldest job
"""

from __future__ import annotations

import operator
from typing import Any, Optional

import gymnasium
import numpy
from gymnasium import spaces
from numpy.typing import NDArray

from ._pliant import Episode, Run, Workload
from .errors import InputError
from .simulation import generate

FEATURES = 8
"""Of a job: wait, walltime, processors, memory, user, group, executable, and whether it fits now; each from 0 to 1."""


class BatchEnv(gymnasium.Env[NDArray[numpy.float32], int]):
    """One cluster whose queue an agent serves.

    workload: the jobs, as a `Workload` or a table; an episode takes `jobs` of them, from a random position on, or from ``reset(options={"first": n})``.
    procs: the processors of the cluster; every job must fit.
    window: how many of the oldest waiting jobs the agent sees and picks from.
    backfill: whether other jobs start while the picked one does not fit.
    metric: the reward is 0 until the end, then minus this metric of ``Run.summary``.

    Observations are arrays of ``window * 8`` floats. An action is the position of a job; one without a job picks the oldest job, and
    ``info["waiting"]`` is how many have one. After the end, `run` has the schedule.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        workload: Any,
        *,
        procs: int,
        jobs: int = 256,
        window: int = 128,
        backfill: bool = False,
        metric: str = "mean_bounded_slowdown",
    ) -> None:
        self.workload = workload if isinstance(workload, Workload) else Workload.of_table(workload)
        jobs, window = _whole("jobs", jobs, 1, len(self.workload)), _whole("window", window, 1, 65_536)
        if not isinstance(backfill, bool):
            raise InputError(f"backfill: expected True or False, found {backfill!r}")
        self.procs, self.jobs = _whole("procs", procs, 1, 2**32 - 1), jobs
        self.window, self.backfill, self.metric = window, backfill, _metric(metric)
        self.observation_space = spaces.Box(0.0, 1.0, (window * FEATURES,), numpy.float32)
        self.action_space = spaces.Discrete(window)  # type: ignore[assignment]
        self.run: Optional[Run] = None
        self._episode: Optional[Episode] = None
        self._waiting = 0

    def reset(
        self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None
    ) -> tuple[NDArray[numpy.float32], dict[str, Any]]:
        super().reset(seed=seed)
        last = len(self.workload) - self.jobs
        first = (options or {}).get("first")
        if first is None:
            first = int(self.np_random.integers(last + 1))
        self._episode = Episode(
            self.workload, self.procs, first=first, count=self.jobs, window=self.window, backfill=self.backfill
        )
        self.run = None
        seen = self._episode.advance()
        assert seen is not None, "an episode has a job"
        observation, self._waiting = numpy.frombuffer(seen[0], numpy.float32), seen[1]
        return observation, {"first": first, **self._info()}

    def step(self, action: int) -> tuple[NDArray[numpy.float32], float, bool, bool, dict[str, Any]]:
        episode = self._running()
        action = _whole("action", action, 0, self.window - 1)
        seen = episode.step(action if action < self._waiting else 0)
        if seen is not None:
            self._waiting = seen[1]
            return numpy.frombuffer(seen[0], numpy.float32), 0.0, False, False, self._info()
        self.run, self._episode, self._waiting = episode.run(), None, 0
        empty = numpy.zeros(self.window * FEATURES, numpy.float32)
        return empty, -float(self.run.summary[self.metric]), True, False, {"waiting": 0}

    def action_masks(self) -> NDArray[numpy.bool_]:
        """Which actions have a job: the mask that agents of sb3-contrib ask for."""
        return numpy.arange(self.window) < self._waiting

    @property
    def now(self) -> int:
        """The present time in an episode, in seconds on the clock of the workload."""
        return self._running().now

    @property
    def window_jobs(self) -> NDArray[numpy.int64]:
        """The positions in `workload` of the jobs in the window, for agents that look up more than observations show."""
        return numpy.frombuffer(self._running().window, numpy.int64)

    def _running(self) -> Episode:
        if self._episode is None:
            raise InputError("expected an episode that is not over: call reset() first")
        return self._episode

    def _info(self) -> dict[str, Any]:
        return {"waiting": self._waiting}


def _metric(name: str) -> str:
    """A metric of runs: what the shortest run has."""
    episode = Episode(generate("lublin", procs=128, jobs=1), 128, first=0, count=1, window=1, backfill=False)
    episode.advance()
    episode.step(0)
    numbers = [key for key, value in episode.run().summary.items() if isinstance(value, (int, float))]
    if name not in numbers:
        raise InputError(f"metric: expected one of {', '.join(numbers)}, found {name!r}")
    return name


def _whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds, also one of numpy; a fraction is refused, not cut."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = None
    if whole is None or not least <= whole <= most:
        raise InputError(f"{name}: expected a whole number from {least} to {most}, found {value!r}")
    return whole
