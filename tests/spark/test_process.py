"""Workers of a queue as tasks of Spark."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.spark.jobs import process_leash as leash
from localqueue.spark.jobs import process_task
from localqueue.spark.jobs.process import ProcessResult, parallelism, process
from localqueue.spark.jobs.process_task import Plan, load, work
from localqueue.spark.options import OptionError, parse
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.url import open_store
from localqueue.workers.signals import HardStop


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PersistentQueue[Any]]:
    with closing(open_store(url)) as store, PersistentQueue[Any]("jobs", store=store, **options) as queue:
        yield queue


def put(url: str, *values: Any) -> None:
    with opened(url) as queue:
        queue.put_many(list(values))


def stats(url: str) -> Any:
    with opened(url) as queue:
        return queue.stats()


def plan(url: str, handler: Any, **changed: Any) -> Plan:
    """Of a job whose driver is there."""
    with closing(open_store(url)) as store:
        leash.hold(store, "j")
    options = parse({"url": url, "queue": "jobs"})
    return Plan(**{"job": "j", "options": options, "handler": handler, "until_empty": True, **changed})


def nothing(value: Any) -> None:
    pass


class _Conf(dict[str, str]):
    pass


class Session:
    """What `process` asks of a session before it starts anything."""

    def __init__(self, **conf: str) -> None:
        self.conf = _Conf(conf)


# without Spark: what a task does, and what is refused before there is one


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"handler": "no_colon"}, "handler must be 'module:function'"),
        ({"handler": "a:b:c"}, "handler must be 'module:function'"),
        ({"until": "later"}, "until must be 'empty', 'forever' or seconds"),
        ({"until": 0}, "until must be"),
        ({"until": True}, "until must be"),
        ({"workers": 0}, "workers must be a whole number from 1"),
        ({"executor": "processes"}, "executor is not an option of process"),
        ({"prefetch": 0}, "prefetch"),
        ({"url": "memory://"}, "memory store"),
        ({"handler": threading.Lock().acquire}, "can not be sent to the tasks"),
    ],
)
def test_what_can_not_be_is_said_before_spark_is_asked(url: str, given: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"url": url, "queue": "jobs", "handler": nothing, "workers": 1, **given}
    with pytest.raises(ValueError, match=said):
        process(Session(), **arguments)  # type: ignore[arg-type]


def test_speculation_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match=r"spark\.speculation=false"):
        process(Session(**{"spark.speculation": "true"}), url=url, queue="jobs", handler=nothing)  # type: ignore[arg-type]


def test_a_handler_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handlers_of_this_test.py").write_text("class Group:\n    handle = staticmethod(len)\nnumber = 5\n")
    monkeypatch.setattr("sys.path", [*os.sys.path])  # type: ignore[attr-defined]
    assert load("handlers_of_this_test:Group.handle", (str(tmp_path), str(tmp_path / "missing"))) is len
    for spec, said in (
        ("handlers_of_this_test:number", "is not callable"),
        ("handlers_of_this_test:other", "can not be imported"),
        ("no_such_module_at_all:f", r"ModuleNotFoundError.*addArtifacts"),
    ):
        with pytest.raises(ValueError, match=said):
            load(spec)


def test_a_task_finishes_when_the_driver_lets_go_of_it(url: str) -> None:
    put(url, *range(3))
    store = open_store(url)
    seen = []

    def handler(value: int) -> None:
        seen.append(value)
        if len(seen) == 3:
            leash.let_go(store, "j")

    task = plan(url, handler, until_empty=False)
    assert work(task, "me").acked == len(seen) == 3
    assert work(task, "me").total == 0, "let go before it began"
    store.close()


def test_a_driver_that_is_not_heard_of_lets_go_and_its_record_is_swept_later(tmp_path: Path) -> None:
    time_ = [1000.0]
    with closing(SQLiteQueueStore(str(tmp_path / "jobs.db"), clock=lambda: time_[0])) as store:
        leash.hold(store, "j")
        assert leash.word(store, "j") == leash.GO_ON
        time_[0] += leash.PATIENCE + 1
        assert leash.word(store, "j") is None
        leash.cut(store, "other")
        assert leash.word(store, "other") == leash.END_AT_ONCE
        leash.sweep(store)
        assert [record.key for record in store.records(leash.KIND)] == ["j", "other"]
        time_[0] += 4000
        leash.sweep(store)
        assert store.records(leash.KIND) == []


def test_a_task_stops_at_its_time_on_the_clock_of_the_store(url: str) -> None:
    with opened(url) as queue:
        end = queue.store.now() + 0.3
        assert work(plan(url, nothing, until_empty=False, ends_at=end), "me").total == 0
        assert end <= queue.store.now() < end + 30


def test_the_successor_of_a_lost_task_waits_for_its_leases(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_task, "_LOOK", 0.2)
    put(url, "left behind")
    with opened(url, lease_timeout=60.0) as queue:
        left = queue.get_message(leased_by="the task that is gone")
        assert work(plan(url, nothing), "another").acked == 0
        queue.renew(left, timeout=1.0)  # and from here on it may take its time
        assert work(plan(url, nothing), "successor", is_retry=True).acked == 1


def test_a_coroutine_function_is_awaited(url: str) -> None:
    put(url, 1, 2)
    seen = []

    async def handler(value: int) -> None:
        seen.append(value)

    assert work(plan(url, handler), "me").acked == 2
    assert sorted(seen) == [1, 2]


# on Spark


def meeting(folder: str) -> Callable[[int], None]:
    """A handler that returns when the handlers of both messages run at the same time."""

    def meet(value: int) -> None:
        Path(folder, f"here-{value}").touch()
        deadline = time.monotonic() + 60
        while not all(Path(folder, f"here-{one}").exists() for one in (0, 1)):
            assert time.monotonic() < deadline, "the other one never came"
            time.sleep(0.01)

    return meet


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_tasks_run_at_the_same_time_and_tell_what_they_did(spark: Any, url: str, tmp_path: Path) -> None:
    assert parallelism(spark) == 2
    put(url, 0, 1)
    told: list[Any] = []
    result = process(spark, url=url, queue="jobs", handler=meeting(str(tmp_path)), max_tries=1, progress=told.append)
    assert isinstance(result, ProcessResult)
    assert [task.acked for task in result.tasks] == [1, 1]
    assert (result.processed, result.failed) == (2, 0)
    assert len({task.pid for task in result.tasks}) == 2 and os.getpid() not in {task.pid for task in result.tasks}
    assert all(task.host and task.seconds > 0 and task.attempt == 0 for task in result.tasks)
    assert stats(url).total == 0


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_named_handler_that_fails_leads_to_dead_letters(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def odd(value):\n    if value % 2:\n        raise ValueError('odd')\n"
    (tmp_path / "failing_handlers.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    put(url, *range(10))
    result = process(spark, url=url, queue="jobs", handler="failing_handlers:odd", prefetch=3, max_tries=1, workers=3)
    assert (result.processed, result.failed, result.dead_lettered, len(result.tasks)) == (5, 5, 5, 3)
    assert (stats(url).dead, stats(url).total) == (5, 5)
    with pytest.raises(ValueError, match=r"handler 'failing_handlers:even' can not be imported on"):
        process(spark, url=url, queue="jobs", handler="failing_handlers:even", until="forever")
    with opened(url) as queue:
        assert queue.store.records(leash.KIND) == []


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_signal_lets_handlers_finish_and_a_second_one_cancels(spark: Any, url: str, tmp_path: Path) -> None:
    def signals(*when: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        for one in when:
            while not one() and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)

    def slow(value: str) -> None:
        Path(value).touch()
        while not Path(value).with_suffix(".end").exists():
            time.sleep(0.01)

    first, second = tmp_path / "first", tmp_path / "second"

    def asked() -> bool:
        with closing(open_store(url)) as store:
            return not store.records(leash.KIND)

    def let_go() -> None:
        while not (first.exists() and asked()):
            time.sleep(0.01)
        first.with_suffix(".end").touch()

    put(url, str(first))
    threads = [threading.Thread(target=signals, args=(first.exists,)), threading.Thread(target=let_go)]
    for thread in threads:
        thread.start()
    result = process(spark, url=url, queue="jobs", handler=slow, until="forever")
    assert result.processed == 1
    for thread in threads:
        thread.join()

    put(url, str(second))
    thread = threading.Thread(target=signals, args=(second.exists, asked))
    thread.start()
    with pytest.raises(HardStop):
        process(spark, url=url, queue="jobs", handler=slow, until="forever", lease_timeout=5.0)
    thread.join()
    assert stats(url).total == 1, "it is delivered again when its lease has run out"
    ids = spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
    assert len(ids) == 2, "the slots are free"
