"""Heuristics as agents of the Gymnasium environment: the bounded slowdown of one sequence of jobs."""

import numpy
from numpy.typing import NDArray

import pliant
import pliant.gym

WALLTIME = 1


def oldest(window: NDArray[numpy.float32]) -> int:
    return 0


def shortest(window: NDArray[numpy.float32]) -> int:
    return int(numpy.argmin(window[:, WALLTIME]))


jobs = pliant.generate("lublin", procs=128, jobs=2_000, load=0.9, seed=1)
for backfill in (False, True):
    environment = pliant.gym.BatchEnv(jobs, procs=128, jobs=256, backfill=backfill)
    for pick in (oldest, shortest):
        observation, info = environment.reset(options={"first": 500})
        reward, over = 0.0, False
        while not over:
            window = observation.reshape(-1, pliant.gym.FEATURES)[: info["waiting"]]
            observation, reward, over, _, info = environment.step(pick(window))
        print(f"{pick.__name__:<9} backfilling {'on ' if backfill else 'off'}: bounded slowdown {-reward:.1f}")
