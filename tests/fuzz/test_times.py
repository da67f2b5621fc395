"""Texts that say when: lengths of time, moments, cron expressions, time zones; schedules that somebody else wrote."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import Mistake
from localqueue.cli.pipeline_results import moment_of
from localqueue.cli.schedule import queues_with_schedules
from localqueue.contracts import FakeClock
from localqueue.errors import PayloadError, QueueStoreVersionError
from localqueue.schedules import CronSchedule, PeriodicSchedule, Scheduler
from localqueue.spark.jobs.arguments import moment
from localqueue.stores.port import Changes, RecordWrite
from tests.fuzz.effort import examples
from tests.fuzz.words import TIMES, things, words

texts = st.one_of(
    words,
    st.sampled_from(TIMES),
    st.builds("{}{}".format, st.integers(0) | st.floats(0), st.sampled_from(["", "ms", "s", "m", "h", "d", " d"])),
    st.datetimes(timezones=st.none() | st.timezones()).map(lambda one: one.isoformat()),
)
fields = st.one_of(
    st.sampled_from(
        ["*", "0", "*/15", "1-5", "L", "MON", "31", "29", "2", "5L", "1#5", "*/0", "5-1", "9" * 5000, "1,2", "?"]
    ),
    st.text("0123456789*/,-L#", min_size=1, max_size=5),
)


@given(text=texts)
@example(text="0001-01-01T00:00:00+23:59")
@example(text="9999-12-31T23:59:59-23:59")
@example(text="0001-01-01")
@examples(40)
def test_a_text_is_a_time_or_no_time(text: str) -> None:
    try:
        assert 0 <= seconds_of(text, "--every") < math.inf
    except Mistake as error:
        assert "--every" in str(error) and repr(text)[:50] in str(error)
    try:
        found = moment_of(text, "--since")
        assert isinstance(found, datetime) and found.tzinfo is not None
    except Mistake as error:
        assert "--since" in str(error) and repr(text)[:50] in str(error)


@given(value=things | texts | st.floats())
@example(value="0001-01-01T00:00:00+23:59")
@example(value=1e18)
@example(value=math.nan)
@examples(40)
def test_a_moment_of_a_job_is_one_or_is_refused(value: Any) -> None:
    try:
        found = moment("since", value)
        assert value is None or (isinstance(found, datetime) and found.tzinfo is not None)
    except ValueError as error:
        assert "since" in str(error)


@given(cron=st.lists(fields, min_size=5, max_size=5).map(" ".join) | words, timezone=words | st.just("Europe/Berlin"))
@example(cron="9" * 5000 + " * * * *", timezone="UTC")
@example(cron="0 0 * * *", timezone="../../etc/passwd")
@examples(30)
def test_a_cron_expression_has_ticks_or_is_refused(cron: str, timezone: str) -> None:
    for zone in {timezone, "UTC"}:
        try:
            schedule = CronSchedule("nightly", cron=cron, timezone=zone)
        except ValueError as error:
            assert "cron" in str(error) or "timezone" in str(error)
        else:
            following = schedule.next_after(1.7e9)
            assert following is None or following > 1.7e9


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    """A schedule as a scheduler writes it."""
    with MemoryQueueStore(clock=FakeClock()) as store:
        Scheduler(PersistentQueue[Any]("jobs", store=store)).add(PeriodicSchedule("often", every=1.0, start_at=0.0))
        return json.loads(store.records("schedule")[0].value)  # type: ignore[no-any-return]


@st.composite
def damaged(draw: st.DrawFn) -> bytes | list[tuple[str, str, Any]]:
    """Other bytes, or other values in the record."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=20) | st.sampled_from([b"[]", b"null", b"{}", b"[" * 100_000, b'{"format": 1}']))
    plain = st.none() | st.booleans() | st.integers() | st.floats() | words | st.lists(st.integers(), max_size=1)
    names = st.sampled_from(
        [
            "type",
            "codec",
            "text",
            "base64",
            "every",
            "start_at",
            "missed",
            "headers",
            "x",
            "anchor",
            "next_at",
            "last_at",
        ]
    )
    return draw(st.lists(st.tuples(st.sampled_from(["settings", "progress"]), names, plain), min_size=1, max_size=3))


@given(damage=damaged())
@example(damage=[("progress", "anchor", -1e300)])
@example(damage=[("progress", "next_at", "x")])
@example(damage=[("settings", "every", "x")])
@examples(30)
def test_a_schedule_that_can_not_be_read_does_not_hold_up_the_others(stored: dict[str, Any], damage: Any) -> None:
    content = damage
    if not isinstance(damage, bytes):
        changed = {part: {**stored[part]} if part != "format" else stored[part] for part in stored}
        for part, name, value in damage:
            changed[part][name] = value
        content = json.dumps(changed).encode()
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        scheduler = Scheduler(queue)
        store.commit(Changes(records=[RecordWrite("schedule", "jobs:broken", content)]))
        scheduler.add(PeriodicSchedule("sound", every=60.0, start_at=0.0))
        clock.advance(120.0)
        assert queues_with_schedules(store) == ["jobs"]
        for call in (scheduler.tick, scheduler.list, scheduler.next_tick, lambda: scheduler.get("broken")):
            try:
                call()
            except (PayloadError, QueueStoreVersionError) as error:
                assert "'broken'" in str(error)
        assert [one for one in queue.messages() if one.headers["localqueue-schedule"] == "sound"] or _is_newer(content)
        assert scheduler.remove("broken") and [one.name for one in scheduler.list()] == ["sound"]


def _is_newer(content: bytes) -> bool:
    """Whether it looks like one of a release to come, at whose schedules all stop."""
    found = json.loads(content)
    return bool(found["format"] != 1 or found["settings"]["type"] not in ("periodic", "cron"))
