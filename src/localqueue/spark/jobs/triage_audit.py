"""What was done to dead letters, by whom and to which: records in the store itself.

The chosen ids are written before the first message is touched, and every page notes in the store that it is done. A job
that was cut off can therefore be finished, and does to each message what was decided, once.
"""

from __future__ import annotations

import getpass
import json
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from localqueue.stores.port import Changes, QueueStore, RecordWrite

KIND = "triage-audit"
IDS = "triage-ids"
PAGE = 1000
_PAGES_A_COMMIT = 50

RUNNING = "running"
DONE = "done"
DRY_RUN = "dry run"


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One replay or discard. `chosen_by` is the filter, `selected` what it found, `done` what became of that so far.

    `gone` were no dead letters any more when their turn came, and `in_use` stay dead because a live message has their
    dedupe key. `state` is "running" until the last page is done: also when the job was cut off, see `Triage.resume`.
    """

    id: str
    action: str
    queue: str
    by: str
    at: float
    chosen_by: Mapping[str, Any]
    selected: int
    to: str | None = None
    delay: float = 0.0
    state: str = RUNNING
    done: int = 0
    gone: int = 0
    in_use: int = 0
    pages: int = 0
    pages_done: int = 0
    finished_at: float | None = None
    version: int = field(default=0, compare=False)

    def __str__(self) -> str:
        filters = ", ".join(f"{name} {value!r}" for name, value in self.chosen_by.items() if name != "ids")
        chosen = f"{self.selected} dead letters of queue {self.queue!r}" + (f" ({filters})" if filters else "")
        if self.state == DRY_RUN:
            return f"would {self.action} {chosen}"
        text = f"{self.action} of {chosen}: {self.done} done"
        for count, what in ((self.gone, "no dead letters any more"), (self.in_use, "whose dedupe key is in use")):
            text += f", {count} {what}" if count else ""
        return text + ("" if self.state == DONE else f"; {self.state}, see resume({self.id!r})")

    def as_dict(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["version"]
        return facts

    def after_page(self, *, done: int, gone: int, in_use: int, now: float) -> AuditEntry:
        is_last = self.pages_done + 1 >= self.pages
        return replace(
            self,
            done=self.done + done,
            gone=self.gone + gone,
            in_use=self.in_use + in_use,
            pages_done=self.pages_done + 1,
            state=DONE if is_last else RUNNING,
            finished_at=now if is_last else None,
        )

    def write(self) -> RecordWrite:
        """As a record, which must still be in the version that was read: another job may be finishing the same."""
        return RecordWrite(KIND, self.id, json.dumps(self.as_dict()).encode(), self.version)


def whoami() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def begin(store: QueueStore, entry: AuditEntry, ids: Sequence[str]) -> AuditEntry:
    """Write down what was chosen. From here on it is decided what happens, whoever finishes it."""
    pages = [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]
    writes = [
        RecordWrite(IDS, f"{entry.id}:{number:06d}", json.dumps(list(page)).encode())
        for number, page in enumerate(pages)
    ]
    for start in range(0, len(writes), _PAGES_A_COMMIT):
        store.commit(Changes(records=writes[start : start + _PAGES_A_COMMIT]))
    begun = replace(entry, pages=len(pages))
    if not pages:
        begun = replace(begun, state=DONE, finished_at=entry.at)
    store.commit(Changes(records=[begun.write()]))
    return find(store, entry.id)


def new_id(now: float) -> str:
    """Names sort by time."""
    return f"{int(now * 1000):014d}-{secrets.token_hex(4)}"


def find(store: QueueStore, audit_id: str) -> AuditEntry:
    record = store.record(KIND, audit_id)
    if record is None:
        raise ValueError(f"there is no audit entry {audit_id!r}; audit() lists them")
    return _entry(record.value, record.version)


def entries(store: QueueStore, queue: str) -> Iterator[AuditEntry]:
    """Of one queue, the oldest first."""
    after = ""
    while page := store.records(KIND, after=after, limit=200):
        after = page[-1].key
        for record in page:
            entry = _entry(record.value, record.version)
            if entry.queue == queue:
                yield entry


def ids_of(store: QueueStore, audit_id: str, page: int) -> list[str]:
    record = store.record(IDS, f"{audit_id}:{page:06d}")
    ids: list[str] = [] if record is None else json.loads(record.value)
    return ids


def _entry(value: bytes, version: int) -> AuditEntry:
    return AuditEntry(**json.loads(value), version=version)
