"""Submits jobs to a federation, and shows each as it ends. Start one on this machine with `pliant up`."""

import pliant

client = pliant.Client()
best = client.estimate("pi", arguments={"samples": 100_000}).best
print(f"{best.server if best else 'no server'} would complete it first")
jobs = [client.submit("pi", arguments={"samples": 100_000, "seed": seed}) for seed in range(4)]
for job in client.as_completed(jobs):
    print(f"{job.state} in {(job.ended or 0) - (job.started or 0)} s: {client.logs(job).strip()}")
