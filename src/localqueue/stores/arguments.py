"""The types of what the port is given, checked before any store sees it.

A dict where a text belongs would be a query to one store and an error of its driver to another. Here it is a
`TypeError` that names the argument, everywhere.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from localqueue.stores.engine.row import from_json
from localqueue.stores.port import (
    Changes,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    RecordWrite,
    Settle,
    StoredMessage,
)

Check = Callable[[str, Any], None]

_NUMBERS = (int, float)
_PAYLOADS = (str, bytes)
_LARGEST = sys.float_info.max


def _wrong(name: str, expected: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {expected}, not {_shown(value)}")


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) < 200 else shown[:200] + "..."


def text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)


def number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise _wrong(name, "a number", value)
    if not -_LARGEST <= value <= _LARGEST:  # nor is what is not a number, nor an integer beyond all floats
        raise ValueError(f"{name} must be a finite number, not {_shown(value)}")


def count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, "an integer", value)


def flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value)


def payload(name: str, value: Any) -> None:
    if not isinstance(value, _PAYLOADS):
        raise _wrong(name, "a string or bytes", value)


def headers(name: str, value: Any) -> None:
    """The text of a JSON object: others would keep the journal and every reader of the message from theirs."""
    text(name, value)
    try:
        from_json(value)
    except ValueError as error:
        raise ValueError(f"{name} must be the text of a JSON object: {error}") from None


def _data(name: str, value: Any) -> None:
    if not isinstance(value, bytes):
        raise _wrong(name, "bytes", value)


def _details(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping", value)


def optional(check: Check) -> Check:
    def check_optional(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return check_optional


def _series(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, _PAYLOADS)


def texts(name: str, value: Any) -> None:
    if not _series(value):
        raise _wrong(name, "a list of strings", value)
    if not all(isinstance(one, str) for one in value):
        raise _wrong(name, "a list of strings", next(one for one in value if not isinstance(one, str)))


def numbers_by_name(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping of names to integers", value)
    for key, of in value.items():
        text(name, key)
        count(name, of)


_life, _headers = optional(number), optional(headers)

#: Checks that the type of a value does not decide.
_BEYOND_TYPE = (number, _life, _headers, texts)


def _fields(kind: type, /, **checks: Check) -> Callable[[Any], None]:
    """A check of the fields of a value object, given in their order."""
    pairs = tuple(checks.items())
    beyond_type = tuple((n, name, check) for n, (name, check) in enumerate(pairs) if check in _BEYOND_TYPE)
    fine: set[tuple[type, ...]] = set()  # what the fields of others were that have passed

    def check(one: Any) -> None:
        values: tuple[Any, ...] = one
        if not isinstance(one, kind):
            raise _wrong(kind.__name__, f"a {kind.__name__}", one)
        types = tuple(map(type, values))
        if types in fine:
            for n, name, check in beyond_type:
                check(name, values[n])
            return
        for (name, check), value in zip(pairs, values, strict=False):
            check(name, value)
        fine.add(types)

    return check


_message = _fields(
    NewMessage, id=text, queue=text, payload=payload, codec=optional(text), delay=number, priority=count,
    dedupe_key=optional(text), ordering_key=optional(text), ttl=_life, headers=_headers, run_id=optional(text),
    after=texts,
)  # fmt: skip
_settle = _fields(
    Settle, queue=text, id=text, action=text, token=optional(count), delay=number, error=optional(_details),
    max_attempts=optional(count), forgive=flag,
)  # fmt: skip
_record = _fields(RecordWrite, kind=text, key=text, value=optional(_data), expect=optional(count), tell=flag)
_request = _fields(
    LeaseRequest, queue=text, limit=count, timeout=number, leased_by=optional(text), max_attempts=optional(count),
    consume=flag, counted=flag, ledger=optional(text),
)  # fmt: skip
_lease = _fields(Lease, queue=text, id=text, token=count)
_limit = _fields(Limit, maxsize=count, overflow=text, overflow_queue=optional(text))


def records(name: str, value: Any) -> None:
    if not _series(value):
        raise _wrong(name, "a list of RecordWrite", value)
    for one in value:
        _record(one)


def leases(name: str, value: Any) -> None:
    if not _series(value):
        raise _wrong(name, "a list of Lease", value)
    for one in value:
        _lease(one)


def payloads(name: str, value: Any) -> None:
    if not _series(value):
        raise _wrong(name, "a list of payloads", value)
    if not {*map(type, value)} <= {str, bytes}:
        for one in value:
            payload(name, one)


def pages(name: str, value: Any) -> None:
    """What can be gone through again; each page is looked at in its turn, by `check_page`."""
    if isinstance(value, Page | Iterator) or not isinstance(value, Iterable):
        raise _wrong(name, "a list of Page, or an object that makes them each time it is gone through", value)


def limits(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping of queues to Limit", value)
    for queue, limit in value.items():
        text(name, queue)
        _limit(limit)


def check_page(page: Any) -> None:
    """Refuse a page whose columns are not as long as its payloads, or of other types than they must be."""
    if not isinstance(page, Page):
        raise _wrong("pages", "a list of Page", page)
    payloads("payload", page.payload)
    optional(text)("codec", page.codec)
    if isinstance(page.queue, str) and all(column is None for column in page[3:]):
        return
    count = len(page.payload)
    for name, column, usual in zip(_PAGE, (page.queues, *page[3:]), _PAGE_TYPES, strict=True):
        if column is None:
            continue
        if not _series(column) or len(column) != count:
            raise _wrong(name, f"a list of {count}, one for each payload", column)
        wrong = {*map(type, column)} - usual
        if wrong:
            one = next(one for one in column if type(one) in wrong)
            raise _wrong(name, " or ".join(sorted(kind.__name__ for kind in usual)), one)
    for delay in page.delay or ():
        number("delay", delay)
    for one in {*(page.headers or ())} - {None}:
        headers("headers", one)


_last_request: LeaseRequest | None = None  # a consumer asks for the same again and again


def request(name: str, value: Any) -> None:
    global _last_request
    if value is not _last_request:
        _request(value)
        _last_request = value


#: What a field of a message usually is, for many messages at once: what is something else is looked at one by one.
_TEXT: set[type] = {str, type(None)}
_LIFE: set[type] = {float, int, type(None)}
_USUAL: tuple[set[type], ...] = (
    {str}, {str}, {str, bytes}, _TEXT, {float, int}, {int}, _TEXT, _TEXT, _LIFE, _TEXT, _TEXT,
)  # fmt: skip
_FEW = 8

#: The columns of a page that each message has a value of, and the types of those.
_PAGE = ("queue", "delay", "priority", "dedupe_key", "ordering_key", "headers", "run_id", "past")
_PAGE_TYPES: tuple[set[type], ...] = (
    {str}, {float, int}, {int}, _TEXT, _TEXT, _TEXT, _TEXT, {StoredMessage, type(None)},
)  # fmt: skip


def _messages(messages: Sequence[NewMessage]) -> None:
    if len(messages) < _FEW or {*map(type, messages)} != {NewMessage}:
        for one in messages:
            _message(one)
        return
    *columns, after, _ = zip(*messages, strict=True)
    usual = all({*map(type, column)} <= types for column, types in zip(columns, _USUAL, strict=False))
    numbers = (columns[4], (life for life in columns[8] if life is not None))
    if not usual or any(after) or not all(-_LARGEST <= one <= _LARGEST for column in numbers for one in column):
        for one in messages:
            _message(one)
        return
    for one in {*columns[9]} - {None}:
        headers("headers", one)


#: The same of settles.
_USUAL_SETTLES: tuple[set[type], ...] = (
    {str}, {str}, {str}, {int, type(None)}, {float, int}, {type(None)}, {int, type(None)}, {bool},
)  # fmt: skip


def _settles(settles: Sequence[Settle]) -> None:
    if len(settles) >= _FEW and {*map(type, settles)} == {Settle}:
        columns = list(zip(*settles, strict=True))
        usual = all({*map(type, column)} <= types for column, types in zip(columns, _USUAL_SETTLES, strict=True))
        if usual and all(-_LARGEST <= delay <= _LARGEST for delay in {*columns[4]}):
            return
    for one in settles:
        _settle(one)


def check_changes(name: str, value: Any) -> None:
    if not isinstance(value, Changes):
        raise _wrong(name, "Changes", value)
    if value.enqueue:
        _messages(value.enqueue)
    if value.settle:
        _settles(value.settle)
    for edge in value.edges:
        texts("edges", edge)
    if value.records:
        records("records", value.records)
    if value.lease is not None:
        request("lease", value.lease)
    if value.limits:
        limits("limits", value.limits)
    if value.topics:
        numbers_by_name("topics", value.topics)


#: The arguments of the port's calls.
CHECKS: dict[str, dict[str, Check]] = {
    "mint": {"count": count},
    "commit": {"changes": check_changes},
    "commit_within": {"changes": check_changes},
    "lease": {"request": request},
    "renew": {"leases": leases, "timeout": number},
    "put_one": {"queue": text, "payload": payload, "codec": optional(text)},
    "put_batch": {"queue": text, "payloads": payloads, "codec": optional(text), "records": records},
    "put_pages": {
        "pages": pages,
        "records": records,
        "limits": optional(limits),
        "topics": optional(numbers_by_name),
        "receipt": optional(texts),
    },
    "ack_one": {"queue": text, "message_id": text, "token": count},
    "get": {"queue": text, "message_id": text},
    "qsize": {"queue": text},
    "load": {"queue": text},
    "stats": {"queue": text},
    "scan": {
        "queue": text,
        "state": optional(text),
        "after": optional(text),
        "until": optional(text),
        "limit": optional(count),
    },
    "splits": {"queue": text, "parts": count},
    "runs": {"after": text, "limit": optional(count)},
    "run": {"run_id": text},
    "run_messages": {"run_id": text, "after": optional(text), "limit": optional(count)},
    "upstream": {"queue": text, "message_id": text},
    "record": {"kind": text, "key": text},
    "records": {"kind": text, "after": text, "limit": optional(count)},
    "subscriptions": {"topic": text},
    "enable_journal": {"keep_seconds": optional(number), "keep_events": optional(count)},
    "events": {"after": count, "limit": optional(count), "queue": optional(text)},
    "prune_events": {"older_than": number, "through": optional(count)},
    "subscribe": {"topic": text, "subscriber": text},
    "unsubscribe": {"topic": text, "subscriber": text},
    "requeue": {"queue": text, "ids": optional(texts), "delay": number},
    "prune": {"queue": text, "state": text, "older_than": number, "dry_run": flag},
    "purge": {"queue": text},
    "cancel_run": {"run_id": text},
    "pause": {"queue": text, "worker": optional(text)},
    "resume": {"queue": text, "worker": optional(text)},
    "paused": {"queue": text, "worker": optional(text)},
    "heartbeat": {"queue": text, "worker_id": text, "leases": count},
    "listen": {"queues": texts, "worker": optional(text)},
    "listen_capacity": {"limits": numbers_by_name},
    "listen_run": {"run_id": text},
    "listen_records": {"kind": text, "keys": texts},
}


def checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of the port that looks at its arguments first."""
    name = call.__name__
    code = call.__code__
    places = {name: n for n, name in enumerate(code.co_varnames[: code.co_argcount])}
    positions = tuple((places.get(argument, sys.maxsize), argument, check) for argument, check in CHECKS[name].items())

    def check_and_call(*args: Any, **options: Any) -> Any:
        given = len(args)
        for at, argument, check in positions:
            if at < given:
                check(argument, args[at])
            elif argument in options:
                check(argument, options[argument])
        return call(*args, **options)

    return functools.wraps(call)(_QUICK[name](call, check_and_call) if name in _QUICK else check_and_call)


