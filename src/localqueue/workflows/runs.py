"""Many runs at once: listing and forgetting them."""

from __future__ import annotations

from collections.abc import Iterator

from localqueue.policies._limits import require_seconds
from localqueue.stores.port import Changes, QueueStore, RecordWrite, Settle
from localqueue.workflows.history import History, scan
from localqueue.workflows.place import store_of
from localqueue.workflows.records import (
    ENDED,
    RUN,
    RUN_STATES,
    SIGNAL,
    STATE,
    STEP,
    Kept,
    RunHeader,
    RunState,
    prefix,
    read,
)
from localqueue.workflows.status import RunStatus, summary
from localqueue.workflows.values import Values

_PAGE = 500


def list_runs(
    store: str | QueueStore | None,
    *,
    workflow: str | None = None,
    state: str | None = None,
    limit: int | None = None,
) -> list[RunStatus]:
    """The runs of a store, the newest first, without their steps; of one workflow or in one state if it is given.

    Beside the states of runs there is `paused`.
    """
    known = (*RUN_STATES, "paused")
    if state is not None and state not in known:
        raise ValueError(f"a run is {', '.join(known)}, not {state!r}")
    opened = store_of(store, creates=False)
    found = [
        one
        for one in _runs(opened)
        if (workflow is None or one.workflow == workflow)
        and (state is None or (one.paused if state == "paused" else one.state == state))
    ]
    found.sort(key=lambda one: (one.created_at, one.run_id), reverse=True)
    return found if limit is None else found[:limit]


def _runs(store: QueueStore) -> Iterator[RunStatus]:
    states = {record.key: read(record, RunState) for record in scan(store, STATE)}
    for record in scan(store, RUN):
        header = read(record, RunHeader).value
        yield summary(
            record.key, record.updated_at, header, states.get(record.key, Kept(RunState())), input=header.input
        )


def forget_runs(
    store: str | QueueStore | None,
    *,
    older_than: float,
    workflow: str | None = None,
    dry_run: bool = False,
    values: Values | None = None,
) -> int:
    """Remove what is kept of runs that ended at least `older_than` seconds ago; how many those are."""
    require_seconds("older_than", older_than)
    opened = store_of(store, creates=False)
    until, count = opened.now() - older_than, 0
    for record in scan(opened, STATE):
        if record.updated_at > until or read(record, RunState).value.state not in ENDED:
            continue
        header = opened.record(RUN, record.key)
        if header is None or (workflow is not None and read(header, RunHeader).value.workflow != workflow):
            continue
        count += 1
        if not dry_run:
            forget_run(opened, record.key, values or Values())
    return count


def forget_run(store: QueueStore, run_id: str, values: Values) -> None:
    """Remove the messages, then what is recorded, and the run itself last: one that is cut off is found again."""
    if store.run_messages(run_id, limit=1):  # a run that has none left may be begun anew under its id
        store.cancel_run(run_id)
    while messages := store.run_messages(run_id, limit=_PAGE):
        settles = [Settle(one.queue, one.id, "ack") for one in messages]
        if not any(store.commit(Changes(settle=settles, strict=False)).settled):
            break
    history = History(store, values)
    writes: list[RecordWrite] = []
    for parts, kept in history.steps(run_id):
        writes.append(RecordWrite(STEP, prefix(run_id)[:-1] + prefix("", *parts)[:-1], None))
        if kept.value.ref is not None and (forgotten := values.forget(kept.value.ref)) is not None:
            writes.append(forgotten)
    writes += [RecordWrite(SIGNAL, record.key, None) for record in scan(store, SIGNAL, prefix(run_id))]
    for n in range(0, len(writes), _PAGE):
        store.commit(Changes(records=writes[n : n + _PAGE]))
    ref = history.header(run_id).input_ref
    last = None if ref is None else values.forget(ref)
    store.commit(
        Changes(
            records=[
                *(() if last is None else (last,)),
                RecordWrite(RUN, run_id, None),
                RecordWrite(STATE, run_id, None),
            ]
        )
    )
