"""Waits of small and large jobs, in pandas."""

import pliant

run = pliant.simulate(pliant.generate("lublin", procs=128, jobs=5_000, load=0.8, seed=1), procs=128)
jobs = run.jobs.to_pandas()
jobs["wait"] = jobs["start"] - jobs["submit"]
print(jobs.groupby(jobs["procs"] > 16)["wait"].describe(percentiles=[0.5, 0.9]).round())