# Everyday calls, as they are usually made. Whatever looks odd is left to the ordinary check.


def _commit(call: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def commit(self: Any, changes: Any) -> Any:
        check_changes("changes", changes)
        return call(self, changes)

    return commit


def _put_one(call: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def put_one(self: Any, queue: Any, payload: Any, codec: Any) -> Any:
        if type(queue) is str and type(payload) in _PAYLOADS and (codec is None or type(codec) is str):
            return call(self, queue, payload, codec)
        return otherwise(self, queue, payload, codec)

    return put_one


def _ack_one(call: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def ack_one(self: Any, queue: Any, message_id: Any, token: Any) -> Any:
        if type(queue) is str and type(message_id) is str and type(token) is int:
            return call(self, queue, message_id, token)
        return otherwise(self, queue, message_id, token)

    return ack_one


def _lease_some(call: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def lease(self: Any, request: Any) -> Any:
        return call(self, request) if request is _last_request else otherwise(self, request)

    return lease


_QUICK = {"commit": _commit, "put_one": _put_one, "ack_one": _ack_one, "lease": _lease_some}


def check_calls(store: type, names: Iterable[str] = CHECKS) -> None:
    """Have the calls of the port that a class defines look at their arguments first."""
    for name in names:
        if name in vars(store) and not getattr(vars(store)[name], "__isabstractmethod__", False):
            setattr(store, name, checked(vars(store)[name]))
