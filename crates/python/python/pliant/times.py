"""Lengths of time as whole seconds."""

from __future__ import annotations

from .errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Optional, Union


def seconds(name: str, time: Union[int, timedelta]) -> int:
    """The time of an argument in whole seconds."""
    if isinstance(time, int):
        return time
    from datetime import timedelta

    if not isinstance(time, timedelta):
        # The native part names what is expected.
        return time
    whole = time // timedelta(seconds=1)
    if time != timedelta(seconds=whole):
        raise InputError(f"{name}: expected a whole number of seconds, found {time}")
    return whole


def seconds_or_text(name: str, time: Union[int, str, timedelta, None]) -> Union[int, str, None]:
    """The time of an argument in whole seconds; a text such as ``1h`` is left to the native part, which reads it as the command does."""
    return time if time is None or isinstance(time, str) else seconds(name, time)
