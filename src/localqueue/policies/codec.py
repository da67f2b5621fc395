"""How a value becomes a stored payload and comes back.

What goes in comes out equal and of the same shape, or `encode` raises `PayloadError` and nothing
is stored. A tuple that would return as a list is an error here, not a surprise in a consumer.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from localqueue._dataclass import dataclass
from localqueue.errors import PayloadError
from localqueue.policies._described import Described
from localqueue.policies._payload_shape import JSON_SHAPE, MSGPACK_SHAPE, describe_fault, is_plain


class Codec(Protocol):
    """Turns values into payloads and back, or says why it can not."""

    @property
    def name(self) -> str: ...

    def encode(self, value: Any) -> str | bytes: ...

    def decode(self, payload: str | bytes) -> Any: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCodec(Described):
    """Compact JSON text for None, bool, int, finite float, str, list, and dict with str keys.

    An instance of a subclass of these (a StrEnum member, an OrderedDict) is stored as the plain
    value it equals and comes back plain; one that does not equal its plain form is refused.
    """

    name: str = "json"

    def encode(self, value: Any) -> str:
        try:
            text = _to_text(value)
            if not (text.isascii() or _is_utf8(text)):
                text = _to_ascii(value)
            elif is_plain(value, JSON_SHAPE):
                return text
            if json.loads(text) == value:
                return text
        except (TypeError, ValueError, RecursionError) as error:
            _refuse_json(value, error)
        _refuse_json(value, None)

    def decode(self, payload: str | bytes) -> Any:
        try:
            text = payload if isinstance(payload, str) else payload.decode()
            text = text.strip(" \t\r\n")
            value, end = _read(text)
            return value if end == len(text) else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"stored payload is not valid JSON: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class MsgpackCodec(Described):
    """MessagePack bytes: what JSON holds, plus bytes, infinities and keys that are not strings.

    Needs the `msgpack` extra. Integers must fit 64 bits, and only exact built-in types are taken.
    """

    name: str = "msgpack"

    def __post_init__(self) -> None:
        _msgpack()  # a missing driver is found here, not when the first message can not be read

    def encode(self, value: Any) -> bytes:
        msgpack = _msgpack()
        try:
            payload: bytes = msgpack.packb(value, strict_types=True)
            if is_plain(value, MSGPACK_SHAPE) and _unpack(msgpack, payload) == value:
                return payload
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            _refuse_msgpack(value, error)
        _refuse_msgpack(value, None)

    def decode(self, payload: str | bytes) -> Any:
        msgpack = _msgpack()
        if isinstance(payload, str):
            raise PayloadError("stored payload is text, and MsgpackCodec reads bytes")
        try:
            return _unpack(msgpack, payload)
        except (TypeError, ValueError, RecursionError, msgpack.UnpackException) as error:
            raise PayloadError(f"stored payload is not valid MessagePack: {error}") from error


@dataclass(frozen=True, slots=True)
class PickleCodec(Described):
    """Python pickles: almost any object, and unsafe unless every writer is trusted.

    Decoding a pickle runs whatever code its author chose. Whoever can write to the store can run
    code in every consumer, so the constructor demands `trusted=True`. Equality after a round trip
    is up to the classes involved and is not checked.
    """

    trusted: bool = False
    name: str = "pickle"

    def __post_init__(self) -> None:
        if self.trusted is not True:
            raise ValueError(
                "unpickling runs code chosen by whoever wrote the payload; "
                "pass PickleCodec(trusted=True) if every writer to the store is trusted"
            )

    def encode(self, value: Any) -> bytes:
        import pickle

        try:
            return pickle.dumps(value, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
            raise PayloadError(f"queue values must be picklable: {error}") from error

    def decode(self, payload: str | bytes) -> Any:
        if isinstance(payload, str):
            raise PayloadError("stored payload is text, and PickleCodec reads bytes")
        import pickle

        try:
            return pickle.loads(payload)
        except Exception as error:
            raise PayloadError(f"stored payload can not be unpickled: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesCodec(Described):
    """The value is the payload: `bytes` in, the same `bytes` out, nothing else accepted."""

    name: str = "bytes"

    def encode(self, value: Any) -> bytes:
        if type(value) is not bytes:
            raise PayloadError(
                f"queue values must be bytes with BytesCodec: found {type(value).__name__}; "
                "convert it with bytes(...) or str.encode(), or choose another codec"
            )
        return value

    def decode(self, payload: str | bytes) -> Any:
        if isinstance(payload, str):
            raise PayloadError("stored payload is text, and BytesCodec reads bytes")
        return bytes(payload)


def json_writer(*, ensure_ascii: bool) -> Callable[[Any], str]:
    """A function that writes compact JSON."""
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, allow_nan=False, check_circular=False, separators=(",", ":"))
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quote = getattr(json.encoder, "encode_basestring_ascii" if ensure_ascii else "encode_basestring")
    # JSONEncoder.encode builds this writer anew on every call, which a small value feels.
    write = make(None, encoder.default, quote, None, ":", ",", False, False, False)
    return lambda value: "".join(write(value, 0))


_to_text = json_writer(ensure_ascii=False)
_to_ascii = json_writer(ensure_ascii=True)
_read = json.JSONDecoder().raw_decode


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_json(value: Any, error: Exception | None) -> NoReturn:
    fault = describe_fault(value, JSON_SHAPE, error)
    raise PayloadError(f"queue values must be JSON-serializable: {fault}") from error


def _refuse_msgpack(value: Any, error: Exception | None) -> NoReturn:
    fault = describe_fault(value, MSGPACK_SHAPE, error)
    raise PayloadError(f"queue values must be msgpack-serializable: {fault}") from error


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise RuntimeError(
            'MsgpackCodec requires the optional dependency; install it with `pip install "localqueue[msgpack]"`'
        ) from error
    return msgpack


def _unpack(msgpack: Any, payload: bytes) -> Any:
    return msgpack.unpackb(payload, strict_map_key=False)


JSON_CODEC = JsonCodec()
