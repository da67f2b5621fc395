# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.testing.assertions import (
    assert_enqueued as assert_enqueued,
    assert_not_enqueued as assert_not_enqueued,
)
from localqueue.testing.clock import Clock as Clock
from localqueue.testing.store import (
    memory_store as memory_store,
    use_store as use_store,
)
from localqueue.testing.work import (
    drain as drain,
    drain_async as drain_async,
    inline as inline,
)
