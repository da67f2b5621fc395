"""Messages that come after messages."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.stores import refusals
from localqueue.stores.engine.row import WAITING, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import STATES, Edge
from localqueue.stores.wiring import Wiring


def wait_for(unit: Unit, dependent: int, after: Sequence[str], wiring: Wiring) -> int:
    """Have a new message come after others; how many of them are not acked yet."""
    count = 0
    for one in dict.fromkeys(wiring.aliases.get(one, one) for one in after):
        row = _upstream(unit, one, unit.rows.ids.key_of(one), wiring)
        if row is not None:
            unit.add_edge(row, dependent)
            count += 1
    return count


def _upstream(unit: Unit, message_id: str, key: int | None, wiring: Wiring) -> Row | None:
    """The message that another one is to come after, or None when it is acked already."""
    if key is None:
        raise refusals.never_put(message_id)
    row = unit.row(key)
    if row is None and (message_id in wiring.dropped or unit.was_removed(key)):
        raise refusals.removed(message_id)
    if row is None and key < unit.remembered_from:
        raise refusals.forgotten(message_id)
    return row


def add_edges(unit: Unit, edges: Sequence[Edge], wiring: Wiring) -> None:
    """Have messages that wait already also wait for others."""
    for edge in edges:
        upstream, dependent = (wiring.aliases.get(one, one) for one in edge)
        row = unit.row(unit.rows.ids.key_of(dependent))
        if row is None or row.state != WAITING:
            raise refusals.not_waiting(edge, "gone" if row is None else STATES[row.state])
        unit.flush()
        key = unit.rows.ids.key_of(upstream)
        if key is not None and _waits_for(unit, key, row.key):
            raise refusals.circular(edge)
        above = _upstream(unit, upstream, key, wiring)
        if above is not None and (above.key, row.key) not in unit.rows.upstreams([row.key]):
            unit.add_edge(above, row.key)
            row.waiting_on += 1
            unit.mark(row)


def _waits_for(unit: Unit, waiting: int, upstream: int) -> bool:
    """Whether one message comes after another, directly or through others; a message comes after itself."""
    seen: set[int] = set()
    above = {waiting}
    while above:
        if upstream in above:
            return True
        seen |= above
        above = {edge[0] for edge in unit.rows.upstreams(above)} - seen
    return False


def free_dependents(unit: Unit, upstream: int) -> None:
    """A message was acked: those that waited for it wait for one less, and the ones that wait for nothing more land."""
    unit.writes.freed.append(upstream)
    for key in sorted(unit.dependents(upstream)):
        row = unit.row(key)
        if row is None:
            continue
        row.waiting_on -= 1
        unit.mark(row)
        if row.state == WAITING and not row.waiting_on:
            unit.land(row, max(row.available_at, unit.now), row.expires_at)
