"""Where inputs and results are kept: in the record they belong to, and above a size beside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from localqueue.results import ResultStore
from localqueue.stores.port import QueueStore, RecordWrite
from localqueue.workflows.errors import WorkflowError

KIND = "workflow.value"
INLINE_LIMIT = 64 * 1024

_HERE = "store:"
_ELSEWHERE = "results:"

_encode = msgspec.json.Encoder().encode


class Written(NamedTuple):
    """A value as a record holds it: itself, or a reference with what has to be committed for it."""

    value: Any = None
    ref: str | None = None
    records: tuple[RecordWrite, ...] = ()


class Values:
    """Keeps what is larger than `inline_limit` bytes of JSON in `results`, or in a record of its own in the store.

    What goes to `results` is saved before the commit that refers to it: one that never commits leaves a value that is
    written again under the same key.
    """

    def __init__(self, results: ResultStore | None = None, inline_limit: int = INLINE_LIMIT) -> None:
        self.results = results
        self.inline_limit = inline_limit

    def write(self, key: str, value: Any) -> Written:
        if value is None or isinstance(value, bool | int | float):
            return Written(value)
        encoded = _encode(value)
        if len(encoded) <= self.inline_limit:
            return Written(value)
        if self.results is None:
            return Written(None, f"{_HERE}{key}", (RecordWrite(KIND, key, encoded),))
        self.results.save(key, value)
        return Written(None, f"{_ELSEWHERE}{key}")

    def read(self, store: QueueStore, value: Any, ref: str | None) -> Any:
        """The value that was written so."""
        if ref is None:
            return value
        if ref.startswith(_HERE):
            record = store.record(KIND, ref.removeprefix(_HERE))
            if record is None:
                raise WorkflowError(f"the value {ref!r} is not in the store any more; its run was forgotten")
            return msgspec.json.decode(record.value)
        key = ref.removeprefix(_ELSEWHERE)
        if self.results is None:
            raise WorkflowError(
                f"the value {key!r} is in a result store; ask with the workflow that has result_store=, as in "
                "workflow.run(store, run_id)"
            )
        return self.results.load(key)

    def forget(self, ref: str) -> RecordWrite | None:
        """Remove a value; returns what has to be committed for it."""
        if ref.startswith(_HERE):
            return RecordWrite(KIND, ref.removeprefix(_HERE), None)
        if self.results is not None:
            self.results.delete(ref.removeprefix(_ELSEWHERE))
        return None
