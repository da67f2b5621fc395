"""Checking what a caller wants to put, before anything is stored."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from localqueue.message import QueueMessage
from localqueue.policies import Configuration
from localqueue.policies._limits import LONGEST

_LARGEST_PRIORITY = 2**31 - 1
_MOST_MESSAGES = 2**31 - 1  # of one batch, where as many as there are is meant
_NO_LIMIT = 2**31  # more than anybody can hold in a list


class BatchOptions(TypedDict, total=False):
    """Options that the messages of a batch share."""

    delay: float
    priority: int
    ttl: float | None
    headers: Mapping[str, str] | None
    ordering_key: str | None
    run_id: str | None
    after: Iterable[Any]


class PutOptions(BatchOptions, total=False):
    """Options of one message, shared by `put`, `Transaction.put` and `Job.put`."""

    dedupe_key: str | None


def check_put_options(
    configuration: Configuration,
    dedupe_keys: Sequence[str | None],
    *,
    delay: float,
    priority: int,
    ttl: float | None,
    ordering_key: str | None,
    run_id: str | None,
) -> None:
    """Refuse options that the queue's policies do not support."""
    if type(delay) is not float or delay:
        check_delay(delay)
    keys = [key for key in dedupe_keys if key is not None]
    if keys:
        _check_keys("dedupe_key", keys)
        if not configuration.deduplication_policy.deduplication:
            raise ValueError("dedupe_key is not supported by the active deduplication_policy")
    if len(keys) < len(dedupe_keys) and getattr(configuration.delivery_policy, "requires_dedupe_key", False):
        raise ValueError("dedupe_key is required by the active delivery_policy")
    if priority != 0 or type(priority) is not int:
        _check_priority(configuration, priority)
    if ttl is not None and not check_seconds("ttl", ttl) > 0:
        raise ValueError(f"ttl must be greater than zero, not {ttl!r}; leave it out for a message that never expires")
    if ordering_key is not None:
        check_key("ordering_key", ordering_key)
        if not getattr(configuration.ordering_policy, "orders_by_key", False):
            raise ValueError("ordering_key requires PerKeyFifoOrdering; pass ordering_policy=PerKeyFifoOrdering()")
    if run_id is not None:
        check_key("run_id", run_id)


def check_delay(delay: float) -> float:
    if check_seconds("delay", delay) < 0:
        raise ValueError("delay cannot be negative")
    return delay


def check_seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number of seconds, not {value!r}")
    if abs(value) > LONGEST:
        raise ValueError(f"{name} can be {LONGEST:.0f} seconds at most, not {value!r}")
    return value


def check_timeout(timeout: float | None) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"'timeout' must be a non-negative number, not {timeout!r}")
    if not timeout >= 0:
        raise ValueError("'timeout' must be a non-negative number")
    if timeout > sys.float_info.max and timeout != math.inf:
        raise ValueError(f"'timeout' is too large, {timeout!r}; leave it out to wait for ever")


def check_limit(limit: int | None) -> int | None:
    """The limit, or None for one that nothing reaches."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be an integer, not {limit!r}")
    if limit < 0:
        raise ValueError(f"limit cannot be negative, this one is {limit}")
    return limit if limit < _NO_LIMIT else None


def check_count(n: int) -> int:
    """How many messages to lease at most."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of messages must be a positive integer, not {n!r}")
    return check_limit(n) or _MOST_MESSAGES


def _check_priority(configuration: Configuration, priority: int) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError("priority must be an integer")
    if priority < 0:
        raise ValueError("priority cannot be negative")
    if priority > _LARGEST_PRIORITY:
        raise ValueError(f"priority cannot be greater than {_LARGEST_PRIORITY}, this one is {priority}")
    if priority > 0 and not configuration.ordering_policy.priority_before_sequence:
        raise ValueError("priority requires PriorityOrdering")


def _check_keys(name: str, keys: Sequence[str]) -> None:
    """All at once, if they are plain; one by one where one of them may be wrong."""
    if not (set(map(type, keys)) == {str} and all(keys) and "".join(keys).isascii()):
        for key in keys:
            check_key(name, key)


def check_key(name: str, key: str) -> None:
    if not isinstance(key, str):
        raise TypeError(f"{name} must be a string, not {key!r}")
    if not key:
        raise ValueError(f"{name} cannot be empty")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} {key!r} is not valid Unicode") from None


def encode_headers(headers: Mapping[str, str] | None) -> str | None:
    if not headers:
        return None
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of strings to strings, not {headers!r}")
    for key, value in headers.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"headers must map strings to strings, not {key!r} to {value!r}; convert it with str()")
    return json.dumps(dict(headers), separators=(",", ":"))


def upstream_ids(after: Iterable[QueueMessage[Any] | str]) -> tuple[str, ...]:
    """The ids of messages given as ids or as messages."""
    check_is_list(after)
    return tuple([id_of(one, "after= takes message ids or messages") for one in after])


def id_of(message: QueueMessage[Any] | str, wanted: str = "a message or its id is wanted") -> str:
    """The id of a message that is given as itself or by its id; TypeError says what is `wanted` for anything else."""
    if isinstance(message, QueueMessage):
        return message.id
    if isinstance(message, str):
        return message
    raise TypeError(f"{wanted}, not {message!r}")


def check_is_list(after: object) -> None:
    if isinstance(after, str | bytes) or not isinstance(after, Iterable):
        raise TypeError(f"after= takes a list of message ids or messages, not {after!r}; write after=[...]")


def has_no_options(
    timeout: object,
    delay: object,
    priority: object,
    ttl: object,
    headers: object,
    ordering_key: object,
    run_id: object,
    after: object,
) -> bool:
    """Whether a put asks for nothing but that its item be stored."""
    return (
        timeout is None
        and after == ()
        and type(delay) is float
        and delay == 0.0
        and type(priority) is int
        and priority == 0
        and ordering_key is None
        and headers is None
        and run_id is None
        and ttl is None
    )


def one_result_each(results: Iterable[Any] | None, count: int) -> tuple[Any, ...]:
    kept = (None,) * count if results is None else tuple(results)
    if len(kept) != count:
        raise ValueError(f"results has {len(kept)} values for {count} messages; give one for each")
    return kept


def one_key_each(dedupe_keys: Iterable[str] | None, count: int) -> tuple[str | None, ...]:
    if dedupe_keys is None:
        return (None,) * count
    if isinstance(dedupe_keys, str):
        raise TypeError(f"dedupe_keys takes one key for each item, not the string {dedupe_keys!r}")
    keys = tuple(dedupe_keys)
    if len(keys) != count:
        raise ValueError(f"dedupe_keys has {len(keys)} keys for {count} items; give one for each")
    return keys
