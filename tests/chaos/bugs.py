"""Bugs that are planted on purpose, to see that the checker finds each of them."""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.engine import arrivals, batch, commit, operations, settlement, timers
from localqueue.stores.lmdb import fast as lmdb_fast
from localqueue.stores.sqlite import records as sqlite_records
from localqueue.stores.sqlite import schema as sqlite_schema
from localqueue.stores.sqlite.store import SQLiteQueueStore
from tests.chaos.mutation import Mutation, restate, reword, rewrite, together

_REMEMBER = 'unit.remember(row, "released", error or row.last_error)'

MUTATIONS = (
    # fencing
    Mutation(
        "a settle compares no token",
        "sqlite",
        "plain",
        "fencing",
        reword(settlement._settle_one, "one.token != row.token", "row.token is None"),
    ),
    Mutation(
        "an ack of LMDB compares no token",
        "lmdb",
        "plain",
        "fencing",
        reword(lmdb_fast.settle, "row.token == one.token", "row.token is not None"),
    ),
    Mutation(
        "a lease is renewed whoever holds it",
        "lmdb",
        "plain",
        "fencing",
        reword(operations._renew, "row.token != lease.token", "row.token is None"),
    ),
    Mutation(
        "deliveries are not counted",
        "sqlite",
        "plain",
        "fencing",
        restate("CLAIM_ONE", "count = count + 1", "count = 1"),
    ),
    # leases
    Mutation(
        "a lease ends as it begins", "sqlite", "plain", "stolen", restate("CLAIM_ONE", "until = ?3", "until = ?2")
    ),
    Mutation(
        "a lease that ran out is not noticed",
        "lmdb",
        "plain",
        "stuck",
        reword(timers.settle_due, "if row.is_due(unit.now):", "if row.is_due(unit.now) and row.state != INFLIGHT:"),
    ),
    # delivery
    Mutation(
        "one put in seven is not stored",
        "sqlite",
        "plain",
        "loss",
        reword(SQLiteQueueStore.put_one, "execute(sql.PUT_ONE,", "key % 7 and execute(sql.PUT_ONE,"),
    ),
    Mutation(
        "what is dropped is not counted",
        "lmdb",
        "bounded",
        "loss",
        together(
            reword(arrivals._count_dropped, "dropped[queue] = dropped.get(queue, 0) + 1", "pass"),
            reword(lmdb_fast._drop, "rows.queue_row(row.queue).dropped += 1", "pass"),
        ),
    ),
    Mutation(
        "an ack is a release",
        "sqlite",
        "keyed",
        "doubling",
        reword(settlement.ack, "unit.delete(row)", "unit.land(row, unit.now, row.expires_at)"),
    ),
    Mutation(
        "all namespaces are one",
        "sqlite",
        "plain",
        "isolation",
        reword(
            sqlite_schema.namespace,
            "return found",
            'return connection.execute("SELECT id, secret FROM lq_namespaces ORDER BY id").fetchone()',
        ),
    ),
    Mutation(
        "the ledger is not asked",
        "sqlite",
        "orders",
        "effect",
        together(
            reword(sqlite_records.with_record, "if request.ledger is None", "if True or request.ledger is None"),
            reword(
                sqlite_records.write_records,
                "in groupby(writes,",
                "in groupby([one._replace(expect=None) for one in writes],",
            ),
        ),
    ),
    # order
    Mutation(
        "the last in is the first out",
        "sqlite",
        "plain",
        "fifo",
        restate("CLAIM_ONE", "ORDER BY rank, position, key", "ORDER BY rank, position DESC, key DESC"),
    ),
    Mutation(
        "the newest of a key comes next",
        "sqlite",
        "keyed",
        "order",
        restate("NEXT_OF_KEY", "BY m.key", "BY m.key DESC"),
    ),
    Mutation(
        "a key is never busy",
        "sqlite",
        "keyed",
        "order",
        reword(arrivals._insert, "unit.head(queue, ordering_key) is not None", "False"),
    ),
    Mutation(
        "a release frees the key",
        "sqlite",
        "keyed",
        "order",
        reword(
            settlement._release,
            _REMEMBER,
            f"{_REMEMBER}; row.ordering_key is None or unit.free_key(row.queue, row.ordering_key)",
        ),
    ),
    Mutation(
        "a release sets free what comes after",
        "sqlite",
        "steps",
        "dependency",
        reword(settlement._release, _REMEMBER, f"{_REMEMBER}; row.dependents and free_dependents(unit, row.key)"),
    ),
    Mutation(
        "an ack sets nothing free",
        "sqlite",
        "steps",
        "dependency",
        reword(settlement.ack, "if row.dependents:", "if False:"),
    ),
    # commits
    Mutation(
        "half of a transaction is written",
        "sqlite",
        "records",
        "torn",
        together(
            reword(batch.land, "if len(messages) < 2 or", "if True or"),
            reword(
                arrivals.enqueue,
                "enqueued = [done[message.id] for message in messages]",
                "enqueued = [done[message.id] for message in messages]; "
                "del unit.writes.inserts[(len(messages) + 1) // 2:]",
            ),
        ),
    ),
    Mutation(
        "records are forgotten",
        "lmdb",
        "records",
        "torn",
        reword(commit._apply, "write_records(changes.records)", "write_records(())"),
    ),
    Mutation(
        "the last of three subscribers gets nothing",
        "sqlite",
        "news",
        "fan-out",
        reword(
            commit.apply,
            "enqueued = batch.land(unit, changes)",
            "short = Changes(enqueue=changes.enqueue[:-1]) if len(changes.enqueue) == 3 else changes; "
            "enqueued = batch.land(unit, short); "
            "enqueued = [*enqueued, *enqueued[-1:]] if short is not changes and enqueued else enqueued",
        ),
    ),
    # keys and limits
    Mutation(
        "no dedupe key is looked up",
        "lmdb",
        "deduped",
        "dedupe",
        together(
            reword(arrivals._find_duplicate, "unit.holder(queue, dedupe_key)", "None"),
            reword(lmdb_fast.put, "if dedupe_key is not None and get(", "if False and get("),
            reword(batch._duplicates, "holders = unit.holders", "holders = {}"),
        ),
    ),
    Mutation(
        "a full queue takes one more",
        "sqlite",
        "bounded",
        "capacity",
        reword(arrivals._enqueue_one, ">= limit.maxsize", "> limit.maxsize"),
    ),
    Mutation(
        "a full queue of LMDB takes one more",
        "lmdb",
        "bounded",
        "capacity",
        together(
            reword(lmdb_fast._is_full, "0 < limit.maxsize <=", "0 < limit.maxsize <"),
            reword(arrivals._enqueue_one, ">= limit.maxsize", "> limit.maxsize"),
        ),
    ),
    Mutation(
        "every release forgives",
        "sqlite",
        "fragile",
        "limits",
        reword(settlement._release, "if one.forgive and row.state == INFLIGHT:", "if row.state == INFLIGHT:"),
    ),
    Mutation(
        "a lease that ran out has no attempt limit",
        "sqlite",
        "fragile",
        "limits",
        reword(rules.fall_due, "attempts_used >= max_attempts", "False"),
    ),
    Mutation("nothing expires", "sqlite", "brief", "limits", reword(rules.arrival, "now + message.ttl", "now + 1e6")),
    Mutation("nothing is delayed", "lmdb", "brief", "limits", reword(rules.arrival, "now + message.delay", "now")),
    # the journal
    Mutation(
        "a release is not journalled",
        "lmdb",
        "plain",
        "journal",
        reword(lmdb_fast.settle, "for row in acked.values()] + notes", "for row in acked.values()]"),
    ),
    Mutation(
        "an ack is journalled without its attempt",
        "sqlite",
        "plain",
        "journal",
        restate("JOURNAL_ON", "coalesce(l.count, OLD.attempts)", "OLD.attempts"),
    ),
    Mutation(
        "what leaves delivery is not journalled",
        "sqlite",
        "fragile",
        "journal",
        restate("JOURNAL_ON", "WHEN NEW.state >= 5 AND OLD.state < 5", "WHEN NEW.state >= 5 AND OLD.state > 5"),
    ),
)

