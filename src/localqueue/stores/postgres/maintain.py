"""The integrity check: what must be true of the rows of a namespace, whatever happened to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.stores.port import CheckReport
from localqueue.stores.postgres.statements import Statements

_OURS = "(SELECT id FROM localqueue.lq_queues WHERE namespace = $1)"

_PROMISES = {
    "an ordering key has two messages in delivery": (
        "SELECT queue || ':' || encode(ordering_key, 'escape') FROM localqueue.lq_messages "
        f"WHERE queue IN {_OURS} AND ordering_key IS NOT NULL AND state <= 2 "
        "GROUP BY queue, ordering_key HAVING count(*) > 1"
    ),
    "a message is blocked behind an ordering key that nobody holds": (
        f"SELECT b.key::text FROM localqueue.lq_messages AS b WHERE b.queue IN {_OURS} AND b.state = 4 "
        "AND NOT EXISTS (SELECT 1 FROM localqueue.lq_messages AS h WHERE h.queue = b.queue "
        "AND sha256(h.ordering_key) = sha256(b.ordering_key) AND h.state <= 2)"
    ),
    "a waiting message does not count its dependencies": (
        f"SELECT m.key::text FROM localqueue.lq_messages AS m WHERE m.queue IN {_OURS} AND m.state = 3 "
        "AND m.waiting_on <> (SELECT count(*) FROM localqueue.lq_dependencies AS d WHERE d.dependent = m.key)"
    ),
    "a message waits for one that is gone": (
        f"SELECT m.key::text FROM localqueue.lq_messages AS m WHERE m.queue IN {_OURS} AND m.state = 3 "
        "AND EXISTS (SELECT 1 FROM localqueue.lq_dependencies AS d WHERE d.dependent = m.key AND NOT EXISTS "
        "(SELECT 1 FROM localqueue.lq_messages AS u WHERE u.key = d.upstream) "
        "AND NOT EXISTS (SELECT 1 FROM localqueue.lq_removed AS r WHERE r.key = d.upstream))"
    ),
    "a message would miss its timer": (
        f"SELECT key::text FROM localqueue.lq_messages WHERE queue IN {_OURS} AND due_at IS DISTINCT FROM CASE "
        "WHEN state = 2 THEN leased_until WHEN state = 1 THEN least(available_at, expires_at) "
        "WHEN state IN (0, 3, 4) THEN expires_at END"
    ),
    "a message has a lease and is not inflight, or the other way round": (
        f"SELECT key::text FROM localqueue.lq_messages WHERE queue IN {_OURS} "
        "AND (state = 2) <> (leased_until IS NOT NULL AND leased_at IS NOT NULL)"
    ),
    "a message is in a state that does not fit the time it ended": (
        f"SELECT key::text FROM localqueue.lq_messages WHERE queue IN {_OURS} "
        "AND (state >= 5) <> (ended_at IS NOT NULL)"
    ),
    "the journal has an entry beyond its last number": (
        "SELECT e.seq::text FROM localqueue.lq_journal AS e JOIN localqueue.lq_journals AS j "
        "ON j.namespace = e.namespace WHERE e.namespace = $1 AND e.seq > j.last"
    ),
}


def check(execute: Callable[..., Any], sql: Statements, namespace: int) -> CheckReport:
    return CheckReport(
        tuple(
            f"{promise}: {row[0]}"
            for promise, query in _PROMISES.items()
            for row in execute(sql.here(f"{query} LIMIT 5"), (namespace,)).fetchall()
        )
    )
