"""A broken promise, and the few operations that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.chaos.facts import Message
from tests.chaos.history import NEVER, Ending, Handed, Held, Operation, Put

Part = TypeVar("Part", Put, Ending, Handed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a round may be held to.

    `fifo` is how long before another a message must have been put for their order to be certain, None where the store
    or the faults of the round promise none. `tolerance` is how far apart two clients may be in what they take for the
    store's time, `jumped_ahead` and `jumped_back` by how much its clock was set in all.
    """

    fifo: float | None = 0.0
    tolerance: float = 0.001
    jumped_ahead: float = 0.0
    jumped_back: float = 0.0


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong, the messages it is about, and what else shows it. What became of them after `until` does not."""

    kind: str
    text: str
    messages: Sequence[Message] = field(default=(), compare=False)
    evidence: Sequence[Operation | Held | str] = field(default=(), compare=False)
    until: float = field(default=NEVER, compare=False)

    def __str__(self) -> str:
        names = {message.name for message in self.messages}
        stories = (one for message in self.messages for one in _story(message))
        told = [*(one for one in stories if _time(one) <= self.until), *self.evidence]
        shown = sorted({id(one): one for one in told}.values(), key=_time)
        began = min((_time(one) for one in shown), default=0.0)
        return "\n".join([f"{self.kind}: {self.text}", *(f"    {_shown(one, began, names)}" for one in shown)])


def _story(message: Message) -> list[Operation | Held]:
    """Everything that happened to one message."""
    told = [message.operation, *(one.operation for one in message.deliveries)]
    told += [one.operation for one in message.settled]
    told += [one.operation for one in message.renewals]
    return [*told, *message.held]


def _time(one: Operation | Held | str) -> float:
    """When it began; what is left in the end comes last."""
    return one.start if isinstance(one, Operation) else NEVER


def _shown(one: Operation | Held | str, began: float, names: set[str]) -> str:
    if isinstance(one, str):
        return one
    if isinstance(one, Held):
        return f"in the end: {one.name} is {one.state} in {one.namespace}/{one.queue} as {one.id}"
    end = "..." if one.end == NEVER else f"{one.end - began:.6f}"
    return f"{one.start - began:.6f} to {end}  {one.namespace} {one}: {_asked(one, names)} -> {_told(one, names)}"


def _asked(one: Operation, names: set[str]) -> str:
    parts = [_put(put) for put in _of(names, one.puts)]
    parts += [f"{ending.action} {ending.name} token {ending.token}" for ending in _of(names, one.endings)]
    unsaid = len(one.puts) + len(one.endings) - len(parts)
    parts += [f"{unsaid} more"] if unsaid else []
    if one.claim is not None:
        parts.append(f"claim {one.claim.limit} of {one.claim.queue} for {one.claim.timeout} s")
    parts += [str(part) for part in (one.record and f"record {one.record}", one.bound, one.queue) if part]
    return ", ".join(parts)


def _put(put: Put) -> str:
    options = {key: value for key, value in put._asdict().items() if value and key not in ("queue", "name")}
    return f"put {put.name}" + "".join(f" {key}={value}" for key, value in options.items())


def _told(one: Operation, names: set[str]) -> str:
    if one.answer != "ok":
        return f"{one.answer} {one.error or ''}".strip()
    stored = dict(zip(one.puts, one.stored, strict=False))
    ended = dict(zip(one.endings, one.ended, strict=False))
    parts = [" as ".join(filter(None, (stored[put].outcome, stored[put].existing))) for put in _of(names, list(stored))]
    parts += [str(ended[ending]) for ending in _of(names, list(ended))]
    parts += [f"{handed.name} token {handed.token} until {handed.until}" for handed in _of(names, one.handed)]
    parts += [] if one.value is None else [str(one.value)]
    return ", ".join(parts) or "ok"


def _of(names: set[str], parts: Sequence[Part]) -> list[Part]:
    """Those parts of an operation that a violation is about; when it is about none of them, the first few."""
    return [part for part in parts if part.name in names] if names else list(parts[:6])
