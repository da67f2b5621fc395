"""Whether a message is what a test expects, and where not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def differences(expected: Any, actual: Any, at: str) -> Iterator[str]:
    """How `actual` is not what is expected, each difference as words; `at` says what it is.

    Of a mapping only the expected keys are looked at. A sequence has as many items as expected, each one matched. A
    function is asked whether it accepts what is there, and `...` is anything. All else is equal or it is not.
    """
    if expected is ...:
        return
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, wanted in expected.items():
            where = f"{at}[{key!r}]"
            if key in actual:
                yield from differences(wanted, actual[key], where)
            else:
                yield f"{where} is missing"
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            yield f"{at} has {len(actual)} items, not {len(expected)}"
        for number, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(wanted, found, f"{at}[{number}]")
    elif callable(expected) and not isinstance(expected, type):
        if not expected(actual):
            yield f"{at} is {actual!r}, which {getattr(expected, '__name__', expected)} does not accept"
    elif expected != actual:
        yield f"{at} is {actual!r}, not {expected!r}"
