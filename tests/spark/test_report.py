"""Reports of a journal: their numbers, their page, and the same as a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, PersistentWorkerConfig, SQLiteQueueStore, Worker
from localqueue.spark.columns import EVENTS, spark_schema
from localqueue.spark.error_shape import UNKNOWN, shape_of
from localqueue.spark.jobs.facts import width_for
from localqueue.spark.jobs.report_page import page
from localqueue.spark.jobs.report_text import ceiling, duration, number, share, ticks
from localqueue.spark.options import OptionError
from localqueue.stores.port import Changes
from localqueue.workflows.records import RUN, RUN_STATES, RunHeader, write

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)

Row = tuple[Any, ...]


def entry(
    seq: int,
    at: float,
    type: str,
    message: str,
    attempt: int | None = None,
    worker: str | None = None,
    error: tuple[str, str] | None = None,
    queue: str = "jobs",
) -> Row:
    """A row of the view `events`."""
    told = None if error is None else (error[0], "builtins", error[1])
    row = (seq, BEGIN + timedelta(seconds=at), type, queue, message, attempt, worker, told)
    return row + (None,) * (len(EVENTS) - len(row))


def told(*entries: tuple[Any, ...]) -> list[Row]:
    return [entry(seq, *one) for seq, one in enumerate(entries, 1)]


#: Everything that can become of a message, at times that are easy to reckon with.
STORY = told(
    (0.0, "leased", "early", 1, "w1"),  # put before the journal begins
    (0.0, "enqueued", "a"),
    (1.0, "acked", "early", 1, "w1"),
    (2.0, "leased", "a", 1, "w1"),
    (3.0, "renewed", "a", 1, "w1"),
    (5.0, "acked", "a", 1, "w1"),
    (10.0, "enqueued", "b"),
    (11.0, "leased", "b", 1, "w1"),
    (12.0, "released", "b", 1, "w1", ("OSError", "disk 7 is full")),
    (20.0, "leased", "b", 2, "w2"),
    (24.0, "acked", "b", 2, "w2"),
    (30.0, "enqueued", "c"),
    (31.0, "leased", "c", 1, "w2"),
    (41.0, "lease_expired", "c", 1, "w2", ("AttemptsExhausted", "delivered 1 times")),
    (41.0, "dead_lettered", "c", 1, None, ("AttemptsExhausted", "delivered 1 times")),
    (50.0, "requeued", "c", 1),
    (52.0, "leased", "c", 2, "w2"),
    (53.0, "dead_lettered", "c", 2, "w2", ("OSError", "disk 12 is full")),
    (60.0, "enqueued", "d", None, None, None, "mail"),
    (61.0, "leased", "d", 1, "w3", None, "mail"),
    (62.0, "released", "d", 1, "w3", None, "mail"),  # given back unseen
    (63.0, "enqueued", "e", None, None, None, "mail"),
    (64.0, "purged", "c", 2),
)


class Reading(HTMLParser):
    """Checks that what is opened is closed, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# ------------------------------------------------------------------ without Spark


@pytest.mark.parametrize(
    ("type", "message", "shape"),
    [
        ("OSError", "can't read 'a/17.csv' after 3 tries", "OSError: can't read <text> after <n> tries"),
        ("KeyError", "'customer-12'", "KeyError: <text>"),
        ("E", "order 7d9f0c1e-aaaa-4bbb-8ccc-0123456789ab at 0x7fFf", "E: order <uuid> at <hex>"),
        ("E", "commit 9fceb02d0ae598e9 of host10.example:5432", "E: commit <hex> of host<n>.example:<n>"),
        ("E", "-3.5 is below 1,000 on 2026-01-31", "E: <n> is below <n> on <n>"),
        ("E", 'say "x" and `y`\n  twice', "E: say <text> and <text> twice"),
        ("E", "deadbeef is a word, cafe too", "E: deadbeef is a word, cafe too"),
        ("E", "the users' table isn't there", "E: the users' table isn't there"),
        ("E", "", "E"),
        (None, "lost", "lost"),
        (None, None, UNKNOWN),
    ],
)
def test_errors_that_differ_in_details_have_one_shape(type: str | None, message: str | None, shape: str) -> None:
    assert shape_of(type, message) == shape