_DELETES = """  call('HDEL', root .. ':m', key)
  call('HDEL', root .. ':l', key)
  call('ZREM', q .. 'i', key)
"""
_TOKEN = "or struct.unpack('>I4', packed, QUEUE + 1) ~= tonumber(args[4])"

#: The same in the rules that Redis has in Lua.
IN_LUA = (
    Mutation(
        "an ack of Redis compares no token",
        "redis",
        "plain",
        "fencing",
        together(rewrite(_TOKEN, ""), rewrite("and l.token == acks[n][3]", "")),
    ),
    Mutation(
        "an ack of Redis leaves the message",
        "redis",
        "plain",
        "doubling",
        rewrite(_DELETES, ""),
    ),
    Mutation(
        "a full queue of Redis takes one more",
        "redis",
        "bounded",
        "capacity",
        rewrite(">= limit.maxsize", "> limit.maxsize"),
    ),
    Mutation(
        "no dedupe key is looked up in Redis",
        "redis",
        "deduped",
        "dedupe",
        rewrite("if dk and (is_duplicate", "if false and (is_duplicate"),
    ),
    Mutation(
        "a key of Redis is never busy",
        "redis",
        "keyed",
        "order",
        rewrite("ok and holder_of(tx, queue, 'o', ok, n))", "false)"),
    ),
    Mutation(
        "a lease of Redis ends as it begins",
        "redis",
        "plain",
        "stolen",
        rewrite("local till, queue = tx.now + request.timeout,", "local till, queue = tx.now,"),
    ),
    Mutation(
        "acks of Redis are not journalled",
        "redis",
        "plain",
        "journal",
        rewrite("L.enter(tx, 'acked', l.queue, l.key, l.token, l.by)", ""),
    ),
)
