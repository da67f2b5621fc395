"""Beginning a run: its records and messages, as the changes of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from localqueue.stores.port import Changes, Edge, QueueStore, RecordWrite
from localqueue.workflows import plan
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import RunMismatch
from localqueue.workflows.history import definition_key
from localqueue.workflows.records import DEFINITION, RUN, RunHeader, key, write
from localqueue.workflows.values import Values


def launch(
    definition: Definition,
    run_id: str,
    given: Any,
    values: Values,
    store: QueueStore,
    *,
    parent: tuple[str, str] | None = None,
    collect: str | None = None,
    forked: tuple[str, str] | None = None,
    only: frozenset[str] | None = None,
    records: Sequence[RecordWrite] = (),
) -> Changes:
    """The changes that begin a run. With `collect`, that message waits until the run has succeeded."""
    if parent is not None and store.record(RUN, run_id) is not None:
        raise RunMismatch(f"step {parent[1]!r} would start run {run_id!r}, and there is one of that id already")
    written = values.write(key(run_id), given)
    header = RunHeader(
        workflow=definition.name,
        version=definition.version,
        definition=definition.digest,
        home=definition.home,
        input=written.value,
        input_ref=written.ref,
        compensates=definition.compensates,
        parent=None if parent is None else parent[0],
        parent_step=None if parent is None else parent[1],
        forked_from=None if forked is None else forked[0],
        forked_at=None if forked is None else forked[1],
    )
    begun = plan.start(definition, run_id, store.mint, only=only)
    return Changes(
        enqueue=begun.messages,
        edges=() if collect is None else [Edge(begun.closing, collect)],
        records=[write(RUN, run_id, header, expect=0), *written.records, *_shape(definition, store), *records],
        keep_ids=begun.keep_ids,
    )


_written: WeakKeyDictionary[QueueStore, set[str]] = WeakKeyDictionary()


def _shape(definition: Definition, store: QueueStore) -> list[RecordWrite]:
    """The definition itself, which every run that follows it is shown with; written once."""
    record_key = definition_key(definition.name, definition.version, definition.digest)
    known = _written.setdefault(store, set())
    if record_key in known:
        return []
    if store.record(DEFINITION, record_key) is not None:  # a commit that wrote it may have been refused
        known.add(record_key)
        return []
    return [RecordWrite(DEFINITION, record_key, msgspec.json.encode(definition.shape))]
