"""`ingest` of CSV and Parquet: nothing is changed to fit a type or an encoding, and the file at fault is named."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.table_files import write_table
from localqueue.stores.url import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def payloads(url: str, queue: str) -> list[Any]:
    with open_store(url) as store:
        return [json.loads(one.payload, parse_float=str) for one in store.scan(queue)]


def test_binary_that_was_written_to_csv_is_read_as_it_was(spark: Any, url: str, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, b"\xff\x00"), (2, b""), (3, None)], "n int, b binary")
    write_table(rows.coalesce(1), tmp_path / "out", format="csv")
    schema = "n int, b binary"
    ingest(spark, tmp_path / "out", url=url, queue="file", schema=schema, key="n", expect={"b": "length(b) = 2"})
    ingest(spark, rows, url=url, queue="frame")
    assert sorted(payloads(url, "file"), key=str) == sorted(payloads(url, "frame"), key=str)
    (tmp_path / "bad.csv").write_text("n,b\n1,/w==\n2,!!\n")
    with pytest.raises(ValueError, match=r"/bad\.csv can not be read: 'b' is '!!', which is not base64") as refused:
        ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema)
    assert "\n" not in str(refused.value) and payloads(url, "bad") == []
    ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema, options={"mode": "PERMISSIVE"})
    assert payloads(url, "bad") == [{"n": 1, "b": "/w=="}, {"n": 2, "b": None}]


def test_what_a_type_can_not_hold_exactly_is_refused(spark: Any, url: str, tmp_path: Path) -> None:
    schema = "d decimal(10,2), day date"
    (tmp_path / "good.csv").write_text(
        "d,day\n1.5000,2026-01-31\n-1.25e1,2026-01-31 00:00:00\n+7,\n,2026-1-3\n12345678.99,2026-01-31\n"
    )
    ingest(spark, tmp_path / "good.csv", url=url, queue="good", schema=schema)
    assert [(one["d"], one["day"]) for one in payloads(url, "good")] == [
        ("1.50", "2026-01-31"), ("-12.50", "2026-01-31"), ("7.00", None), (None, "2026-01-03"),
        ("12345678.99", "2026-01-31"),
    ]  # fmt: skip
    for d in ("1.123456789012345678", "0.001", "1e-3", "1,5", "123456789", "x", " 1", '""', f"1.{'0' * 50}1"):
        (tmp_path / "bad.csv").write_text(f'd,day\n"{d}",\n' if d != '""' else 'd,day\n"",\n')
        shown = d.strip('"')[:80]
        with pytest.raises(ValueError, match=r"/bad\.csv can not be read: 'd' is ") as refused:
            ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema)
        assert f"'{shown}', which can not be held exactly by decimal(10,2)" in str(refused.value)
    for day in ("2026-01-31 12:00:00.123456", "2026-01-31T00:00:01", "31.1.2026"):
        (tmp_path / "bad.csv").write_text(f"d,day\n1,{day}\n")
        with pytest.raises(ValueError, match=rf"/bad\.csv can not be read: 'day' is '{day}', which can not be held"):
            ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema)
    assert payloads(url, "bad") == []
    options = {"dateFormat": "dd.MM.yyyy"}
    (tmp_path / "bad.csv").write_text("d,day\n1,31.01.2026\n")
    ingest(spark, tmp_path / "bad.csv", url=url, queue="bad", schema=schema, options=options)
    assert payloads(url, "bad") == [{"d": "1.00", "day": "2026-01-31"}]


def test_csv_in_another_encoding_is_refused_and_read_in_the_one_that_is_given(
    spark: Any, url: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("name\n\ufffd\n")
    (tmp_path / "in" / "b.csv").write_bytes("name\nJosé\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"/b\.csv can not be read: it is not UTF-8, in .*encoding=ISO-8859-1"):
        ingest(spark, tmp_path / "in", url=url, queue="q")
    assert payloads(url, "q") == []
    for encoding in ("latin-1", "ISO-8859-1"):
        ingest(spark, tmp_path / "in" / "b.csv", url=url, queue=encoding, options={"encoding": encoding})
        assert payloads(url, encoding) == [{"name": "José"}]
    with pytest.raises(ValueError, match=r"Spark reads CSV in iso-8859-1, .*javaCharsets=true"):
        ingest(spark, tmp_path / "in" / "b.csv", url=url, queue="q", options={"encoding": "windows-1252"})
    assert ingest(spark, tmp_path / "in" / "a.csv", url=url, queue="q").rows == 1


@pytest.mark.parametrize(
    ("content", "schema", "said"),
    [
        ("a,a\n1,2\n", None, r"its header has the column 'a' 2 times \(a, a\)\. Nothing"),
        ("a,\n1,2\n", None, r"column 2 of its header has no name \(a, \)\. Nothing"),
        ("a,c\n1,2\n", "a int, b int", r"schema: it has the column 'c' in the place of 'b'\. Nothing"),
        ("a,b,c\n1,2,3\n", "a int, b int", r"its header has 3 columns, and not 2\. Nothing"),
    ],
)
def test_a_header_that_can_not_be_is_named_with_its_column(
    spark: Any, url: str, tmp_path: Path, content: str, schema: str | None, said: str
) -> None:
    (tmp_path / "head.csv").write_text(content)
    with pytest.raises(ValueError, match=said) as refused:
        ingest(spark, tmp_path / "head.csv", url=url, queue="q", schema=schema)
    assert "/head.csv can not be read: " in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_parquet_file_with_nanoseconds_is_named_with_the_way_out(
    spark: Any, url: str, tmp_path: Path, zone: str | None
) -> None:
    at = pa.array([datetime(2026, 1, 31)], pa.timestamp("ns", zone))
    pq.write_table(pa.table({"at": at}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"/a\.parquet can not be read: it has times in nanoseconds.*nanosAsLong=true"):
        ingest(spark, tmp_path / "a.parquet", url=url, queue="q")
