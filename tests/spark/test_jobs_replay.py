"""Files and tables into a queue, and windows of a journal or an archive back into one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreMissingError
from localqueue.spark.jobs import paced_puts
from localqueue.spark.jobs.archive import archive
from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.replay import replay
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.url import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def messages(url: str, queue: str) -> list[Any]:
    with open_store(url) as store:
        return store.scan(queue)


def test_lines_of_json_are_put_as_they_are_and_once(spark: Any, url: str, tmp_path: Path) -> None:
    lines = ['{"id": 1, "b": null}', '{"id":2,"x":[1.50]}', "", '{"id": "three"}']
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(lines) + "\n")
    said: list[str] = []
    result = ingest(
        spark, file, url=url, queue="jobs", key="id", priority=4, headers={"from": "file"}, progress=said.append
    )
    assert result.rows == 3
    assert str(result) == f"put 3 rows of {file} into queue 'jobs'"
    assert said == [f"putting {file} into queue 'jobs'"]
    found = messages(url, "jobs")
    assert sorted(one.payload for one in found) == sorted(line for line in lines if line)
    assert sorted(one.dedupe_key for one in found) == ["1", "2", "three"]
    assert {(one.priority, one.headers) for one in found} == {(4, '{"from":"file"}')}

    again = ingest(spark, file, url=url, queue="jobs", key="id")
    assert (again.rows, again.was_there) == (0, True)
    assert "nothing was put" in str(again)
    assert ingest(spark, file, url=url, queue="twice", again=True).rows == 3
    assert ingest(spark, file, url=url, queue="twice", again=True).rows == 3
    assert len(messages(url, "twice")) == 6
    assert ingest(spark, file, url=url, queue="jobs", key="id", again=True).was_there is False
    assert len(messages(url, "jobs")) == 3  # but the dedupe keys are held

    file = tmp_path / "broken.jsonl"
    file.write_text('{"id": 4}\n{"id": \n')
    with pytest.raises(Exception, match="is not JSON"):
        ingest(spark, file, url=url, queue="jobs")
    assert len(messages(url, "jobs")) == 3


def test_tables_become_json_objects(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,name,wait\n1,x,0.5\n2,,7\n")
    assert ingest(spark, tmp_path / "csv", url=url, queue="csv", ordering_key="id", delay="wait").rows == 2
    found = {one.ordering_key: one for one in messages(url, "csv")}
    assert json.loads(found["2"].payload) == {"id": "2", "name": None, "wait": "7"}
    assert found["2"].available_at - found["2"].created_at == pytest.approx(7, abs=0.01)

    text = tmp_path / "notes.txt"
    text.write_text('say "hi"\nback\\slash\n')
    ingest(spark, text, url=url, queue="text")
    assert sorted(json.loads(one.payload) for one in messages(url, "text")) == ["back\\slash", 'say "hi"']

    rows = spark.createDataFrame([('{"a": 1}', {"h": "1"}), ("[]", None)], "body string, meta map<string,string>")
    ingest(spark, rows, url=url, queue="frame", value="body", headers="meta", idempotency_key="today")
    assert ingest(spark, rows, url=url, queue="frame", value="body", idempotency_key="today").was_there
    assert sorted((one.payload, one.headers) for one in messages(url, "frame")) == [
        ("[]", None),
        ('{"a": 1}', '{"h":"1"}'),
    ]

    for source, given, said in (
        (tmp_path / "no.json", {}, "there is nothing at"),
        (tmp_path, {}, "does not show in its name: give format, one of json, csv"),
        (text, {"format": "avro"}, "not 'avro'"),
        (text, {"key": "id"}, "key can not be a column of plain text"),
        (rows, {"key": "id"}, "no column 'id'; there are body, meta"),
        (rows, {"format": "csv"}, "has been read already"),
        ("nowhere", {"format": "table"}, "no table 'nowhere'"),
        (text, {"rate": 0}, "rate must be"),
    ):
        with pytest.raises(ValueError, match=said):
            ingest(spark, source, url=url, queue="x", **given)


def test_a_paced_ingest_that_was_killed_is_continued_and_known_afterwards(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.json"
    file.write_text("".join(f'{{"n": {n % 90}}}\n' for n in range(100)))
    monkeypatch.setattr(paced_puts, "MOST", 30)
    calls = []
    original = paced_puts.Way.record

    def record(self: Any, writer: str) -> Any:
        calls.append(self.through)
        if len(calls) == 4:
            raise OSError("killed")
        return original(self, writer)

    with monkeypatch.context() as patch:
        patch.setattr(paced_puts.Way, "record", record)
        with pytest.raises(OSError, match="killed"):
            ingest(spark, file, url=url, queue="jobs", rate=1e6)
    assert len(messages(url, "jobs")) == 60
    assert ingest(spark, file, url=url, queue="jobs").rows == 40  # also without a rate
    assert sorted(json.loads(one.payload)["n"] for one in messages(url, "jobs")) == sorted(n % 90 for n in range(100))
    assert ingest(spark, file, url=url, queue="jobs").was_there
    assert ingest(spark, file, url=url, queue="jobs", rate=5).was_there


def test_a_window_is_replayed_as_it_was_in_order_and_once(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url) as store:
        store.enable_journal()
        ids = store.mint(8)
        new = [
            NewMessage(id=ids[n], queue="jobs", payload=f'{{"n":{n}}}', priority=n, ordering_key="k", delay=n * 100.0,
                       headers='{"h":"1"}', run_id="r")
            for n in range(5)
        ]  # fmt: skip
        new.append(NewMessage(id=ids[5], queue="jobs", payload=b"\x81\xa1n\x05", codec="msgpack"))
        new.append(NewMessage(id=ids[6], queue="jobs", payload=b"\x80\x04", codec="pickle", dedupe_key="d"))
        new.append(NewMessage(id=ids[7], queue="other", payload="1"))
        store.commit(Changes(enqueue=new))
        store.lease(LeaseRequest("jobs"))
    window = {"source": url, "url": url, "queue": "jobs", "to": "again", "from_seq": 2, "where": "value is null or "
              "get_json_object(value, '$.n') >= 1"}  # fmt: skip

    dry = replay(spark, **window, dry_run=True)
    assert (dry.matched, dry.put, dry.first_seq, dry.last_seq) == (6, 0, 2, 7)
    assert dry.first_at is not None
    assert abs((datetime.now(UTC) - dry.first_at).total_seconds()) < 600
    assert [row["value"] for row in dry.sample][:2] == ['{"n":1}', '{"n":2}']
    assert str(dry).startswith("would replay 6 messages into queue 'again' (seq 2 to 7")
    assert messages(url, "again") == []

    monkeypatch.setattr(paced_puts, "MOST", 2)
    with monkeypatch.context() as patch:
        calls: list[int] = []
        original = paced_puts.Way.record

        def record(self: Any, writer: str) -> Any:
            calls.append(self.through)
            if len(calls) == 3:
                raise OSError("killed")
            return original(self, writer)

        patch.setattr(paced_puts.Way, "record", record)
        with pytest.raises(OSError, match="killed"):
            replay(spark, **window)
    assert len(messages(url, "again")) == 2
    rest = replay(spark, **window, rate=1000)
    assert (rest.matched, rest.put, rest.duplicates) == (6, 4, 0)
    found = messages(url, "again")
    assert [one.payload for one in found] == [*(f'{{"n":{n}}}' for n in range(1, 5)), b"\x81\xa1n\x05", b"\x80\x04"]
    assert [one.codec for one in found] == [None] * 4 + ["msgpack", "pickle"]
    assert [one.priority for one in found] == [1, 2, 3, 4, 0, 0]
    assert [one.ordering_key for one in found] == ["k"] * 4 + [None] * 2
    assert found[0].headers == '{"h":"1"}'
    assert found[0].run_id is None
    assert found[3].available_at == found[3].created_at

    done = replay(spark, **window)
    assert done.finished_before
    assert "nothing was put" in str(done)
    more = replay(spark, **window, again=True)
    assert (more.put, more.duplicates) == (5, 1)  # the dedupe key is held by the first copy

    path = tmp_path / "archive"
    archive(spark, url=url, path=path, format="delta")
    back = replay(spark, source=path, url=url, until=dry.last_at.timestamp() + 0.001, to_seq=8)
    assert back.put + back.duplicates == 8
    with open_store(url) as store:
        assert store.qsize("other") == 2  # each into the queue it came from

    for given, said in (
        ({"where": "valu = 1"}, "where 'valu = 1' is not a condition over the columns seq, at"),
        ({"where": "= ="}, "is not a condition"),
        ({"since": "yesterday"}, "since must be a time with its zone"),
        ({"from_seq": 0}, "from_seq must be at least 1"),
        ({"source": tmp_path / "none"}, "is not an archive"),
        ({"source": f"sqlite:///{tmp_path / 'empty.db'}"}, "is off and empty"),
    ):
        SQLiteQueueStore(tmp_path / "empty.db").close()
        with pytest.raises(ValueError, match=said):
            replay(spark, **{"source": url, "url": url, "queue": "jobs", **given})
    with pytest.raises(QueueStoreMissingError, match="there is no store at"):
        replay(spark, source=f"sqlite:///{tmp_path / 'missing.db'}", url=url, queue="jobs")
    assert not (tmp_path / "missing.db").exists()
