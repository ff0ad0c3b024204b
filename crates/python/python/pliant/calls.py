"""A call of a function as the files of a job: what goes along, and how the value comes back."""

from __future__ import annotations

import base64
import io
import pickle
import shutil
import struct
import sys
import zipfile
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from .errors import InputError, PliantError

#: The file of the value, in the folder of the job.
RESULT = "result.pickle"
_CALL = "call.pickle"
_CLOUDPICKLE = "cloudpickle.zip"

_CALLS = "calls.bin"
#: What to do about an interpreter that is absent or another one.
HINT = "choose another interpreter with Executor(python=...)"

# What jobs and instances run. They need the same version of Python, and no package. An outcome is two pickles: how the call ended with the
# traceback, which can be read everywhere, then the value or the exception.
_PRELUDE = '''#!/usr/bin/env {python}
import os, pickle, sys, traceback
expected = {version!r}
if sys.version_info[:2] != expected:
    found = sys.version.split()[0]
    sys.exit("pliant: expected Python %d.%d, as where the function was submitted, found %s at %s" % (*expected, found, sys.executable))
sys.path.insert(0, os.path.abspath({cloudpickle!r}))
import cloudpickle
def outcome(call):
    try:
        function, arguments, names = call()
        ended = (True, "")
        text = cloudpickle.dumps(function(*arguments, **names))
    except BaseException as error:
        ended = (False, "".join(traceback.format_exception(type(error), error, error.__traceback__)))
        try:
            text = cloudpickle.dumps(error)
            pickle.loads(text)
        except BaseException:
            text = cloudpickle.dumps(None)
    return ended[0], pickle.dumps(ended) + text
def write(text):
    # Under another name first: a job that is killed leaves no half of a result.
    with open({result!r} + ".part", "wb") as file:
        file.write(text)
    os.rename({result!r} + ".part", {result!r})
'''
_ONE_CALL = '''
def call():
    with open({call!r}, "rb") as file:
        return pickle.load(file)
write(outcome(call)[1])
'''
# An instance of a sweep runs the calls of its number, up to the first that raises an exception. What it prints as its result is short: longer
# results are files. What functions print goes to standard error.
_SOME_CALLS = '''
import base64, struct
output = os.dup(1)
os.dup2(2, 1)
def part(file, index):
    file.seek(8 * index)
    begin, end = struct.unpack("<QQ", file.read(16))
    file.seek(begin)
    return file.read(end - begin)
with open({calls!r}, "rb") as file:
    function = part(file, 0)
    calls = part(file, 1 + int(os.environ["PLIANT_INSTANCE"]))
text = b""
try:
    count = len(pickle.loads(calls))
except BaseException:
    # The outcome of the first call says why.
    count = 1
for index in range(count):
    is_value, one = outcome(lambda: (pickle.loads(function), pickle.loads(calls)[index], {{}}))
    text += one
    if not is_value:
        break
sys.stdout.flush()
if len(text) <= {most}:
    os.write(output, base64.b64encode(text))
else:
    write(text)
    os.write(output, b"-")
'''
#: The longest result that is printed, so that it is within the 16 KiB of the standard output that a sweep keeps.
_PRINTED_BYTES_MAX = 12_000


class RemoteTraceback(Exception):
    """The traceback of an exception on a server: the cause of that exception here."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        return "\n" + self.trace


class RemoteError(PliantError):
    """A function raised an exception that cannot be brought back. The message has its traceback."""


class Calls:
    """Writes calls as files. It needs cloudpickle, whose modules go along with each job."""

    def __init__(self, folder: Path, python: Optional[str]) -> None:
        self._cloudpickle = _cloudpickle()
        self._python = python or f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self._package = folder / _CLOUDPICKLE
        modules = Path(self._cloudpickle.__file__).parent
        with zipfile.ZipFile(self._package, "w") as archive:
            for module in sorted(modules.glob("*.py")):
                archive.write(module, f"cloudpickle/{module.name}")

    def write(
        self, folder: Path, function: Callable[..., Any], arguments: Tuple[Any, ...], names: Mapping[str, Any]
    ) -> Tuple[Path, Dict[str, Path]]:
        """Writes a call into a new folder: the script of the job, and its input files."""
        folder.mkdir()
        (folder / _CALL).write_bytes(self._cloudpickle.dumps((function, arguments, dict(names))))
        return self._script(folder, _ONE_CALL), {_CALL: folder / _CALL, _CLOUDPICKLE: self._package}

    def write_some(
        self, folder: Path, function: Callable[..., Any], chunks: Iterable[Sequence[Tuple[Any, ...]]]
    ) -> Tuple[Path, Dict[str, Path], List[int]]:
        """Writes chunks of calls of a function into a new folder: the script of a sweep, its input files, and the length of each chunk.

        The file of calls has a table of offsets, then the function, then the arguments of each chunk.
        """
        folder.mkdir()
        parts, lengths, offsets = folder / "parts.bin", [], [0]
        with open(parts, "wb") as file:
            file.write(self._cloudpickle.dumps(function))
            for chunk in chunks:
                offsets.append(file.tell())
                file.write(self._cloudpickle.dumps(list(chunk)))
                lengths.append(len(chunk))
            offsets.append(file.tell())
        begin = 8 * len(offsets)
        with open(folder / _CALLS, "wb") as file:
            file.write(struct.pack(f"<{len(offsets)}Q", *(begin + offset for offset in offsets)))
            with open(parts, "rb") as written:
                shutil.copyfileobj(written, file)
        parts.unlink()
        return self._script(folder, _SOME_CALLS), {_CALLS: folder / _CALLS, _CLOUDPICKLE: self._package}, lengths

    def _script(self, folder: Path, calls: str) -> Path:
        script = folder / "call.py"
        names = {"cloudpickle": _CLOUDPICKLE, "call": _CALL, "calls": _CALLS, "result": RESULT, "most": _PRINTED_BYTES_MAX}
        script.write_text((_PRELUDE + calls).format(python=self._python, version=tuple(sys.version_info[:2]), **names))
        return script


def value_of(path: Path) -> Any:
    """The value in the file of a result; raises the exception if the call ended with one."""
    with open(path, "rb") as file:
        return _value_in(file)


def printed(output: str) -> Optional[bytes]:
    """The outcomes that an instance of a sweep has printed; None if they are in its file."""
    return None if output == "-" else base64.b64decode(output, validate=True)


def values_of(outcomes: bytes, count: int) -> Iterator[Any]:
    """The values of so many calls; raises the exception of the first call that ended with one."""
    file = io.BytesIO(outcomes)
    for _ in range(count):
        yield _value_in(file)


def _value_in(file: IO[bytes]) -> Any:
    is_value, trace = pickle.load(file)
    if is_value:
        return pickle.load(file)
    try:
        error = pickle.load(file)
    except BaseException as unreadable:
        # Its class may exist only on the server.
        raise RemoteError(trace) from unreadable
    if not isinstance(error, BaseException):
        raise RemoteError(trace)
    raise error from RemoteTraceback(trace)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError:
        raise InputError("expected the package cloudpickle, found none", "pip install cloudpickle") from None
    return cloudpickle
