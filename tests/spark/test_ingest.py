"""`ingest`: what a row becomes, whichever way it is written, and which files of a folder are put."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs import outgoing_rows
from localqueue.spark.jobs.expectations import enforce
from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.table_files import write_table
from localqueue.spark.sink import delivery
from localqueue.stores.url import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def payloads(url: str, queue: str) -> list[Any]:
    with open_store(url) as store:
        return [json.loads(one.payload) for one in store.scan(queue)]


EVERYTHING = """
    SELECT id AS n, cast(id % 3 AS tinyint) AS tiny, id % 2 = 0 AS flag, concat('é"\\n', id) AS text,
        cast('1234567890123456789012345678.0123456789' AS decimal(38, 10)) AS price,
        CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') ELSE 0.1D END AS real, 0.1F AS single,
        cast('00ff' AS binary) AS bytes, date'2026-01-31' AS day, timestamp'2026-01-31 12:00:00.123456 UTC' AS at,
        timestamp_ntz'2026-01-31 12:00:00.123456' AS local, time'12:00:00.123456' AS clock,
        interval '-1 02:03:04.000005' day to second AS span, parse_json('{"a": [1, 2.5]}') AS any,
        named_struct('at', timestamp'2026-01-31 12:00:00.000001 UTC', 'd', 1.50BD) AS inner,
        map('k', array(binary('x'), NULL)) AS many, cast(NULL AS string) AS nothing, cast('ab' AS varchar(4)) AS letters
    FROM range(3)