def test_numbers_durations_and_shares_are_written_for_people() -> None:
    assert [number(n) for n in (0, 1234567, 0.8, 812.4, None)] == ["0", "1,234,567", "0.8", "812", "–"]  # noqa: RUF001
    assert [duration(s) for s in (0, 0.00084, 0.0125, 3.416, 312, 10_800)] == [
        "0 s", "840 µs", "12.5 ms", "3.42 s", "5.2 min", "3 h",
    ]  # fmt: skip
    assert [share(s) for s in (0.0, 0.0001, 0.157, 0.9999, 1.0)] == ["0 %", "< 0.1 %", "15.7 %", "> 99.9 %", "100 %"]


def test_axes_have_round_lines() -> None:
    assert [ceiling(n) for n in (0, 7, 58, 243)] == [(1, 0.5), (8, 2), (60, 20), (300, 100)]
    assert ceiling(95, time=True) == (120, 30)
    assert ticks([BEGIN + timedelta(minutes=m) for m in range(4)]) == [
        (0, "12:00:00"), (1, "12:01:00"), (2, "12:02:00"), (3, "12:03:00"),
    ]  # fmt: skip


def test_a_bucket_is_as_wide_as_the_span_needs() -> None:
    assert [width_for(span, 120) for span in (0, 119, 1500, 86_400, 1e12)] == [1, 1, 30, 1800, 604_800]


