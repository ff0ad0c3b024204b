"""A call of a function as the files of a job: what goes along, and how the value comes back."""

from __future__ import annotations

import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from .errors import InputError, PliantError

#: The file of the value, in the folder of the job.
RESULT = "result.pickle"
_CALL = "call.pickle"
_CLOUDPICKLE = "cloudpickle.zip"

# What a job runs. It needs the same version of Python, and no package. The result is two pickles: how the call ended with the traceback, which
# can be read everywhere, then the value or the exception. It is written under another name first: a job that is killed leaves no half of one.
_SCRIPT = '''#!/usr/bin/env {python}
import os, pickle, sys, traceback
expected = {version!r}
if sys.version_info[:2] != expected:
    found = sys.version.split()[0]
    sys.exit("pliant: expected Python %d.%d, as where the function was submitted, found %s at %s" % (*expected, found, sys.executable))
sys.path.insert(0, os.path.abspath({cloudpickle!r}))
import cloudpickle
def write(is_value, trace, text):
    with open({result!r} + ".part", "wb") as file:
        pickle.dump((is_value, trace), file)
        file.write(text)
    os.rename({result!r} + ".part", {result!r})
try:
    with open({call!r}, "rb") as file:
        function, arguments, names = pickle.load(file)
    ended = (True, "", cloudpickle.dumps(function(*arguments, **names)))
except BaseException as error:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        text = cloudpickle.dumps(error)
        pickle.loads(text)
    except BaseException:
        text = cloudpickle.dumps(None)
    ended = (False, trace, text)
write(*ended)
'''


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
        script = folder / "call.py"
        version = tuple(sys.version_info[:2])
        script.write_text(
            _SCRIPT.format(python=self._python, version=version, cloudpickle=_CLOUDPICKLE, call=_CALL, result=RESULT)
        )
        return script, {_CALL: folder / _CALL, _CLOUDPICKLE: self._package}


def value_of(path: Path) -> Any:
    """The value in the file of a result; raises the exception if the call ended with one."""
    with open(path, "rb") as file:
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
        raise InputError("expected the package cloudpickle, found none", "pip install 'pliant[executor]'") from None
    return cloudpickle
