"""The decisions every store shares: where a message lands, when it falls due, what an attempt leaves behind.

Pure functions of the row and the clock, so that all stores decide alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localqueue._named_tuple import NamedTuple
from localqueue.ids import Mint
from localqueue.policies._limits import require_seconds
from localqueue.stores.kept_error import error_text
from localqueue.stores.port import (
    BLOCKED,
    CANCELLED,
    DEAD,
    DELAYED,
    EXPIRED,
    INFLIGHT,
    READY,
    STATES,
    WAITING,
    NewMessage,
    StoredMessage,
)

NEVER = float("inf")

#: How long a store remembers, counted from when they were put, messages that are gone: for so many seconds after= tells
#: one that was acked from one that was removed.
REMEMBERED = 7 * 86400.0

#: How long a worker that is not paused is known after its last heartbeat, and a run that has no message any more after
#: the last change of one.
KNOWN = 7 * 86400.0

#: How many names that never sent a heartbeat a queue counts the leases of. Nobody knows how old they are: when one more
#: comes, they are forgotten.
NAMES = 250
_MOST_PARTS = 100_000
LAST_ENTRY = 2**48  # no journal has an entry with a higher number
ENDED = (DEAD, EXPIRED, CANCELLED)


class Arrival(NamedTuple):
    """The times of a message that is enqueued. `ended_at` is set when it had left delivery elsewhere: then its `past`
    says in which state, and neither dedupe keys nor limits concern it."""

    created_at: float
    available_at: float
    expires_at: float | None
    ended_at: float | None = None


def arrival(message: NewMessage, now: float) -> Arrival:
    past = message.past
    if past is None:
        return Arrival(now, now + message.delay, None if message.ttl is None else now + message.ttl)
    times = Arrival(past.created_at, past.available_at, past.expires_at)
    return times._replace(ended_at=ended_at(past)) if past.state in ENDED else times


def landing(
    *, now: float, available_at: float, expires_at: float | None, waiting_on: int = 0, key_busy: bool = False
) -> str:
    """The state of a message that is enqueued, released, requeued or freed by its last upstream."""
    if expires_at is not None and expires_at <= now:
        return EXPIRED
    if waiting_on:
        return WAITING
    if key_busy:
        return BLOCKED
    return DELAYED if available_at > now else READY


def due_at(
    state: str, *, available_at: float, expires_at: float | None, leased_until: float | None = None
) -> float | None:
    """When the store has to look at the message again without being told, or None."""
    if state == INFLIGHT:
        return leased_until
    if state == DELAYED:
        return available_at if expires_at is None else min(available_at, expires_at)
    if state in (READY, WAITING, BLOCKED):
        return expires_at
    return None


class Fallen(NamedTuple):
    """What a due message becomes, and the event its history records."""

    state: str
    event: str | None
    error: dict[str, Any] | None = None


def fall_due(
    state: str,
    *,
    now: float,
    available_at: float,
    expires_at: float | None,
    attempts_used: int,
    max_attempts: int | None,
) -> Fallen:
    """What becomes of a message whose `due_at` has passed."""
    if state == INFLIGHT:
        if max_attempts is not None and attempts_used >= max_attempts:
            return Fallen(DEAD, "lease_expired", attempts_exhausted(attempts_used, "its lease expired"))
        if expires_at is not None and expires_at <= now:
            return Fallen(EXPIRED, "lease_expired")
        return Fallen(READY, "lease_expired")
    if expires_at is not None and expires_at <= now:
        return Fallen(EXPIRED, "expired")
    return Fallen(READY if state == DELAYED else state, None)


def attempts_exhausted(attempts: int, last: str) -> dict[str, Any]:
    """The error of a message that was delivered `max_attempts` times without being acked."""
    return {
        "type": "AttemptsExhausted",
        "module": "localqueue",
        "message": f"delivered {attempts} times without an ack; after the last delivery {last}",
    }


def check_retention(keep_seconds: float | None, keep_events: int | None) -> None:
    """Refuse a journal that could keep nothing."""
    if keep_seconds is not None and not require_seconds("keep_seconds", keep_seconds) > 0:
        raise ValueError(f"keep_seconds must be positive, not {keep_seconds!r}; leave it out to keep every event")
    if keep_events is not None and (isinstance(keep_events, bool) or not isinstance(keep_events, int)):
        raise TypeError(f"keep_events must be an integer, not {keep_events!r}")
    if keep_events is not None and not 1 <= keep_events <= LAST_ENTRY:
        raise ValueError(
            f"keep_events must be at least 1, and {LAST_ENTRY} at most, not {keep_events}; leave it out to keep every "
            "event"
        )


def entry_behind(after: int) -> int:
    """The number of the entry that a read of the journal continues behind."""
    if isinstance(after, bool) or not isinstance(after, int):
        raise TypeError(f"after must be the number of an entry, not {after!r}")
    return min(max(after, 0), LAST_ENTRY)


def kept_options(
    *,
    priority: int,
    dedupe_key: str | None,
    ordering_key: str | None,
    run_id: str | None,
    headers: str | None,
    delay: float,
    ttl: float | None,
) -> dict[str, Any] | None:
    """What an entry of the journal keeps of a put's options: those that were not left at their defaults.

    `delay` and `ttl` count from the entry's time, also those of a message that came with a past. A time since the epoch
    is good to less than a microsecond, so they are rounded to that.
    """
    options: dict[str, Any] = {"priority": priority} if priority else {}
    keys = (("dedupe_key", dedupe_key), ("ordering_key", ordering_key), ("run_id", run_id))
    options |= {name: value for name, value in keys if value is not None}
    if headers is not None:
        options["headers"] = json.loads(headers)
    if (delay := round(float(delay), 6)) > 0:
        options["delay"] = delay
    if ttl is not None:
        options["ttl"] = max(round(float(ttl), 6), 0.0)
    return options or None


class Attempt(NamedTuple):
    """A finished attempt (or an operator's act, which has no lease) as stores keep it."""

    attempt: int
    event: str
    at: float
    leased_at: float | None = None
    leased_by: str | None = None
    error: dict[str, Any] | None = None


def history(
    finished: Iterable[Attempt], *, attempts: int, leased_at: float | None, leased_by: str | None
) -> tuple[dict[str, Any], ...]:
    """`attempt_history`: two events for each finished attempt, and the current lease, which is not written anywhere."""
    events: list[dict[str, Any]] = []
    for one in finished:
        if one.leased_at is not None:
            events.append(_event("leased", one.leased_at, one.attempt, leased_by=one.leased_by))
        by = one.leased_by if one.event == "lease_expired" else None
        events.append(_event(one.event, one.at, one.attempt, leased_by=by, last_error=one.error))
    if leased_at is not None:
        events.append(_event("leased", leased_at, attempts, leased_by=leased_by))
    return tuple(events)


def attempts_of(history: Sequence[Mapping[str, Any]]) -> list[Attempt]:
    """The finished attempts that `history` shows; the lease that is still held is not among them."""
    finished: list[Attempt] = []
    lease: Mapping[str, Any] | None = None
    for event in history:
        if event["type"] == "leased":
            lease = event
            continue
        leased_at, leased_by = (None, None) if lease is None else (lease["at"], lease.get("leased_by"))
        text = error_text(event.get("last_error"))
        error = None if text is None else json.loads(text)
        finished.append(Attempt(event["attempt"], event["type"], event["at"], leased_at, leased_by, error))
        lease = None
    return finished


def leased_since(history: Sequence[Mapping[str, Any]]) -> float | None:
    """When the lease began that a message is under, by its `history`."""
    return float(history[-1]["at"]) if history and history[-1]["type"] == "leased" else None


def ended_at(message: StoredMessage) -> float:
    """When a dead, expired or cancelled message left delivery, as far as the message itself tells.

    What ends a message is the last thing its history knows. Only an expiry can go without saying: of a message that was
    put with no life left, or that its last upstream freed too late.
    """
    last = message.history[-1]["at"] if message.history else message.created_at
    if message.state == EXPIRED and message.expires_at is not None:
        return float(max(last, message.expires_at))
    return float(last)


def _event(kind: str, at: float, attempt: int, **extra: Any) -> dict[str, Any]:
    return {"type": kind, "at": at, "attempt": attempt, **{k: v for k, v in extra.items() if v is not None}}


def last_wanted(ids: Mint, state: str | None, until: str | None) -> int | None:
    """The key of the last message that a scan by id wants, None for no end."""
    if until is None:
        return None
    if state in ENDED:
        raise ValueError(f"until= is for scans by id; {state} messages are listed by the time they left delivery")
    key = ids.key_of(until)
    if key is None:
        raise ValueError(f"until={until!r} is no id of this namespace; give the id of one of its messages")
    return key


def check_after(ids: Mint, after: str | None) -> None:
    """Refuse to continue behind what is no message: the read would begin anew, and whoever pages never end."""
    if after is not None and ids.key_of(after) is None:
        raise ValueError(f"after={after!r} is no id of this namespace; give the id of one of its messages")


def check_state(state: str | None) -> None:
    if state is not None and state not in STATES:
        raise ValueError(f"there is no state {state!r}; a message is one of {', '.join(STATES)}")


def check_ended(state: str) -> None:
    if state not in ENDED:
        raise ValueError(f"only dead, expired or cancelled messages can be pruned, not {state!r}")


def check_parts(parts: int) -> int:
    """How many parts to make; no more than somebody could want."""
    if parts < 1:
        raise ValueError(f"parts must be at least 1, not {parts}")
    return min(parts, _MOST_PARTS)


def ends_of_parts(total: int, parts: int) -> list[int]:
    """The positions, from 0, of the last of each of at most `parts` about equal parts of `total` things."""
    parts = min(parts, total)
    return [total * n // parts - 1 for n in range(1, parts + 1)]
