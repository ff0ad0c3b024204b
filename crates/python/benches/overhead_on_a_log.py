"""What Python adds to a simulation of a log: python overhead_on_a_log.py LOG PROCS. The command and the package do the same, one after the other.

Each is a whole process: it reads the log, simulates it with conservative backfilling, and has the jobs as an Arrow table, or prints the
metrics. The best of five CPU times of each is printed, and with valgrind the number of instructions, which other programs on the machine do
not change.
"""

import re
import resource
import shutil
import subprocess
import sys
import sysconfig

CODE = """
import sys
import pliant

run = pliant.simulate(pliant.read_swf(sys.argv[1]), procs=int(sys.argv[2]), batch="cbf")
run.jobs.__arrow_c_stream__()
run.summary
"""

log, procs = sys.argv[1:]
command = shutil.which("pliant", path=sysconfig.get_path("scripts")) or "pliant"
lines = {
    "command": [command, "simulate", "--workload", log, "--procs", procs, "--batch", "cbf"],
    "package": [sys.executable, "-c", CODE, log, procs],
    "import alone": [sys.executable, "-c", "import pliant"],
}


def cpu_s(line: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def instructions(line: list[str]) -> int:
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *line]
    done = subprocess.run(tool, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


times = {name: min(cpu_s(line) for _ in range(5)) for name, line in lines.items()}
for name, seconds in times.items():
    print(f"{name}: {seconds:.3f} s of CPU time, {seconds / times['command']:.3f} of the command")
if shutil.which("valgrind"):
    counts = {name: instructions(line) for name, line in lines.items()}
    for name, count in counts.items():
        print(f"{name}: {count / 1e9:.3f} thousand million instructions, {count / counts['command']:.3f} of the command")
