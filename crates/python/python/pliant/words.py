"""Keyword arguments as words of a command line, which the native part reads as the command does."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, TypedDict, Union

from .errors import InputError
from .times import seconds

if TYPE_CHECKING:
    PathLike = Union[str, os.PathLike[str]]
    Files = Union[Mapping[str, PathLike], Sequence[PathLike]]
    Time = Union[str, int, timedelta]
    Instant = Union[str, datetime]
    Values = Union[str, Iterable[object]]


class ScriptOptions(TypedDict, total=False):
    """What is asked for a script, with the names and the meaning of the options of ``pliant submit``."""

    script: PathLike
    args: Sequence[str]
    inputs: Files
    time: Time
    rigid: int
    job_name: str
    env: Mapping[str, str]
    ignore_sbatch: Union[bool, Sequence[str]]
    mem: str
    mem_per_proc: str
    gpus: Union[int, str]
    gpus_per_proc: Union[int, str]
    scratch: str
    nodes: int
    procs_per_node: int
    cpus_per_task: int
    exclusive: bool
    constraint: str
    licenses: str
    partition: Union[str, Sequence[str]]
    account: str
    qos: str
    server_timeout: Time


class SubmitOptions(ScriptOptions, total=False):
    """The options of a job."""

    arguments: Mapping[str, object]
    speedup: str
    chdir: PathLike
    stdin: PathLike
    merge_output: bool
    begin: Instant
    deadline: Instant
    nice: int
    requeue: int
    server: str
    key: str


class VaryOptions(TypedDict, total=False):
    """What varies, with the names and the meaning of the options of ``pliant sweep``.

    vary: the values of each argument: a text such as ``1..1000`` or ``0:1:0.01``, a range, or the values.
    """

    arguments: Mapping[str, object]
    vary: Mapping[str, Values]
    vary_file: PathLike
    zip: bool


class SweepOptions(ScriptOptions, VaryOptions, total=False):
    """The options of a sweep."""

    allocate: str
    allocate_once: bool
    retries: int
    at_once: int


class ExploreOptions(VaryOptions, total=False):
    """The options of an exploration."""

    script: PathLike
    args: Sequence[str]
    inputs: Files
    time: Time
    job_name: str
    env: Mapping[str, str]
    ignore_sbatch: Union[bool, Sequence[str]]
    deadline: Time
    min: int
    max: int
    legacy: int
    reallocate: Time
    server_timeout: Time


class LaunchOptions(TypedDict, total=False):
    """The options of a launch, with the names and the meaning of those of ``pliant launch``; ``from_`` is its ``--from``."""

    name: str
    time: Time
    reservation_timeout: Time
    from_: str
    similarity: float
    mapper: str
    dry_run: bool
    key: str


# Arguments that are not an option of that name.
_OTHERS = ("args", "arguments", "inputs", "env", "script", "vary")
# Lengths of time, where a number is of seconds.
_TIMES = ("time", "server_timeout", "reallocate", "deadline", "reservation_timeout")
# Options whose several values are joined by commas.
_JOINED = ("partition", "ignore_sbatch")


def words_of(service: Optional[str], options: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The words of a call: options, then the service with its arguments or the arguments of a script."""
    _expect_known(options, names)
    words: list[str] = []
    for name, value in options.items():
        if name not in _OTHERS and value is not None:
            words += _option(name, value)
    for name, path in _named(options.get("inputs")):
        words.append(f"--in={name}={path}")
    for name, value in _items(options, "env"):
        words.append(f"--env={name}={value}")
    for name, values in _items(options, "vary"):
        words.append(f"--vary={name}={_values(name, values)}")
    script = options.get("script")
    if script is not None:
        if os.fspath(script) == "-":
            raise InputError("script: expected a file, found `-`, which is the standard input of the command")
        words.append(f"--script={os.fspath(script)}")
    if service is not None:
        if not isinstance(service, str):
            raise InputError(f"expected the name of a service, found {service!r}", "script=PATH runs a script")
        if script is not None:
            raise InputError("expected a service or script, found both")
        words.append(service)
    elif script is None:
        raise InputError("expected a service or script, found neither")
    words += [f"{name}={value}" for name, value in _items(options, "arguments")]
    args = options.get("args")
    if args is not None:
        if isinstance(args, str):
            raise InputError("args: expected a sequence of words, found a text")
        words += ["--", *map(str, _each("args", "a sequence of words", args))]
    return words


def words_of_launch(application: PathLike, options: Mapping[str, Any]) -> list[str]:
    """The words of a launch: options, then the file of the application."""
    _expect_known(options, LAUNCH_OPTIONS)
    words: list[str] = []
    for name, value in options.items():
        if value is not None:
            words += _option(name, value)
    return [*words, "--", os.fspath(application)]


def _expect_known(options: Mapping[str, Any], names: Iterable[str]) -> None:
    known = set(names)
    for name in options:
        if name not in known:
            raise TypeError(f"unexpected option {name!r}; expected one of {', '.join(sorted(known))}")


def _items(options: Mapping[str, Any], name: str) -> Iterable[tuple[Any, Any]]:
    """The items of an option that is a mapping."""
    found = options.get(name)
    if found is None:
        return ()
    if not isinstance(found, Mapping):
        raise InputError(f"{name}: expected a mapping, such as a dict, found {found!r}")
    return found.items()


def _each(name: str, expected: str, values: Any) -> Iterable[Any]:
    """The values of an option that has several."""
    try:
        each: Iterable[Any] = iter(values)
    except TypeError:
        raise InputError(f"{name}: expected {expected}, found {values!r}") from None
    return each


def _option(name: str, value: Any) -> list[str]:
    """The words of one option."""
    # Some names are words of Python, as `from_`.
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is True:
        return [option]
    if value is False:
        return []
    if isinstance(value, timedelta):
        value = f"{seconds(name, value)}s"
    elif name in _TIMES and isinstance(value, int):
        value = f"{value}s"
    elif isinstance(value, datetime):
        value = value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    elif name in _JOINED and not isinstance(value, str):
        value = ",".join(map(str, _each(name, "a text or several", value)))
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    return [f"{option}={value}"]


def _values(name: str, values: Any) -> str:
    """The values of an argument that varies, as ``--vary`` has them."""
    if isinstance(values, str):
        return values
    if isinstance(values, range) and values.step == 1 and len(values) > 1:
        return f"{values[0]}..{values[-1]}"
    texts = [str(value) for value in _each(f"vary: {name}", "a text such as 1..100, a range or values", values)]
    if not texts:
        raise InputError(f"vary: {name}: expected at least one value, found none")
    wrong = next((text for text in texts if "," in text or "\n" in text), None)
    if wrong is not None:
        raise InputError(f"vary: {name}: expected values without commas and line ends, found {wrong!r}", "write them to a vary_file")
    return ",".join(texts)


def _named(files: Any) -> list[tuple[str, str]]:
    """Files with their names in the folder of the job."""
    if files is None:
        return []
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    if isinstance(files, Mapping):
        return [(name, os.fspath(path)) for name, path in files.items()]
    return [(Path(path).name, os.fspath(path)) for path in _each("inputs", "paths, or a mapping of names to paths", files)]


SUBMIT_OPTIONS = tuple(SubmitOptions.__annotations__)
SWEEP_OPTIONS = tuple(SweepOptions.__annotations__)
EXPLORE_OPTIONS = tuple(ExploreOptions.__annotations__)
LAUNCH_OPTIONS = tuple(LaunchOptions.__annotations__)
