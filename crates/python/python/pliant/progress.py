"""The progress of long calls: a bar, or a function of the user."""

from __future__ import annotations

import sys
import warnings

from .errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Union

    #: Of a call: True shows a bar, and a function is called with the number of units that are done and of all.
    Progress = Union[bool, Callable[[int, int], None], None]


def reported(progress: Progress, unit: str) -> Report:
    """What reports the progress of a call, as a context of the call. `unit` is the plural of what is counted."""
    if progress is True:
        return _Bar(unit)
    if progress is None or progress is False:
        return Report(None)
    if not callable(progress):
        raise InputError(f"progress: expected True, False or a function, found {progress!r}")
    return _Function(progress)


class Report:
    """No report, or what derives from it; `call` is called with the number of units that are done and of all."""

    def __init__(self, call: Optional[Callable[[int, int], None]]) -> None:
        self.call = call

    def end(self, total: int) -> None:
        """All is done, also what was not reported."""

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Function(Report):
    """The function of the user."""

    def __init__(self, function: Callable[[int, int], None]) -> None:
        super().__init__(self.update)
        self.function = function
        self.done = 0

    def update(self, done: int, total: int) -> None:
        self.done = done
        self.function(done, total)

    def end(self, total: int) -> None:
        # Also a call that is over before anything was reported has a last report.
        if self.done < total:
            self.update(total, total)


class _Bar(Report):
    """A bar: of tqdm where it is installed, else a line of text."""

    def __init__(self, unit: str) -> None:
        super().__init__(self.update)
        try:
            with warnings.catch_warnings():
                # In a notebook without ipywidgets it warns, and shows a bar of text.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm
        except ImportError:
            self.bar: Any = _TextBar(unit)
        else:
            self.bar = tqdm(unit=f" {unit}")

    def update(self, done: int, total: int) -> None:
        self.bar.total = total
        self.bar.update(done - self.bar.n)

    def end(self, total: int) -> None:
        self.update(total, total)

    def __exit__(self, *_: object) -> None:
        self.bar.close()


class _TextBar:
    """The numbers on one line of standard error, which terminals and notebooks overwrite."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.n = 0
        self.total = 0

    def update(self, more: int) -> None:
        self.n += more
        print(f"\r{self.n:,} of {self.total:,} {self.unit}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.total:
            print(file=sys.stderr)
