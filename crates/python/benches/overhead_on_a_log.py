"""What Python adds to a simulation of a log: python overhead_on_a_log.py LOG PROCS. The command and the package do the same: each reads the
log and simulates it with conservative backfilling; the command prints the metrics, and the package has them and the jobs as an Arrow table.

Each is a whole process, whose CPU time is the least of nine. The package has two parts of its own: the start of the interpreter and the import.
The rest is what a program pays that has imported the package. With valgrind the instructions are counted, too: other programs on the machine do
not change them.
"""

import re
import resource
import shutil
import subprocess
import sys
import sysconfig

ROUNDS = 9
IMPORT = "import sys, pliant; pliant.simulate"
CODE = f"""{IMPORT}
run = pliant.simulate(pliant.read_swf(sys.argv[1]), procs=int(sys.argv[2]), batch="cbf")
run.jobs.__arrow_c_stream__()
run.summary
"""

log, procs = sys.argv[1:]
command = shutil.which("pliant", path=sysconfig.get_path("scripts")) or "pliant"
lines = {
    "command": [command, "simulate", "--workload", log, "--procs", procs, "--batch", "cbf"],
    "interpreter": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", IMPORT],
    "package": [sys.executable, "-c", CODE, log, procs],
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


def show(measured: dict[str, float], unit: str) -> None:
    """The parts of the process, and each as a share of the command."""
    interpreter, imported, package = measured["interpreter"], measured["import"], measured["package"]
    parts = {
        "command": measured["command"],
        "package, whole process": package,
        "  start of the interpreter": interpreter,
        "  import of the package": imported - interpreter,
        "  the rest": package - imported,
    }
    for name, value in parts.items():
        print(f"{name:<28} {value:8.1f} {unit}, {100 * value / measured['command']:6.1f} % of the command")


# One of each in turn, so that what changes on the machine changes all.
times = [{name: 1e3 * cpu_s(line) for name, line in lines.items()} for _ in range(ROUNDS)]
show({name: min(one[name] for one in times) for name in lines}, "ms of CPU time")
if shutil.which("valgrind"):
    show({name: instructions(line) / 1e6 for name, line in lines.items()}, "million instructions")
