"""The reads of the port. Each is one call, which sees one moment, apart from long lists of messages, which come in
pages. A queue that nobody has used yet is simply empty."""

from __future__ import annotations

from typing import Any

from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import STATES, CheckReport, Record, StoredMessage, Subscriptions
from localqueue.stores.redis import values
from localqueue.stores.redis.calling import Calls
from localqueue.stores.redis.names import digest

_PAUSED = b"paused:"
_PAGE = 2000  # messages a call, so that a long list keeps nobody else waiting for long


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def most(limit: int | None) -> bytes:
    return b"-1" if limit is None else str(max(limit, 0)).encode()


class ReadsQueues(Calls):
    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        key = self._key(message_id)
        name = self._digest(queue)
        _, (_, body, extra, lease) = self._read("get", key)
        if body is None or values.queue_of(body) != name:
            return None
        return values.stored_message(self.ids, queue, key, body, extra, lease)

    def _counts(self, queue: str) -> list[int]:
        counts: list[int] = self._read("counts", self._digest(queue))[1]
        return counts

    def qsize(self, queue: str) -> int:
        return self._counts(queue)[0]

    def load(self, queue: str) -> int:
        counts = self._counts(queue)
        return counts[0] + counts[4]

    def stats(self, queue: str) -> QueueStats:
        now, found = self._read("stats", self._digest(queue))
        counts, holders, held, first, since, workers, settings, oldest = found
        known, settings = pairs(workers), pairs(settings)
        return QueueStats(
            **dict(zip(STATES, counts, strict=True)),
            total=sum(counts),
            by_worker_id={name.decode(): count for name, count in pairs(holders).items()},
            leases_by_worker_id={
                name[1:].decode(): int(value)
                for name, value in sorted(known.items())
                if name[:1] == b"n" and int(value)
            },
            last_seen_by_worker_id={
                name[1:].decode(): float(value) for name, value in sorted(known.items()) if name[:1] == b"s"
            },
            oldest_ready_age_seconds=max(0.0, now - float(oldest or now)) if counts[0] else None,
            oldest_inflight_age_seconds=max(0.0, now - float(first)) if held else None,
            average_inflight_age_seconds=max(0.0, now - float(since) / held) if held else None,
            dropped=int(settings.get(b"dropped", 0)),
            paused=b"paused" in settings,
            paused_workers=tuple(
                sorted(name[len(_PAUSED) :].decode() for name in settings if name.startswith(_PAUSED))
            ),
        )

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        if state is not None and state not in STATES:
            raise ValueError(f"{state!r} is no state of a message; use one of {', '.join(STATES)}")
        last = rules.last_wanted(self.ids, state, until)
        name, which = self._digest(queue), (state or "").encode()
        end = b"" if last is None else last.to_bytes(8)
        behind = b"" if after is None else self._key(after) or bytes(8)
        if state in rules.ENDED:
            return self._messages(self._read("scan", name, which, behind, most(limit), end)[1])
        messages: list[StoredMessage] = []
        while limit is None or len(messages) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(messages))
            found = self._read("scan", name, which, behind, most(wanted), end)[1]
            messages += self._messages(found)
            if len(found) < wanted * 4:
                break
            behind = found[-4]
        return messages

    def splits(self, queue: str, parts: int) -> list[str]:
        rules.check_parts(parts)
        return [self._id_of(key) for key in self._read("splits", self._digest(queue), str(parts).encode())[1]]

    def queues(self) -> list[str]:
        return sorted(name.decode() for name in self._link.command(b"HVALS", self._root + b":names"))

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        names = (name.decode() for name in self._link.command(b"HVALS", self._root + b":runs"))
        return sorted(name for name in names if name > after)[:limit]

    def run(self, run_id: str) -> RunStats | None:
        return self._run_stats(run_id, self._read("run", digest(run_id))[1])

    def _run_stats(self, run_id: str, found: list[int] | None) -> RunStats | None:
        if found is None:
            return None
        total, done, *counts = found
        return RunStats(run_id=run_id, total=total, done=done, **dict(zip(STATES, counts, strict=True)))

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        behind = b"" if after is None else self._key(after)
        return self._messages(self._read("run_messages", digest(run_id), behind, most(limit))[1])

    def upstream(self, queue: str, message_id: str) -> list[str]:
        found = self._read("upstream", self._digest(queue), self._key(message_id))[1]
        return [self._id_of(key) for key in found]

    def record(self, kind: str, key: str) -> Record | None:
        field = values.sized(kind.encode()) + key.encode()
        found = self._link.command(b"HGET", self._root + b":rec", field)
        return None if found is None else values.record(kind, key, found)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        found = self._read("records", kind.encode(), after.encode(), most(limit))[1]
        return [values.record(kind, key.decode(), value) for key, value in zip(found[::2], found[1::2], strict=True)]

    def subscriptions(self, topic: str) -> Subscriptions:
        _, (version, subscribers) = self._read("subscriptions", self._digest(topic))
        ordered = sorted(pairs(subscribers).items(), key=lambda pair: int(pair[1]))
        return Subscriptions(int(version), tuple(name.decode() for name, _ in ordered))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        field = b"paused" if worker is None else _PAUSED + worker.encode()
        key = b"%b:%b:q" % (self._root, self._digest(queue))
        return bool(self._link.command(b"HEXISTS", key, field))

    def check(self) -> CheckReport:
        return CheckReport(tuple(problem.decode() for problem in self._read("check")[1]))
