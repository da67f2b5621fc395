"""What became of the rows of a write, for whoever asked for it with the option `tally`: Spark has no place for it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from localqueue.stores.port import Changes, Put, QueueStore, RecordWrite

KIND = "spark-sink-tally"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many messages a write has stored, how many rows were duplicates of a live message or of a row before them,
    and how many a full queue has dropped."""

    stored: int = 0
    duplicates: int = 0
    dropped: int = 0


def keep(store: QueueStore, name: str, put: Put | None) -> None:
    """Note what became of the last write under this name: nothing, when it was there already."""
    _, stored, duplicates, dropped = put or Put(0.0, 0)
    value = {"stored": stored, "duplicates": duplicates, "dropped": dropped}
    store.commit(Changes(records=[RecordWrite(KIND, name, json.dumps(value).encode())]))


def tally(store: QueueStore, name: str) -> Tally | None:
    """What became of the last write with the option `tally` of this name; None when there was none."""
    record = store.record(KIND, name)
    return None if record is None else Tally(**json.loads(record.value))


def forget(store: QueueStore, name: str) -> None:
    store.commit(Changes(records=[RecordWrite(KIND, name, None)]))