def rows_with(text: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of a tiny report, every text of which is `text`."""
    later = BEGIN + timedelta(seconds=30)
    counts = {"enqueued": 1234, "leased": 3, "acked": 2, "retried": 1, "dead_lettered": 1, "backlog": 1}
    flow = {"events": 1240, **counts, "retry_rate": 0.3, "success_rate": 0.6, "first_at": BEGIN, "last_at": later}
    times = {"count": 2, "p50": 0.1, "p90": 0.2, "p95": 0.2, "p99": 0.3, "max": 9.0, "mean": 0.2, "precision": "exact"}
    seen = {"first_seen": BEGIN, "last_seen": later}
    ends = {"delivered": 1, "succeeded": 1, "failed": 0, "dead_lettered": 0}
    return {
        "flow": [{"queue": queue, **flow} for queue in (None, text)],
        "latencies": [{"queue": queue, "measure": "run", **times} for queue in (None, text)],
        "throughput": [{"bucket": at, "queue": None, **counts} for at in (BEGIN, later)],
        "latency_over_time": [{"bucket": BEGIN, "measure": "run", **times}],
        "retries": [{"queue": None, "attempt": n, **ends} for n in (1, 2, 12)],
        "dead_letters": [
            {"shape": text, "count": 1, "queues": [text], **seen, "sample_id": text, "sample_message": text}
        ],
        "workers": [{"worker": text, "processed": 1, "failed": 0, "busy": 1.0, "p50": None, "p95": None, **seen}],
        "slowest": [
            {"message_id": text, "queue": text, "total": 1.0, "wait": None, "run": 1.0, "attempts": 1,
             "enqueued_at": BEGIN, "worker": text}
        ],
        "workflows": [
            {"workflow": text, "version": 1, "runs": 1, **dict.fromkeys(RUN_STATES, 1), "paused": 0, **times}
        ],
        "workflow_steps": [
            {"workflow": text, "version": 1, "step": text, "kind": None, "runs": 1, "times": 1, "skipped": 0,
             "failures": 0, "retries": 0, **times}
        ],
        "slowest_steps": [
            {"run_id": text, "workflow": text, "step": text, "item": 3, "step_state": "failed", "seconds": None,
             "attempts": 1, "started_at": BEGIN, "worker": text}
        ],
    }  # fmt: skip


def test_the_page_is_whole_and_holds_nothing_that_messages_could_put_into_it() -> None:
    evil = """</td></style><script>alert("x")</script><img src=x onerror='y'>"""

    reading = Reading(page(rows_with(evil), title=evil, source=evil, width=10, refresh=15))

    assert {tag for tag, _ in reading.tags}.isdisjoint({"script", "img", "link", "iframe"})
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in reading.tags for name in attrs)
    assert reading.text.count(evil) >= 15
    assert "1,234" in reading.text and "2026-01-31 12:00:30 UTC" in reading.text and "later" in reading.text
    assert ("meta", {"http-equiv": "refresh", "content": "15"}) in reading.tags


def journalless(folder: Path) -> str:
    SQLiteQueueStore(str(folder / "q.db")).close()
    return f"sqlite:///{folder / 'q.db'}"


def test_a_journal_that_is_off_is_told_with_how_to_switch_it_on(tmp_path: Path) -> None:
    from localqueue.spark.jobs.live_report import stream_report
    from localqueue.spark.jobs.report import report

    url, no_spark = journalless(tmp_path), None  # neither gets as far as Spark
    reports: tuple[Callable[[], object], ...] = (
        lambda: report(no_spark, url),  # type: ignore[arg-type]
        lambda: stream_report(no_spark, url, checkpoint=tmp_path, output=tmp_path),  # type: ignore[arg-type]
    )
    for make in reports:
        with pytest.raises(ValueError, match=r"enable_journal\(\) or `localqueue queue journal --enable`"):
            make()


def test_what_can_not_be_reported_is_refused(tmp_path: Path) -> None:
    from localqueue.spark.jobs.live_report import stream_report
    from localqueue.spark.jobs.report import report

    spark: Any = None
    with pytest.raises(OptionError, match="bucket must be a whole number of seconds"):
        report(spark, bucket=0)
    with pytest.raises(ValueError, match="since must be a time with its zone"):
        report(spark, journalless(tmp_path), since=datetime(2026, 1, 31))
    with pytest.raises(ValueError, match="give one of them"):
        stream_report(spark, checkpoint="c", output="o", trigger="1 second", available_now=True)


# ------------------------------------------------------------------ on Spark


def one(rows: list[dict[str, Any]], **where: Any) -> dict[str, Any]:
    [row] = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return row


def test_a_report_tells_what_the_journal_tells(spark: Any, tmp_path: Path) -> None:
    from localqueue.spark.jobs.report import report

    said: list[str] = []
    events = spark.createDataFrame(STORY, spark_schema(EVENTS))

    made = report(spark, events=events, bucket=10, html=tmp_path / "r.html", title="Story", progress=said.append)

    flow = one(made.rows("flow"), queue=None)
    assert (flow["events"], flow["enqueued"], flow["acked"], flow["dead_lettered"]) == (23, 5, 3, 2)
    assert (flow["deliveries"], flow["retried"], flow["backlog"]) == (7, 2, 2)
    assert one(made.rows("flow"), queue="jobs")["backlog"] == 0
    assert (flow["success_rate"], flow["retry_rate"]) == (0.6, pytest.approx(2 / 7))

    wait, run, total = (one(made.rows("latencies"), queue="jobs", measure=name) for name in ("wait", "run", "total"))
    assert (wait["count"], wait["p50"], wait["max"]) == (3, 1.0, 2.0)
    assert (run["count"], run["p50"], run["max"], run["mean"]) == (5, 1.0, 4.0, pytest.approx(10 / 5))
    assert (total["count"], total["p50"], total["max"]) == (2, 9.5, 14.0)
    assert {row["precision"] for row in made.rows("latencies")} == {"exact"}

    backlog = {row["bucket"]: row["backlog"] for row in made.rows("throughput") if row["queue"] is None}
    assert [backlog[BEGIN + timedelta(seconds=s)] for s in (0, 10, 20, 30, 40, 50, 60)] == [0, 1, 0, 1, 0, 0, 2]

    second = one(made.rows("retries"), queue=None, attempt=2)
    assert (second["delivered"], second["succeeded"], second["dead_lettered"]) == (2, 1, 1)
    assert second["share_so_far"] == 1.0
    assert one(made.rows("retries"), queue=None, attempt=1)["failed"] == 2

    assert [(row["shape"], row["count"], row["sample_id"]) for row in made.rows("dead_letters")] == [
        ("AttemptsExhausted: delivered <n> times", 1, "c"), ("OSError: disk <n> is full", 1, "c"),
    ]  # fmt: skip
    first_worker = one(made.rows("workers"), worker="w1")
    assert (first_worker["processed"], first_worker["failed"], first_worker["busy"]) == (2, 1, 5.0)
    assert one(made.rows("workers"), worker="w3")["returned"] == 1
    assert [(row["message_id"], row["wait"], row["run"]) for row in made.rows("slowest")] == [
        ("b", 1.0, 4.0), ("a", 2.0, 3.0),
    ]  # fmt: skip

    assert made.tables["flow"].count() == 3
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
    assert "acked 3, dead-lettered 2, backlog 2" in made.summary
    assert {"23 events", "latencies", "page"} <= set(said)
    assert made.html_path == str(tmp_path / "r.html") and "Story" in Reading(Path(made.html_path).read_text()).text
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_period_without_entries_is_an_error_and_one_with_some_counts_only_those(spark: Any) -> None:
    from localqueue.spark.jobs import analytics
    from localqueue.spark.jobs.report import report

    events = spark.createDataFrame(STORY, spark_schema(EVENTS))

    with pytest.raises(ValueError, match="no journal entries of queue 'jobs' since 2026-02-01"):
        report(spark, events=events, queue="jobs", since=BEGIN + timedelta(days=1))
    with pytest.raises(ValueError, match="events have no column 'error'"):
        report(spark, events=events.drop("error"))

    # `c` was put before: it counts, but nobody knows how long it waited.
    later = events.where(events.at >= BEGIN + timedelta(seconds=31))
    flow = one([row.asDict() for row in analytics.flow(later).collect()], queue="jobs")
    assert (flow["enqueued"], flow["dead_lettered"], flow["backlog"]) == (0, 2, 0)
    assert [row.measure for row in analytics.latencies(later.where("queue = 'jobs'")).collect()] == ["run", "run"]


def test_the_shape_is_the_same_in_spark_and_in_python(spark: Any) -> None:
    from localqueue.spark.error_shape import error_shape

    errors = [
        ("OSError", "can't read 'a/17.csv' after 3 tries"), ("E", "order 7d9f0c1e-aaaa-4bbb-8ccc-0123456789ab 0x7f"),
        ("E", "9fceb02d0ae598e9 of host10:5432 -3.5 a-7"), ("E", "say \"x\" 'y' `z`\n\t twice  "), ("E", ""), ("", "m"),
        (None, "lost"), ("E", None), (None, None), ("É", "größer als ١٢ 'ü' " + "🙂" * 300), ("E", "$1 \\d users' 'x"),
    ]  # fmt: skip
    rows = [(n, (type, None, message)) for n, (type, message) in enumerate(errors)]
    table = spark.createDataFrame(rows, "n int, error struct<type: string, module: string, message: string>")

    found = [row[0] for row in table.coalesce(1).orderBy("n").select(error_shape("error")).collect()]

    assert found == [shape_of(type, message) for type, message in errors]


def work(folder: Path, count: int) -> SQLiteQueueStore:
    """A store whose journal real workers wrote: of `count` messages every fifth fails once, and one always."""
    store = SQLiteQueueStore(str(folder / "q.db"))
    store.enable_journal()
    queue = PersistentQueue("jobs", store=store)
    queue.put_many(list(range(count)))
    failed: set[int] = set()
    lock = threading.Lock()

    def handle(value: int) -> None:
        with lock:
            again = value in failed
            failed.add(value)
        if value == 3 or (value % 5 == 0 and not again):
            raise OSError(f"disk {value} is full")

    config = PersistentWorkerConfig(max_tries=2, release_delay=0)
    Worker(queue, handle, config=config, worker_id="w1").run_until_empty(wait_for_delayed=True)
    return store


@pytest.mark.timeout(300)
def test_a_report_and_a_stream_of_what_real_workers_did(spark: Any, tmp_path: Path) -> None:
    from localqueue.spark.jobs.live_report import stream_report
    from localqueue.spark.jobs.report import report

    with work(tmp_path, 40) as store:
        begun = RunHeader(workflow="order", version=1, definition="", home="jobs")
        store.commit(Changes(records=[write(RUN, "order-1", begun)]))
    url = f"sqlite:///{tmp_path / 'q.db'}"

    made = report(spark, url, queue="jobs")
    query = stream_report(spark, url, checkpoint=tmp_path / "c", output=tmp_path / "out", available_now=True)
    assert query.awaitTermination(200)

    flow = one(made.rows("flow"), queue="jobs")
    assert (flow["enqueued"], flow["acked"], flow["dead_lettered"], flow["retried"]) == (40, 39, 1, 9)
    assert [row["shape"] for row in made.rows("dead_letters")] == ["OSError: disk <n> is full"]
    assert one(made.rows("workers"), worker="w1")["processed"] == 39
    assert one(made.rows("latencies"), queue="jobs", measure="total")["count"] == 39
    assert tables_in(tmp_path / "out")["flow"] == made.rows("flow")
    assert [(row["workflow"], row["runs"], row["running"]) for row in made.rows("workflows")] == [("order", 1, 1)]
    assert "workflow order version 1: runs 1, succeeded 0, failed 0, running 1; p50" in made.summary


def tables_in(output: Path) -> dict[str, list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    return {path.stem: pq.read_table(path).to_pylist() for path in (output / "tables").iterdir()}


@pytest.mark.timeout(300)
def test_a_stream_reports_the_same_and_counts_a_batch_once_that_is_done_again(spark: Any, tmp_path: Path) -> None:
    from localqueue.spark.jobs import analytics
    from localqueue.spark.jobs.live_report import stream_report

    schema = spark_schema(EVENTS)
    source, checkpoint, output = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "out"

    def follow() -> list[str]:
        said: list[str] = []
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
        query = stream_report(
            spark, events=stream, checkpoint=checkpoint, output=output, available_now=True, progress=said.append
        )
        assert query.awaitTermination(140)
        return said

    for part in (STORY[:13], STORY[13:]):  # in the middle of messages
        spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(source))
    assert follow() == ["batch 0: 13 events so far", "batch 1: 23 events so far"]

    # Killed between the end of the batch and its note in the checkpoint: Spark does it again.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    assert follow() == ["batch 1: 23 events so far"]

    found = tables_in(output)
    events = analytics.facts_of(spark.createDataFrame(STORY, schema)).coalesce(1).persist()
    try:
        for name in ("flow", "throughput", "retries", "dead_letters", "slowest"):
            assert found[name] == getattr(analytics, name)(events).toArrow().to_pylist(), name
        exact = analytics.latencies(events).toArrow().to_pylist()
    finally:
        events.unpersist()
    assert [row["p95"] for row in found["latencies"]] == pytest.approx([row["p95"] for row in exact], rel=0.0101)
    assert [row["count"] for row in found["latencies"]] == [row["count"] for row in exact]
    assert {row["precision"] for row in found["latencies"]} == {"within 1%"}
    assert "dead-lettered" in Reading((output / "report.html").read_text()).text
