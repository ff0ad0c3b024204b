"""Heuristics as agents of the Gymnasium environment: the bounded slowdown of one sequence of jobs."""

import numpy

import pliant
import pliant.gym

WALLTIME, WINDOW = 1, 128

jobs = pliant.generate("lublin", procs=128, jobs=2_000, load=0.9, seed=1)
for backfill in (False, True):
    environment = pliant.gym.BatchEnv(jobs, procs=128, jobs=256, backfill=backfill)
    for name, pick in {
        "oldest": lambda window: 0,
        "shortest": lambda window: int(numpy.argmin(window[:, WALLTIME])),
    }.items():
        observation, info = environment.reset(options={"first": 500})
        over = False
        while not over:
            window = observation.reshape(WINDOW, pliant.gym.FEATURES)[: info["waiting"]]
            observation, reward, over, _, info = environment.step(pick(window))
        print(f"{name:<9} backfilling {'on ' if backfill else 'off'}: bounded slowdown {-reward:.1f}")
