"""One stored value as one cell: payloads, headers, errors and times as Spark shows them.

What was not JSON and has no JSON of its own still becomes text that is: bytes of a MessagePack value are base64, as in
Spark's own `to_json`, infinities and NaN are strings.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from localqueue.errors import PayloadError
from localqueue.policies.codec import MsgpackCodec

#: The last microsecond that Spark can show, for times that never come.
_LAST = 253_402_300_799_999_999


def micros(seconds: float | None) -> int | None:
    """Microseconds since 1970, halves rounded up as every path of this package does."""
    if seconds is None or math.isnan(seconds):
        return None
    if abs(seconds) >= _LAST / 1e6:
        return _LAST if seconds > 0 else -_LAST
    return math.floor(seconds * 1e6 + 0.5)


def value_text(payload: str | bytes | None, codec: str | None) -> str | None:
    """The payload as JSON text; None when its codec is another one, or it is not what its codec writes."""
    if payload is None:
        return None
    if codec is None or codec == "json":
        if isinstance(payload, str):
            return payload
        try:
            return payload.decode()
        except UnicodeDecodeError:
            return None
    if codec != "msgpack":
        return None
    try:
        value = MsgpackCodec().decode(payload)
        return json.dumps(_speakable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (PayloadError, ValueError, TypeError, RecursionError):
        return None


def payload_bytes(payload: str | bytes | None) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload


def header_pairs(headers: str | Mapping[str, Any] | None) -> list[tuple[str, str]] | None:
    """Headers, which a store has as JSON text, as the entries of a map; None when there are none."""
    given = json.loads(headers) if isinstance(headers, str) else headers
    if not given:
        return None
    return [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in given.items()]


def error_fields(error: str | Mapping[str, Any] | None) -> dict[str, str | None] | None:
    """An error as the struct of its type, module and message."""
    given = json.loads(error) if isinstance(error, str) else error
    if given is None:
        return None
    return {name: _text(given.get(name)) for name in ("type", "module", "message")}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _speakable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _speakable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, str) else _speakable(key) if isinstance(key, bytes) else str(key)
