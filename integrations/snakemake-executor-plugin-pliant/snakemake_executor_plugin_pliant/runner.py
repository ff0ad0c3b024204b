"""Runs jobs of Snakemake on a server, one after the other. It is a program of its own, which is sent along where no file system is shared.

Its argument is a JSON file: ``jobs``, each with ``id``, ``script``, ``text``, ``time_s`` and ``files``, and ``sources``,
which is an archive or null; ``programs`` are input files that can be executed. ``text`` is that of a script that is not there.
The exit code of each job is a line ``ID CODE`` of the standard output. What jobs print goes to the standard error, after the line
`HEADING`. With ``sources``, jobs run in the folder ``run``; the files that each leaves are packed into ``ID.tar``, and all others are removed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from typing import Optional

#: The folder of jobs, and the archive of small input files in it.
RUN = "run"
INPUTS = "pliant-inputs.tar"
#: The line before what a job prints.
HEADING = "=== job {} of Snakemake"
#: The exit code of a job whose time was up, as that of timeout(1).
TIME_UP = 124


def main(path: str) -> int:
    """Runs all jobs; 0 if all have succeeded."""
    with open(path) as file:
        batch = json.load(file)
    home = os.getcwd()
    staged = batch["sources"] is not None
    if staged:
        os.makedirs(RUN, exist_ok=True)
        os.chdir(RUN)
        unpack(os.path.join(home, batch["sources"]))
        unpack(INPUTS)
        for path in batch["programs"]:
            os.chmod(path, os.stat(path).st_mode | 0o100)
    failed = False
    for job in batch["jobs"]:
        print(HEADING.format(job["id"]), file=sys.stderr, flush=True)
        script = job["script"]
        if job["text"] is not None:
            script = os.path.join(home, f"{job['id']}.sh")
            with open(script, "w") as file:
                file.write(job["text"])
        code = run(script, job["time_s"])
        if staged:
            pack(job["files"], os.path.join(home, f"{job['id']}.tar"))
        print(job["id"], code, flush=True)
        failed = failed or code != 0
    if staged:
        os.chdir(home)
        shutil.rmtree(RUN, ignore_errors=True)
        for job in batch["jobs"]:
            os.remove(f"{job['id']}.sh")
    return int(failed)


def unpack(archive: str) -> None:
    """Unpacks what is not there yet of an archive, if there is one."""
    if not os.path.exists(archive):
        return
    # It was written by the user's own Snakemake.
    with tarfile.open(archive) as opened:
        members = [member for member in opened if not os.path.isfile(member.name)]
        opened.extractall(members=members, filter="fully_trusted")


def run(script: str, time_s: Optional[int]) -> int:
    """The exit code of a script that runs for so long at most."""
    os.chmod(script, 0o700)
    # It stays in the process group of this program, which its supervisor ends.
    job = subprocess.Popen([script], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        return job.wait(time_s)
    except subprocess.TimeoutExpired:
        print(f"the time limit of {time_s} s is exceeded", file=sys.stderr, flush=True)
        end(job.pid)
        job.wait()
        return TIME_UP


def end(leader: int) -> None:
    """Ends a process and those that it has started, again and again until none is left that could start more."""
    known: set[int] = {leader}
    while True:
        found = descendants(known) - known
        for process in known | found:
            try:
                os.kill(process, signal.SIGSTOP if found else signal.SIGKILL)
            except OSError:
                pass
        known |= found
        if not found:
            return


def descendants(processes: set[int]) -> set[int]:
    """The processes whose parent is one of these."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                # After the command, which is in parentheses: the state, and the parent.
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if parent in processes:
            found.add(int(name))
    return found


def pack(files: list[str], archive: str) -> None:
    """Moves the files that are there into an archive."""
    there = [path for path in dict.fromkeys(files) if os.path.lexists(path)]
    if not there:
        return
    with tarfile.open(archive, "w") as opened:
        for path in there:
            opened.add(path, filter=plain)
    for path in there:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.remove(path)


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member without the user of this server."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
