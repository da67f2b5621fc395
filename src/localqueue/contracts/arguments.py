"""What the port is given has a checked type: a query language, or whatever else, is never taken for a name."""

from __future__ import annotations

import inspect
from typing import Any, cast

import pytest

from localqueue.contracts.steps import assert_sound, new, put, take
from localqueue.stores.arguments import CHECKS
from localqueue.stores.port import Changes, Edge, LeaseRequest, NewMessage, QueueStore, RecordWrite, Settle

#: What is none of the things that an argument of the port can be.
ODD: tuple[Any, ...] = ({"$regex": ".*"}, {"$gt": ""}, object(), [{"$ne": None}], {1, 2}, 1 + 2j)

_PLAIN: dict[str, Any] = {
    "count": 1, "queue": "jobs", "payload": "x", "codec": None, "message_id": "0" * 32, "token": 1, "parts": 2,
    "run_id": "run", "kind": "kind", "key": "key", "keys": ["key"], "topic": "topic", "subscriber": "one",
    "older_than": 1e9, "state": "dead", "worker_id": "worker", "payloads": ["x"], "leases": [], "timeout": 1.0,
    "queues": ["jobs"], "limits": {"jobs": 1}, "changes": Changes(), "request": LeaseRequest("jobs"), "pages": [],
}  # fmt: skip


class ArgumentContract:
    def test_an_argument_of_a_wrong_type_is_refused_before_anything_happens(self, store: QueueStore) -> None:
        put(store, payload="kept", run_id="run")
        for name, checks in CHECKS.items():
            call = getattr(store, name, None)
            if call is None or name == "commit_within":
                continue
            parameters = inspect.signature(call).parameters
            needed = {one: _PLAIN[one] for one, of in parameters.items() if of.default is inspect.Parameter.empty}
            for argument in checks:
                for odd in ODD:
                    with pytest.raises(TypeError) as refused:
                        call(**needed | {argument: odd})
                    assert "must be" in str(refused.value), (name, argument, str(refused.value))
        assert [message.state for message in store.run_messages("run")] == ["ready"]
        assert_sound(store)

    def test_every_field_of_a_commit_has_a_checked_type(self, store: QueueStore) -> None:
        put(store, payload="kept")
        message = take(store)
        fine: dict[str, Any] = {
            "enqueue": new(store), "settle": Settle("jobs", message.id, "release", 1), "edges": Edge("a", "b"),
            "records": RecordWrite("kind", "key", b"v"),
        }  # fmt: skip
        for part, one in fine.items():
            for field in one._fields:
                if (part, field) == ("enqueue", "past"):
                    continue
                for odd in (object(), {"$ne": 1}) if field != "error" else (object(), "text"):
                    many = [one._replace(**{field: odd})]
                    for some in (many, [new(store) for _ in range(20)] + many if part == "enqueue" else many):
                        with pytest.raises(TypeError, match="must be"):
                            store.commit(Changes(**{part: some}))  # type: ignore[arg-type]
        for field in LeaseRequest._fields:
            with pytest.raises(TypeError, match="must be"):
                store.commit(Changes(lease=LeaseRequest("jobs")._replace(**{field: cast("Any", object())})))
        for delay in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="finite"):
                store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "x", delay=delay)]))
        assert [one.payload for one in store.scan("jobs")] == ["kept"]
        assert_sound(store)
