"""How long do jobs wait under each batch policy?"""

import pliant

jobs = pliant.generate("lublin", procs=128, jobs=5_000, load=0.8, seed=1)
for batch in ("fcfs", "easy", "cbf"):
    summary = pliant.simulate(jobs, procs=128, batch=batch).summary
    print(f"{batch:<6} mean wait {summary['mean_wait_s']:>8.0f} s, utilization {summary['utilization']:.1%}")
