"""Steps a second of the Gymnasium environment, on one core: python steps_of_gym.py. The agent is random among the waiting jobs."""

import random
import sys
import time

import pliant
import pliant.gym

STEPS = 100_000

jobs = pliant.generate("lublin", procs=256, jobs=10_000, load=1.0, seed=1)
for backfill in (False, True):
    environment = pliant.gym.BatchEnv(jobs, procs=256, jobs=1_024, backfill=backfill)
    draw = random.Random(1).randrange
    steps, waiting = 0, 0
    begin = time.process_time()
    while steps < STEPS:
        _, info = environment.reset(seed=steps)
        over = False
        while not over:
            waiting += info["waiting"]
            _observation, _reward, over, _truncated, info = environment.step(draw(info["waiting"]))
            steps += 1
    seconds = time.process_time() - begin
    mode = "with" if backfill else "without"
    print(f"{mode} backfilling: {steps / seconds:,.0f} steps/s, {waiting / steps:.0f} jobs in the window on average, Python {sys.version.split()[0]}")
