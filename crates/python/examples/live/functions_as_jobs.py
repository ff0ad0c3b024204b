"""Runs a function on servers of a federation, once for each seed. Start one on this machine with `pliant up`."""

import sys
from concurrent.futures import as_completed

import pliant


def inside(seed: int) -> float:
    """A quarter of the points of a square lie in a circle, times pi."""
    import random

    points = random.Random(seed)
    return sum(points.random() ** 2 + points.random() ** 2 < 1 for _ in range(10_000)) * 4 / 10_000


# The interpreter of this script is on every server of `pliant up`.
with pliant.Executor(time="2m", python=sys.executable) as executor:
    futures = [executor.submit(inside, seed) for seed in range(4)]
    values = [future.result() for future in as_completed(futures)]
    # Short calls share jobs: this is one sweep.
    values += executor.map(inside, range(4, 104), chunksize=10)
print(f"pi is about {sum(values) / len(values):.2f}")
