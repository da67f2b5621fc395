"""`ingest`: what a row becomes, whichever way it is written, and which files of a folder are put."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.table_files import write_table
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
