"""The files of jobs where no file system is shared: which go along with a job, and where those that it leaves belong."""

import os
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any, Iterable, Iterator

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

from .runner import INPUTS, RUN

#: The most files that are sent one by one. Pliant takes 1000 with a submission; the smallest of more go in one archive.
FILES = 900
#: The most bytes of a batch: half of what Pliant takes with a submission.
BYTES = 8 << 30


def parts(job: JobExecutorInterface) -> list[Any]:
    """The jobs of a group, or the job."""
    return list(job.jobs) if job.is_group() else [job]


def inputs_of(job: JobExecutorInterface) -> list[str]:
    """The files and folders that a job reads, from the working directory on."""
    own = parts(job)
    made = {str(path) for one in own for path in one.output}
    found: dict[str, None] = {}
    for one in own:
        wanted = [path for path in one.input if path not in made]
        # An output that the job changes.
        wanted += [path for path in one.output if "update" in path.flags and os.path.exists(path)]
        # What an input function looks at.
        wanted += [path for before in one.dag.dependencies[one] if before.is_checkpoint for path in before.output]
        for path in wanted:
            if not path.is_storage:
                found[_inside(one, str(path))] = None
    return list(found)


def files_of(job: JobExecutorInterface) -> list[str]:
    """The files and folders that a job leaves, from the working directory on."""
    found: dict[str, None] = {}
    for one in parts(job):
        benchmark = [one.benchmark] if one.benchmark else []
        for path in [*one.output, *one.log, *benchmark]:
            if not path.is_storage and not {"pipe", "service"} & set(path.flags):
                found[_inside(one, str(path))] = None
    return list(_outermost(set(found)))


def _inside(job: Any, path: str) -> str:
    """A path below the working directory, in its shortest form."""
    short = os.path.normpath(path)
    if os.path.isabs(short) or short.split(os.sep)[0] == "..":
        raise WorkflowError(
            f"rule {job.rule.name}: expected files below the working directory, found {path}: Pliant carries no others where no file "
            "system is shared (--shared-fs-usage)"
        )
    return short


def staged(names: Iterable[str], archive: Path) -> dict[str, Path]:
    """The files to send for these files and folders, by their names in the folder of the job. `archive` may be written."""
    files: dict[str, Path] = {}
    empty: list[str] = []
    for name in names:
        if not os.path.isdir(name):
            files[name] = Path(name)
            continue
        for folder, folders, inside in os.walk(name, followlinks=True):
            if not folders and not inside:
                empty.append(folder)
            files.update((os.path.join(folder, one), Path(folder, one)) for one in inside)
    ordered = sorted(files.items(), key=lambda entry: entry[1].stat().st_size, reverse=True)
    alone, packed = ordered[:FILES], ordered[FILES:]
    if packed or empty:
        with tarfile.open(archive, "w", dereference=True) as opened:
            for name in empty:
                opened.add(name, recursive=False)
            for name, path in packed:
                opened.add(path, arcname=name)
        alone.append((INPUTS, archive))
    return {f"{RUN}/{name}": path.resolve() for name, path in alone}


def size_of(paths: Iterable[Path]) -> int:
    """The bytes of files."""
    return sum(path.stat().st_size for path in paths)


def put_back(archive: Path, names: Iterable[str], spare: Path) -> None:
    """Moves the files of an archive that a job has left to their places in the working directory.

    Only files of these names, or below them, are taken: the server may be another party's. Their times are moved so that the newest is of
    now, since clocks of servers may differ, and Snakemake compares times.
    """
    allowed = set(names)
    if spare.exists():
        shutil.rmtree(spare)
    spare.mkdir(parents=True)
    with tarfile.open(archive) as opened:
        members = [member for member in opened.getmembers() if _is_below(member.name, allowed)]
        opened.extractall(spare, members, filter="data")
    later = time.time() - max((member.mtime for member in members), default=0)
    # Folders last: what is put into them changes their times.
    for member in sorted(members, key=lambda member: member.isdir()):
        path = spare / member.name
        if not member.issym():
            path.chmod(member.mode & 0o777 | (0o700 if member.isdir() else 0o400))
        moment = member.mtime + later
        os.utime(path, (moment, moment), follow_symlinks=False)
    for name in allowed:
        source, target = spare / name, Path(name)
        if not os.path.lexists(source):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        os.replace(source, target)
    shutil.rmtree(spare, ignore_errors=True)


def _is_below(name: str, allowed: set[str]) -> bool:
    path = Path(name)
    return ".." not in path.parts and any(str(part) in allowed for part in (path, *path.parents))


def _outermost(names: set[str]) -> Iterator[str]:
    """The names that are not below another one."""
    for name in sorted(names):
        if not any(str(part) in names for part in Path(name).parents):
            yield name
