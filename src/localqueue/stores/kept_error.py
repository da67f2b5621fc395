"""What is kept of an error: a few words about it, whatever it is, and never more than a store can carry.

An error is an explanation. So nothing about it, neither its size nor what is in it, may keep its message from being
settled: what is too long is cut, what is no JSON becomes text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from localqueue.interrupts import is_interrupt

#: How long an error may be, as the JSON that is kept. A message has its last error and those of its last attempts.
ERROR_LIMIT = 32 * 1024

#: How many characters of a traceback are kept of it, its beginning and its end.
TRACEBACK_LIMIT = 8_000

# How much is left of an error that is longer: characters of a text, entries of a mapping or list, levels of both. The
# last always fits, though a character can take twelve as JSON.
_CUTS = ((8 * 1024, 50, 3), (1024, 20, 2), (200, 8, 1))
_LONGEST_KEY = 80
_MARK = "[... {} left out ...]"


def describe_error(error: object) -> dict[str, Any] | None:
    """The structured form of an exception or text, as `last_error` shows it; with a traceback if it was raised."""
    if error is None:
        return None
    if isinstance(error, Mapping):
        return kept(error)
    if isinstance(error, BaseException):
        described: dict[str, Any] = {
            "type": type(error).__name__,
            "module": type(error).__module__,
            "message": _text_of(error),
        }
        for name in ("command", "exit_code", "stdout", "stderr"):
            value = attribute_of(error, name)
            if value is not None:
                described[name] = value
        if error.__traceback__ is not None:
            described |= _traceback_of(error)
        return kept(described)
    return kept({"type": None, "module": None, "message": _text_of(error)})


def _traceback_of(error: BaseException) -> dict[str, str]:
    from localqueue.stores.address import masked
    from localqueue.stores.kept_traceback import traceback_text

    text = traceback_text(error)
    if text is None:
        return {}
    # What is cut off first is not in what is left, so no secret is cut in two before it is seen.
    return {"traceback": _shortened(masked(_shortened(text, ERROR_LIMIT)), TRACEBACK_LIMIT)}


def kept(error: Mapping[str, Any]) -> dict[str, Any]:
    """The error itself, if stores keep it as it is, or what they keep of it."""
    return dict(error) if _whole(error) is not None else json.loads(_cut(error))


def error_text(error: Mapping[str, Any] | None) -> str | None:
    """The JSON that stores keep of an error."""
    return None if error is None else _whole(error) or _cut(error)


def attribute_of(error: BaseException, name: str) -> Any:
    """An attribute of an exception of anybody's making, None where it has none or can not say."""
    try:
        return getattr(error, name, None)
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        return None


def shown(error: BaseException) -> str:
    """An error as a log shows it."""
    return _shortened(_text_of(error, repr), _CUTS[1][0])


def _whole(error: Mapping[str, Any]) -> str | None:
    if any(isinstance(value, str) and len(value) > ERROR_LIMIT for value in error.values()):
        return None
    try:
        text = _encode(dict(error))
    except (TypeError, ValueError, RecursionError):  # a key that is no text, a number too long to print, a circle
        return None
    return text if len(text) <= ERROR_LIMIT else None


def _cut(error: Mapping[str, Any]) -> str:
    for longest, most, levels in _CUTS:
        text = _encode(_plain(error, longest, most, levels))
        if len(text) <= ERROR_LIMIT:
            break
    return text


def _plain(value: Any, longest: int, most: int, levels: int) -> Any:
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    if levels and isinstance(value, Mapping):
        entries = {
            _shortened(_text_of(key), _LONGEST_KEY): _plain(one, longest, most, levels - 1)
            for key, one in islice(value.items(), most)
        }
        return entries | dict.fromkeys(_rest(value, most), "")
    if levels and isinstance(value, list | tuple):
        return [*(_plain(one, longest, most, levels - 1) for one in value[:most]), *_rest(value, most)]
    return _shortened(_text_of(value), longest)


def _rest(value: Any, most: int) -> Iterable[str]:
    return [_MARK.format(f"{len(value) - most} more")] if len(value) > most else []


def _shortened(text: str, longest: int) -> str:
    """The text, or its beginning and end around how much is missing."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} {_MARK.format(f'{len(text) - 2 * half} characters')} {text[-half:]}"


def _text_of(value: object, text: Any = str) -> str:
    if isinstance(value, str) and text is str:
        return str.__str__(value)
    try:
        return str.__str__(text(value))
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        return f"<{type(value).__name__} that can not be printed: {type(failure).__name__}>"


_encode = json.JSONEncoder(separators=(",", ":"), default=_text_of).encode
