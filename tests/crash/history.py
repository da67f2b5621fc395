"""What clients saw confirmed against what the store holds.

A client reports before it tries and after it succeeded, so of a killed client only the last attempt is in doubt: it may
have taken effect or not. Everything else is a fact the store has to agree with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Event(NamedTuple):
    """`kind` is one of "putting", "put", "leased", "acking", "acked". The names of one event were one transaction.

    A name is a queue and a payload that is put there only once. `tokens` are those of the leases, in the same order.
    """

    kind: str
    names: tuple[str, ...]
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Names for which the store and the clients disagree; all empty when it kept its promises."""

    lost: tuple[str, ...] = ()
    resurrected: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    torn: tuple[tuple[str, ...], ...] = ()
    unheard_of: tuple[str, ...] = ()


def judge(events: Iterable[Event], held: Iterable[str]) -> Verdict:
    """Compare the reports of all clients with the names of the messages that the store holds after them.

    - lost: a confirmed put that is not held and that nobody tried to ack
    - resurrected: a confirmed ack that is held
    - doubled: held twice, acked twice, or leased twice with the same token
    - torn: messages of one put of which some arrived and others did not
    - unheard of: held, but nobody put it
    """
    seen = list(events)
    holding = Counter(held)
    names = {kind: Counter(name for event in seen if event.kind == kind for name in event.names) for kind in _KINDS}
    leases = Counter(
        pair for event in seen if event.kind == "leased" for pair in zip(event.names, event.tokens, strict=True)
    )
    arrived = holding.keys() | names["leased"].keys()
    doubled = {name for counted in (holding, names["acked"]) for name, count in counted.items() if count > 1}
    doubled |= {name for (name, _), count in leases.items() if count > 1}
    return Verdict(
        lost=_sorted(names["put"].keys() - holding.keys() - names["acking"].keys()),
        resurrected=_sorted(names["acked"].keys() & holding.keys()),
        doubled=_sorted(doubled),
        torn=tuple(
            event.names
            for event in seen
            if event.kind == "putting" and 0 < len(arrived.intersection(event.names)) < len(set(event.names))
        ),
        unheard_of=_sorted(holding.keys() - names["putting"].keys()),
    )


_KINDS = ("putting", "put", "leased", "acking", "acked")


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
