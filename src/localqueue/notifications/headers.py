"""Headers that a user wants to have sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_RESERVED = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding", "user-agent"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


def checked_headers(headers: Mapping[str, str], *, ours: Collection[str] = ()) -> dict[str, str]:
    """ValueError for a header that can not be sent, or that says what only we know. No error shows a value."""
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _RESERVED | {*ours}:
            raise ValueError(f"{name!r} can not be the name of a header of yours")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name!r} must be a text of one line in ASCII")
    return dict(headers)
