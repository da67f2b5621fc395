"""A client of a store: it does what it likes, and writes down what it asked and what it was told."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from localqueue.errors import QueueError, QueueStoreUnavailableError
from localqueue.stores.port import Committed, StoredMessage
from tests.chaos.history import NEVER, Ending, Handed, Notebook, Operation, Stored

#: The points of an operation, beside those inside of a transaction, where a client can be killed.
ASKED, TOLD = "asked", "told"


class Lease(NamedTuple):
    """A message in the hands of a client, as it remembers it."""

    queue: str
    name: str
    id: str
    token: int
    most: int | None

    def ending(self, action: str) -> Ending:
        return Ending(self.queue, self.name, action, self.token, self.most)


class Client:
    """Asks one store, in one namespace, and claims from the queues of one of the groups that are `claimed`. `reach` is
    told each point that it comes to; `now` is the time of its notes."""

    def __init__(
        self,
        store: Any,
        who: str,
        notebook: Notebook,
        chance: Random,
        *,
        namespace: str,
        now: Callable[[], float] = time.monotonic,
        reach: Callable[[str], None] = lambda point: None,
        claimed: Sequence[Sequence[str]] = (),
    ) -> None:
        self.store = store
        self.who = who
        self.chance = chance
        self.namespace = namespace
        self.claimed = claimed
        self.held: deque[Lease] = deque(maxlen=60)
        self.spent: deque[Lease] = deque(maxlen=20)  # leases that it has settled
        self.known: deque[tuple[str, str]] = deque(maxlen=20)  # names and ids of messages others may come after
        self.failures = 0
        self._notebook = notebook
        self._now = now
        self._reach = reach
        self._count = itertools.count()
        self._names = itertools.count()

    def name(self, queue: str) -> str:
        """A name that no other message has."""
        return f"{self.namespace}/{queue}/{self.who}.{next(self._names)}"

    def ask(
        self,
        verb: str,
        call: Callable[[], Any],
        *,
        ids: Sequence[str] = (),
        hear: Callable[[Operation, Any], None] | None = None,
        **parts: Any,
    ) -> Operation:
        """Do one thing, with a line before and a line behind it. `ids` are those that were minted for its puts; `hear`
        notes what was returned by a call that is not one of the port."""
        one = Operation(self.who, next(self._count), verb, self.namespace, self._now(), **parts)
        self._notebook.write(one.asked())
        self._reach(ASKED)
        try:
            result = call()
            hear(one, result) if hear is not None else self._hear(one, result, ids)
            one.answer = "ok"
        except QueueStoreUnavailableError as error:
            one.error = _said(error)
            self.failures += 1
        except QueueError as error:
            one.answer, one.error = "refused", _said(error)
            self.failures += 1
        except Exception as error:
            one.error = f"!{_said(error)}"
            self.failures += 1
        one.end = self._now()
        self._reach(TOLD)
        self._notebook.write(one.told())
        if one.answer == "unknown":
            one.end = NEVER
        return one

    def _hear(self, one: Operation, result: Any, ids: Sequence[str]) -> None:
        """Note what a call of the port returned."""
        if isinstance(result, Committed):
            one.stored = tuple(
                Stored(new.outcome, new.id or own, None if new.existing is None else name_of(new.existing.payload))
                for new, own in zip(result.enqueued, ids, strict=True)
            )
            one.ended = tuple(result.settled)
            self._take(one, result.leased)
        elif isinstance(result, bool):
            one.ended = (result,)
        elif one.claim is not None:
            self._take(one, result)
        elif one.puts:
            made, _ = result
            one.stored = tuple(Stored("stored", new) for new in ([made] if isinstance(made, str) else made))
        else:
            one.value = result

    def _take(self, one: Operation, messages: Sequence[StoredMessage]) -> None:
        assert one.claim is not None or not messages
        if one.claim is None:
            return
        one.handed = tuple(
            Handed(
                name_of(message.payload), message.queue, message.id, message.attempts,
                message.attempts - message.forgiven, message.leased_until, message.expires_at,
            )
            for message in messages
        )  # fmt: skip
        if not one.claim.consume:
            for handed in one.handed:
                lease = Lease(handed.queue, handed.name, handed.id, handed.token, one.claim.most)
                self.held.append(lease)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def payload_of(name: str, size: int = 0) -> str:
    """A payload of a name, of about that size."""
    return f"{name} {name * (size // len(name))}" if size else name


def name_of(payload: str | bytes) -> str:
    """The name in a payload; of one that was damaged, a name that nobody put."""
    text = payload if isinstance(payload, str) else bytes(payload).decode("utf-8", "replace")
    name, _, rest = text.strip('"').partition(" ")  # one that a queue has put is JSON
    return name if rest == name * (len(rest) // max(len(name), 1)) else f"{name}, damaged"
