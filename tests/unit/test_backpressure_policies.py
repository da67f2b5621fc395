"""Each strategy knows when the queue is full and names what it may lose."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue.policies import (
    BoundedBackpressure,
    DropNewest,
    DropOldest,
    OverflowToQueue,
    RejectingBackpressure,
    Throttling,
)

LIMITED: list[Any] = [
    DropNewest,
    DropOldest,
    Throttling,
    lambda maxsize: OverflowToQueue(maxsize, queue="spare"),
]
ALL: list[Any] = [BoundedBackpressure, RejectingBackpressure, *LIMITED]


@pytest.mark.parametrize(
    ("strategy", "printed"),
    [
        (BoundedBackpressure(2), {"type": "bounded", "maxsize": 2, "overflow": "block"}),
        (
            BoundedBackpressure(2, overflow="reject"),
            {"type": "bounded", "maxsize": 2, "overflow": "reject"},
        ),
        (RejectingBackpressure(2), {"type": "rejecting", "maxsize": 2, "overflow": "reject"}),
        (
            DropNewest(2),
            {
                "type": "drop-newest",
                "maxsize": 2,
                "overflow": "drop-newest",
                "data_loss": "the message being put when the queue is full",
            },
        ),
        (
            DropOldest(2),
            {
                "type": "drop-oldest",
                "maxsize": 2,
                "overflow": "drop-oldest",
                "data_loss": "the oldest ready message when the queue is full",
            },
        ),
        (
            Throttling(2),
            {
                "type": "throttling",
                "maxsize": 2,
                "overflow": "throttle",
                "data_loss": "none",
                "delay": 0.01,
                "max_delay": 1.0,
            },
        ),
        (
            OverflowToQueue(2, queue="spare"),
            {
                "type": "overflow-queue",
                "maxsize": 2,
                "overflow": "overflow-queue",
                "data_loss": "none",
                "queue": "spare",
            },
        ),
    ],
)
def test_a_strategy_prints_what_happens_when_full(strategy: Any, printed: dict[str, Any]) -> None:
    assert list(strategy.as_dict().items()) == list(printed.items())
    assert repr(strategy).startswith(type(strategy).__name__)


@pytest.mark.parametrize("make", ALL)
def test_a_queue_is_full_from_its_limit_on(make: Any) -> None:
    strategy = make(2)
    assert [strategy.is_full(qsize=size) for size in (0, 1, 2, 3)] == [False, False, True, True]
    assert strategy == make(2) and strategy != make(3)


@pytest.mark.parametrize("make", [BoundedBackpressure, RejectingBackpressure])
def test_a_limit_of_zero_is_never_full(make: Any) -> None:
    assert make() == make(0)
    assert not make().is_full(qsize=10**9)


@pytest.mark.parametrize("make", [BoundedBackpressure, RejectingBackpressure])
def test_a_limit_can_not_be_negative(make: Any) -> None:
    with pytest.raises(ValueError, match=r"^maxsize cannot be negative$"):
        make(-1)


@pytest.mark.parametrize("make", LIMITED)
@pytest.mark.parametrize("maxsize", [0, -1])
def test_a_strategy_that_acts_on_overflow_needs_a_limit(make: Any, maxsize: int) -> None:
    with pytest.raises(ValueError, match=f"maxsize must be greater than zero, got {maxsize}"):
        make(maxsize)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("maxsize", [True, 1.0, "1", None])
def test_a_limit_is_an_integer(make: Any, maxsize: Any) -> None:
    with pytest.raises(TypeError, match=f"maxsize must be an integer, got {maxsize!r}"):
        make(maxsize)


def test_an_unknown_overflow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^backpressure overflow must be 'block' or 'reject'$"):
        BoundedBackpressure(1, overflow="drop")
    with pytest.raises(ValueError, match=r"^rejecting backpressure overflow must be 'reject'$"):
        RejectingBackpressure(1, overflow="block")
    with pytest.raises(ValueError, match="overflow must be 'drop-oldest', got 'block'"):
        DropOldest(1, overflow="block")


def test_throttling_slows_more_the_further_the_queue_is_behind() -> None:
    throttling = Throttling(10, delay=0.5, max_delay=1.5)
    delays = [throttling.delay_for(qsize=size) for size in (9, 10, 11, 12, 10**6)]
    assert delays == [0.0, 0.5, 1.0, 1.5, 1.5]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delay": 0}, ValueError, "delay must be greater than zero, got 0"),
        ({"delay": float("nan")}, ValueError, "delay must be finite, got nan"),
        ({"delay": True}, TypeError, "delay must be a number of seconds, got True"),
        ({"max_delay": float("inf")}, ValueError, "max_delay must be finite, got inf"),
        ({"delay": 2.0}, ValueError, "max_delay must be at least delay, got 1.0 < 2.0"),
    ],
)
def test_throttling_delays_are_finite_and_ordered(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Throttling(1, **options)


@pytest.mark.parametrize(
    ("queue", "error", "message"),
    [
        ("", ValueError, "overflow queue name cannot be empty"),
        ("a:b", ValueError, "overflow queue name cannot contain ':'"),
        (None, TypeError, "overflow queue name must be a string, got None"),
    ],
)
def test_an_overflow_queue_has_a_usable_name(queue: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OverflowToQueue(1, queue=queue)
