"""Arguments that cannot be meant: what Python or the extension module says of them, in one line."""

from __future__ import annotations

import functools
import inspect
import os
import reprlib
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pleach.errors import Error, InvalidArgumentError

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_PACKAGE = os.path.dirname(__file__)
_REFUSALS = (TypeError, ValueError, OverflowError, AttributeError)
# How the extension module begins to list what it takes.
_OF_OTHER_TYPES = "incompatible function arguments"


class _Short(reprlib.Repr):
    """Values as errors name them."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60


_short = _Short()


def shown(value: object) -> str:
    """Returns a value as an error names it: short, in one line."""
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # whatever it is that it raises
        return f"a {type(value).__name__}"


def in_one_line(call: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Wraps a function: where a type does not fit, it raises an error that names what was given.

    Args:
        call: A function or method of this package, or of the extension module. What others raise
            that it calls comes out as it is.

    Returns:
        It, raising InvalidArgumentError there.
    """

    @functools.wraps(call)
    def told(*args: _Given.args, **named: _Given.kwargs) -> _Result:
        try:
            return call(*args, **named)
        except _REFUSALS as error:
            if isinstance(error, Error) or not _is_ours(error.__traceback__):
                raise
            given = _arguments_of(call, args, named)
            if given is None:
                raise
            reason = "types that do not fit" if _OF_OTHER_TYPES in str(error) else _line_of(error)
            raise InvalidArgumentError(f"{call.__name__}: {reason}: {given}") from error

    return told


def _line_of(error: BaseException) -> str:
    lines = str(error).split("\n")
    return lines[0] or type(error).__name__


def _is_ours(trace: types.TracebackType | None) -> bool:
    """Whether an error was raised in this package, or by what is no Python that it called."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _arguments_of(
    call: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> str | None:
    """What was given, by name; None where there are no such parameters: Python says so itself."""
    try:
        given = inspect.signature(call).bind(*args, **named).arguments
    except ValueError:  # of the extension module: no signature, and the first is itself
        given = {**{str(number): one for number, one in enumerate(args) if number > 0}, **named}
    except TypeError:
        return None
    return ", ".join(f"{name}={shown(one)}" for name, one in given.items() if name != "self")
