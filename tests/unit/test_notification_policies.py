"""A notification wakes whoever waits, from any thread, and hides no failure."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from localqueue.policies import (
    AsyncioNotification,
    AsyncNotification,
    CallbackNotification,
    InProcessNotification,
    NoNotification,
)

DEADLINE = 20.0


def active(kind: str, listeners: int) -> dict[str, Any]:
    return {
        "type": kind,
        "scope": "in-process",
        "notifies": True,
        "notifies_on_put": True,
        "listener_count": listeners,
    }


@pytest.mark.parametrize(
    ("policy", "printed"),
    [
        (NoNotification(), {"notifies": False, "notifies_on_put": False, "listener_count": 0}),
        (CallbackNotification(print), active("callback", 1)),
        (CallbackNotification([print, repr]), active("callback", 2)),
        (InProcessNotification(), active("thread-event", 1)),
        (AsyncNotification(), active("asyncio-event", 1)),
    ],
)
def test_a_notification_prints_its_contract(policy: Any, printed: dict[str, Any]) -> None:
    assert list(policy.as_dict().items()) == list(printed.items())
    assert policy == policy and hash(policy) == hash(policy)
    assert type(policy).__name__ in repr(policy)


def test_no_notification_wakes_nobody() -> None:
    assert NoNotification().notify("m") is None  # type: ignore[func-returns-value]
    assert NoNotification() == NoNotification()


def test_a_callback_receives_the_message() -> None:
    seen: list[str] = []
    policy = CallbackNotification(seen.append)
    policy.notify("m")
    assert seen == ["m"]
    assert policy == CallbackNotification((seen.append,))


def fail(_: object) -> None:
    raise LookupError("no")


def test_a_failing_listener_is_visible_and_does_not_silence_the_others() -> None:
    seen: list[str] = []
    with pytest.raises(LookupError):
        CallbackNotification((fail, seen.append)).notify("m")
    assert seen == ["m"]


def test_several_failures_are_raised_together() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        CallbackNotification((fail, fail)).notify("m")
    assert len(caught.value.exceptions) == 2


@pytest.mark.parametrize(
    ("listeners", "error", "message"),
    [
        ((), ValueError, "^listeners cannot be empty$"),
        ((1,), TypeError, "listeners must be callable, got 1"),
    ],
)
def test_a_callback_notification_needs_listeners(listeners: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CallbackNotification(listeners)


def test_a_waiting_thread_is_woken() -> None:
    policy = InProcessNotification()
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(policy.wait(DEADLINE)))
    waiter.start()
    policy.notify("m")
    waiter.join(DEADLINE)
    assert woken == [True]


def test_a_cleared_thread_event_waits_again() -> None:
    event = threading.Event()
    policy = InProcessNotification(event)
    policy.notify("m")
    assert event.is_set() and policy.wait(0)
    policy.clear()
    assert not policy.wait(0)


def test_the_asyncio_notification_has_two_names() -> None:
    assert AsyncioNotification is AsyncNotification


def test_a_coroutine_is_woken_from_another_thread() -> None:
    async def main(policy: AsyncNotification) -> bool:
        waiting = asyncio.create_task(policy.wait_async(DEADLINE))
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(policy.notify, "m")
        return await waiting

    assert asyncio.run(main(AsyncNotification()))


def test_a_notification_before_the_wait_ends_it_at_once() -> None:
    policy = AsyncNotification()
    policy.notify("m")
    assert policy.event.is_set()
    assert asyncio.run(policy.wait_async())


def test_a_policy_outlives_the_event_loop_it_was_used_on() -> None:
    policy = AsyncNotification()

    async def wait_and_wake() -> bool:
        policy.clear()
        waiting = asyncio.create_task(policy.wait_async(DEADLINE))
        await asyncio.sleep(0)
        policy.notify("m")
        return await waiting

    assert asyncio.run(wait_and_wake())
    assert asyncio.run(wait_and_wake())
    policy.notify("m")


def test_every_waiting_coroutine_is_woken() -> None:
    async def main() -> list[bool]:
        policy = AsyncNotification()
        waiting = [asyncio.create_task(policy.wait_async(DEADLINE)) for _ in range(3)]
        await asyncio.sleep(0)
        policy.notify("m")
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == [True, True, True]


def test_the_event_is_set_on_the_loop_the_policy_was_made_on() -> None:
    async def main() -> bool:
        policy = AsyncNotification()
        assert policy.loop is asyncio.get_running_loop()
        waiting = asyncio.create_task(policy.event.wait())
        await asyncio.sleep(0)
        await asyncio.to_thread(policy.notify, "m")
        return await asyncio.wait_for(waiting, DEADLINE)

    assert asyncio.run(main())


def test_a_wait_that_times_out_leaves_nothing_behind() -> None:
    policy = AsyncNotification()

    async def main() -> bool:
        return await policy.wait_async(0.001)

    assert asyncio.run(main()) is False
    assert not policy._waiters.futures
    policy.notify("m")
    assert asyncio.run(main()) is True


def test_a_cleared_async_notification_waits_again() -> None:
    policy = AsyncNotification()
    policy.notify("m")
    policy.clear()
    assert asyncio.run(policy.wait_async(0.001)) is False
