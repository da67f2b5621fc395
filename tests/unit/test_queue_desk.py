"""The desk is the queue's second face: it has a name, so nobody outside of `queue/` needs a private attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import localqueue
from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.errors import QueueFull
from localqueue.events import Event
from localqueue.stores.port import Changes

PACKAGE = Path(localqueue.__file__).parent
PARTS_OF_NAMEDTUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def private_names(source: str) -> set[str]:
    """The private attributes and methods that the classes of a module have."""
    tree = ast.parse(source)
    methods = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    attributes = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute) and _is_own(one.value)}
    return {name for name in methods | attributes if _is_private(name)}


def reached_into(source: str, names_of_queues: set[str]) -> Iterator[str]:
    """Where a module touches a private attribute of a queue: something called a queue, or a name only queues have."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "setattr", "hasattr", "delattr")
            and isinstance(node.args[1], ast.Constant)
        ):
            owner, name = node.args[0], str(node.args[1].value)
        else:
            continue
        if _is_private(name) and not _is_own(owner) and (_is_called_queue(owner) or name in names_of_queues):
            yield ast.unparse(node)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PARTS_OF_NAMEDTUPLE


def _is_own(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _is_called_queue(owner: ast.expr) -> bool:
    """`queue`, `self._queue`, `follow_up.queue`, `worker.queue.desk`, `queue_of(x)`, `queues[0]`, ..."""
    return "queue" in ast.unparse(owner).lower() or "desk" in ast.unparse(owner).lower()


NAMES_OF_QUEUES = set().union(*(private_names(one.read_text()) for one in (PACKAGE / "queue").rglob("*.py")))


def test_nobody_outside_of_the_queue_package_touches_a_private_attribute_of_a_queue() -> None:
    found = [
        f"{module.relative_to(PACKAGE)}: {access}"
        for module in sorted(PACKAGE.rglob("*.py"))
        # a store lies below the queue and never holds one
        if PACKAGE / "queue" not in module.parents and "stores" not in module.parts
        for access in reached_into(module.read_text(), NAMES_OF_QUEUES)
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "queue._commit(changes)",
        "self.queue._claim(request)",
        "self._queue._leased(stored)",
        "limits = {f.queue.name: f.queue._limit for f in follow_ups}",
        "to._bury(stored, problem)",
        "getattr(queue, '_store')",
        "self._worker.queue.desk._bury(stored)",
        "queue_of(message)._draft_one(item)",
        "queue._hidden = True",
    ],
)
def test_the_check_finds_every_way_of_reaching_into_a_queue(source: str) -> None:
    assert list(reached_into(source, NAMES_OF_QUEUES))


@pytest.mark.parametrize(
    "source",
    ["queue.desk.commit(changes)", "self._queue.put(1)", "self._commit()", "draft._replace(queue=name)", "job._saga"],
)
def test_the_check_leaves_the_rest_alone(source: str) -> None:
    assert not list(reached_into(source, NAMES_OF_QUEUES))


def test_what_the_desk_commits_is_told_to_the_hooks() -> None:
    told: list[Event] = []
    with MemoryQueueStore() as store:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=told.append)
        queue.desk.enqueue([queue.desk.draft("one")])
        (stored,) = queue.desk.claim(queue.desk.request)
        message = queue.desk.unpack(stored)
        assert message is not None
        queue.desk.commit(Changes(settle=[queue.desk.settlement(message, "ack")]), [message])
    assert [event.type for event in told] == ["enqueued", "leased", "acked"]


def test_a_commit_over_two_queues_is_told_to_the_hooks_of_each() -> None:
    first: list[Event] = []
    second: list[Event] = []
    with MemoryQueueStore() as store:
        one: PersistentQueue[int] = PersistentQueue("one", store=store, hooks=first.append)
        other: PersistentQueue[int] = PersistentQueue("other", store=store, hooks=second.append)
        one.desk.commit(Changes(enqueue=[one.desk.draft(1), other.desk.draft(2)]), others=[other.desk])
    assert [event.queue for event in first] == ["one"]
    assert [event.queue for event in second] == ["other"]


def test_what_the_desk_enqueues_keeps_to_the_limit_of_the_queue() -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=1)
        queue.desk.enqueue([queue.desk.draft(1)])
        with pytest.raises(QueueFull):
            queue.desk.enqueue([queue.desk.draft(2)])


def test_a_draft_with_an_option_that_does_not_exist_is_refused() -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
        with pytest.raises(TypeError, match="dealy"):
            queue.desk.draft(1, dealy=3.0)  # type: ignore[call-arg]


def test_a_queue_that_is_forgotten_is_freed_at_once() -> None:
    import gc
    import weakref

    with MemoryQueueStore() as store:
        gc.disable()
        try:
            queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
            queue.put(1)
            freed = weakref.ref(queue.desk)
            del queue
            assert freed() is None
        finally:
            gc.enable()