"""


def test_every_type_is_the_same_by_the_sink_and_by_ingest_and_read_as_it_was(spark: Any, url: str) -> None:
    rows = spark.sql(EVERYTHING)
    rows.write.format("localqueue").option("url", url).option("queue", "sink").mode("append").save()
    ingest(spark, rows, url=url, queue="whole")
    ingest(spark, rows, url=url, queue="paced", key="n", rate=1e6)
    found = {}
    with open_store(url) as store:
        for queue in ("sink", "whole", "paced"):
            found[queue] = sorted(one.payload for one in store.scan(queue))
    assert found["sink"] == found["whole"] == found["paced"]
    shown = [f"{name}::string" if name in ("any", "span", "clock") else name for name in rows.columns]
    expected = rows.selectExpr(*shown).orderBy("n").collect()
    read = spark.read.format("localqueue").option("url", url).option("queue", "paced").schema(rows.schema).load()
    assert repr(read.selectExpr(*shown).orderBy("n").collect()) == repr(expected)
    with pytest.raises(ValueError, match="column 'long' is of type interval year"):
        ingest(spark, spark.sql("SELECT interval '1' year AS long"), url=url, queue="whole")


NASTY = [
    "",
    " a ",
    'q"q',
    '"',
    "a\nb",
    "a\rb",
    "a\r\nb",
    "a,b",
    "\\",
    '\\"',
    "x\\",
    "\ttab\t",
    "null",
    "é",
    "00123",
    None,
]


def test_csv_is_written_and_read_by_rfc_4180(spark: Any, url: str, tmp_path: Path) -> None:
    rows = spark.createDataFrame(
        [(n, text, {"k": text or ""}, b"\xff") for n, text in enumerate(NASTY)],
        "n int, text string, pairs map<string,string>, bytes binary",
    ).selectExpr("*", "timestamp_micros(1000000 + n) AS at")
    write_table(rows.coalesce(1), tmp_path / "out", format="csv")
    (file,) = (tmp_path / "out").glob("*.csv")
    with file.open(newline="") as opened:
        read = list(csv.DictReader(opened))
    assert [row["text"] for row in read] == [text or "" for text in NASTY]
    assert [json.loads(row["pairs"]) for row in read] == [{"k": text or ""} for text in NASTY]
    assert read[1]["bytes"] == "/w==" and ".000001" in read[1]["at"]

    assert ingest(spark, tmp_path / "out", url=url, queue="text").rows == len(NASTY)
    found = payloads(url, "text")
    assert {row["n"]: row["text"] for row in found} == {str(n): text for n, text in enumerate(NASTY)}
    (tmp_path / "typed.csv").write_text("id,zip,at\n1,00123,2026-01-31T12:00:00.123456Z\n")
    ingest(spark, tmp_path / "typed.csv", url=url, queue="typed", schema="id int, zip string, at timestamp")
    assert payloads(url, "typed") == [{"id": 1, "zip": "00123", "at": "2026-01-31T12:00:00.123456+00:00"}]
    for content, schema, said in (
        ("a,b\n1,2\n1,2,3\n", None, "Malformed CSV record: 1,2,3"),
        ("a,b\n1,2\n1\n", None, "Malformed CSV record: 1"),
        ("a,b\n1,2\nx,2\n", "a int, b int", 'For input string: "x"'),
        ("a,c\n1,2\n", "a int, b int", "CSV header does not conform to the schema"),
    ):
        (tmp_path / "bad.csv").write_text(content)
        with pytest.raises(ValueError, match=said) as refused:
            ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema)
        assert "bad.csv can not be read" in str(refused.value)
    assert payloads(url, "bad") == []
    with pytest.raises(ValueError, match="schema is for csv and json"):
        ingest(spark, tmp_path / "out", url=url, queue="x", format="parquet", schema="a int")


def test_a_landing_folder_is_put_file_by_file_each_once(spark: Any, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    (folder / "day=1").mkdir(parents=True)

    def land(name: str, *numbers: int) -> None:
        (folder / "day=1" / name).write_text("".join(f'{{"n": {n}}}\n' for n in numbers))

    def numbers() -> list[int]:
        return sorted(one["n"] for one in payloads(url, "q"))

    land("a b.json", 1, 2)
    land("empty.json")
    first = ingest(spark, folder, url=url, queue="q")
    assert (first.rows, first.files, first.known_files, first.was_there) == (2, 2, 0, False)
    land("é.json", 3)
    second = ingest(spark, folder, url=url, queue="q")
    assert (second.rows, second.files, second.known_files) == (1, 1, 2)
    assert "put 1 rows of 1 new files" in str(second) and "(2 files were put before)" in str(second)
    assert numbers() == [1, 2, 3]
    land("c.json", 4)
    assert ingest(spark, f"{folder}/*/*.json", url=url, queue="q").rows == 1  # by whatever path
    nothing = ingest(spark, folder, url=url, queue="q")
    assert nothing.was_there and nothing.known_files == 4 and "nothing was put" in str(nothing)
    assert ingest(spark, folder, url=url, queue="other").rows == 4  # each queue has its own

    land("d.json", 5)
    land("a b.json", 1, 2, 6)
    with pytest.raises(ValueError, match=r"a%20b\.json has changed since it was put into queue 'q': nothing was put"):
        ingest(spark, folder, url=url, queue="q")
    assert numbers() == [1, 2, 3, 4]
    assert ingest(spark, folder / "day=1" / "a b.json", url=url, queue="q", again=True).rows == 3
    assert ingest(spark, folder, url=url, queue="q").rows == 1
    assert numbers() == [1, 1, 2, 2, 3, 4, 5, 6]


def test_a_table_that_changed_is_refused_as_a_whole(spark: Any, url: str, tmp_path: Path) -> None:
    spark.range(3).write.mode("overwrite").saveAsTable("ingested")
    try:
        assert ingest(spark, "ingested", format="table", url=url, queue="q").rows == 3
        assert ingest(spark, "ingested", format="table", url=url, queue="q").was_there
        spark.range(3).write.insertInto("ingested")
        spark.catalog.refreshTable("ingested")
        with pytest.raises(ValueError, match="table ingested has changed since it was put"):
            ingest(spark, "ingested", format="table", url=url, queue="q")
    finally:
        spark.sql("DROP TABLE ingested")


def test_an_ingest_that_was_cut_off_anywhere_neither_loses_nor_doubles(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()

    def land(name: str, text: str) -> None:
        (folder / name).write_text(text)

    def numbers() -> list[int]:
        return sorted(one["n"] for one in payloads(url, "q"))

    class Died(BaseException):
        pass

    def died(*_: Any, **__: Any) -> Any:
        raise Died

    land("a.json", '{"n": 1}\n{"n": 2}\n')
    with monkeypatch.context() as cut, pytest.raises(Died):  # the files are taken, nothing is put
        cut.setattr("localqueue.spark.jobs.outgoing_rows.put_rows", died)
        ingest(spark, folder, url=url, queue="q")
    land("a.json", '{"n": 1}\n{"n": 2')  # nothing was put: it may change
    with pytest.raises(Exception, match="JSON"):
        ingest(spark, folder, url=url, queue="q")
    land("a.json", '{"n": 1}\n{"n": 2}\n')
    with monkeypatch.context() as cut, pytest.raises(Died):  # put, and died before it could tell
        cut.setattr("localqueue.spark.jobs.file_ledger.FileLedger.conclude", died)
        ingest(spark, folder, url=url, queue="q")
    assert ingest(spark, folder, url=url, queue="q").was_there
    assert numbers() == [1, 2]

    land("b.json", '{"n": 3}\n{"n": 4}\n')
    put_rows = outgoing_rows.put_rows

    def another_comes(messages: Any, place: Any, job: Any) -> Any:
        monkeypatch.setattr("localqueue.spark.jobs.outgoing_rows.put_rows", put_rows)
        land("c.json", '{"n": 5}\n')
        assert ingest(spark, folder, url=url, queue="q").rows == 3
        return put_rows(messages, place, job)

    monkeypatch.setattr("localqueue.spark.jobs.outgoing_rows.put_rows", another_comes)
    with pytest.raises(RuntimeError, match=r"another run puts .*b\.json at the same time: this one has put nothing"):
        ingest(spark, folder, url=url, queue="q")
    assert numbers() == [1, 2, 3, 4, 5]

    land("d.json", '{"n": 6}\n{"n": 7}\n')
    with monkeypatch.context() as cut, pytest.raises(Died):  # a pace has put the first of two
        cut.setattr("localqueue.spark.jobs.paced_puts.MOST", 1)
        puts = iter((None, None))
        put = delivery.put
        cut.setattr(
            "localqueue.spark.sink.delivery.put", lambda *given: died() if next(puts, died) is died else put(*given)
        )
        ingest(spark, folder, url=url, queue="q", rate=1e6)
    assert numbers() == [1, 2, 3, 4, 5, 6]
    land("e.json", '{"n": 8}\n')
    assert ingest(spark, folder, url=url, queue="q").rows == 2
    assert numbers() == [1, 2, 3, 4, 5, 6, 7, 8]


RULES = {"positive amount": "amount > 0", "known city": "city IN ('Oslo', 'Lima')"}


def dead(url: str, queue: str) -> dict[int, str]:
    with open_store(url) as store:
        found = [one for one in store.scan(queue) if one.state == "dead"]
    assert all(one.last_error and one.last_error["type"] == "ExpectationFailed" for one in found)
    return {json.loads(one.payload)["n"]: (one.last_error or {})["message"] for one in found}


@pytest.mark.parametrize("rate", [None, 1e6])
def test_duplicates_are_not_counted_as_put(spark: Any, url: str, rate: float | None) -> None:
    rows = spark.sql("SELECT id, CAST(id % 3 AS STRING) AS city FROM range(5)")
    first = ingest(spark, rows, url=url, queue="keyed", key="city", rate=rate)
    again = ingest(spark, rows, url=url, queue="keyed", key="city", rate=rate)
    assert [(one.rows, one.duplicates) for one in (first, again)] == [(3, 2), (0, 5)]
    assert str(again).endswith("put 0 rows of the DataFrame into queue 'keyed'; 5 rows were duplicates")


def test_rows_that_fail_an_expectation_are_dead_letters_with_the_name_of_the_rule(
    spark: Any, url: str, tmp_path: Path
) -> None:
    lines = [(1, 5, "Oslo"), (2, -5, "Oslo"), (3, 1, "Rome"), (4, None, "Rome"), (5, 2, "Lima")]
    texts = [json.dumps({"n": n, "amount": amount, "city": city}) for n, amount, city in lines]
    (tmp_path / "a.json").write_text("\n".join(texts))
    failed = {2: "positive amount", 3: "known city", 4: "positive amount; known city"}
    for queue, given in {"whole": {}, "paced": {"rate": 1e6}, "keyed": {"key": "n", "priority": 2}}.items():
        result = ingest(spark, tmp_path / "a.json", url=url, queue=queue, expect=RULES, **given)
        assert (result.rows, result.rejected, result.failed) == (2, 3, {"positive amount": 2, "known city": 2})
        assert str(result).endswith("; 3 rows became dead letters (positive amount: 2, known city: 2)")
        assert dead(url, queue) == failed
        assert ingest(spark, tmp_path / "a.json", url=url, queue=queue, expect=RULES).was_there
    with open_store(url) as store:
        assert (store.stats("whole").ready, store.stats("whole").dead) == (2, 3)
    for name, rule, said in (
        ("amount", "amont > 0", "rule 'amount': 'amont > 0' is not a condition over the columns"),
        ("a;b", "true", "must not be empty or have a semicolon"),
    ):
        with pytest.raises(ValueError, match=said):
            ingest(spark, tmp_path / "a.json", url=url, queue="x", expect={name: rule})
    with pytest.raises(TypeError, match="rules are conditions by name"):
        ingest(spark, tmp_path / "a.json", url=url, queue="x", expect=["n > 0"])  # type: ignore[arg-type]


def test_consumed_rows_that_fail_an_expectation_are_dead_letters_of_the_commit(
    spark: Any, url: str, tmp_path: Path
) -> None:
    rows = [(n, n - 3, "Oslo") for n in range(10)]
    ingest(spark, spark.createDataFrame(rows, "n long, amount long, city string"), url=url, queue="q")
    stream = spark.readStream.format("localqueue").option("url", url).option("queue", "q").option("mode", "consume")
    typed = stream.option("consumer", "etl").schema("n long, amount long, city string, _id string").load()
    runs: list[Any] = []
    refused: list[str] = []

    def batch(frame: Any, number: int) -> None:
        if not runs:
            try:
                enforce(frame, RULES, url=url, queue="q", consumer="other")
            except ValueError as error:
                refused.append(str(error))
        checked = enforce(frame, RULES, url=url, queue="q", consumer="etl")
        runs.append((checked.rejected, checked.failed, sorted(row.n for row in checked.rows.collect())))
        assert dead(url, "q") == {}
        if len(runs) == 1:
            raise RuntimeError("cut off")

    def run() -> Any:
        query = typed.writeStream.foreachBatch(batch).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return query.trigger(availableNow=True).start()

    with pytest.raises(Exception, match="cut off"):
        run().awaitTermination()
    run().awaitTermination()
    assert runs[0] == (4, {"positive amount": 4, "known city": 0}, [4, 5, 6, 7, 8, 9])
    assert runs[1] == (0, {"positive amount": 0, "known city": 0}, [4, 5, 6, 7, 8, 9])  # those have their verdict
    assert len(refused) == 1 and "are in no open claim of consumer 'other' of queue 'q'" in refused[0]
    assert dead(url, "q") == dict.fromkeys(range(4), "positive amount")
    with open_store(url) as store:
        assert store.stats("q").total == 4
