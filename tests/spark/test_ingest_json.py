"""`ingest` of JSON: what is put is what the file has, and what can not be put is named with its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.ingest_texts import documents
from localqueue.stores.port import StoredMessage
from localqueue.stores.url import open_store

LINES = [
    '{"n":1,"o":{},"arr":[],"nul":null,"mixed":[1,"a"]}',
    '{"n":2, "mixed":{"a":1}}',
    '{"n":0,"exact":1.123456789012345678901,"text":"line_","A":1,"a":2}',
    "[1]",
    "7",
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def stored(url: str, queue: str) -> list[StoredMessage]:
    with open_store(url) as store:
        return list(store.scan(queue))


def texts(url: str, queue: str) -> list[str]:
    return sorted(str(one.payload) for one in stored(url, queue))


@pytest.mark.parametrize("given", [{}, {"rate": 1e6}, {"schema": "n int"}, {"options": {"primitivesAsString": "true"}}])
def test_a_line_that_rules_are_about_is_put_as_it_is_in_the_file(
    spark: Any, url: str, tmp_path: Path, given: dict[str, Any]
) -> None:
    lines = LINES if "schema" not in given else LINES[:3]
    (tmp_path / "a.json").write_text("\n".join(lines))
    done = ingest(spark, tmp_path / "a.json", url=url, queue="q", expect={"p": "n > 0"}, **given)
    assert (done.rows, done.rejected) == (2, len(lines) - 2)
    assert texts(url, "q") == sorted(lines)
    assert {one.payload for one in stored(url, "q") if one.state == "dead"} == set(lines[2:])


def test_a_schema_checks_lines_and_takes_nothing_from_them(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n": 1, "more": [{}]}\n')
    ingest(spark, tmp_path / "a.json", url=url, queue="q", schema="n int")
    assert texts(url, "q") == ['{"n": 1, "more": [{}]}']
    (tmp_path / "b.json").write_text('{"n": 1}\n{"n": "x"}\n')
    with pytest.raises(ValueError, match=r'/b\.json can not be read: {"n": "x"} is not JSON, or does not fit') as no:
        ingest(spark, tmp_path / "b.json", url=url, queue="q", schema="n int")
    assert "\n" not in str(no.value) and len(texts(url, "q")) == 1


def test_the_payload_may_be_a_field_of_the_line_as_it_is_written(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id":1,"o":{"x": 1.10, "y":{}}}\n{"id":2,"o":"[2]","h":{"a":"b"}}\n')
    for queue, expect in {"plain": None, "ruled": {"p": "id > 0"}}.items():
        ingest(spark, tmp_path / "a.json", url=url, queue=queue, value="o", key="id", headers="h", expect=expect)
        assert [(one.payload, one.dedupe_key, one.headers) for one in stored(url, queue)] == [
            ('{"x": 1.10, "y":{}}', "1", None),
            ("[2]", "2", '{"a":"b"}'),
        ]


@pytest.mark.parametrize("option", ["key", "ordering_key", "priority", "delay", "value", "headers"])
def test_a_field_that_no_line_has_is_refused_and_one_that_some_have_is_not(
    spark: Any, url: str, tmp_path: Path, option: str
) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1}\n{"name": "x"}\n')
    given: dict[str, Any] = {option: "nofield"}
    with pytest.raises(ValueError, match=r"no field 'nofield' in any row; there are id, name$"):
        ingest(spark, folder, url=url, queue="q", **given)
    assert stored(url, "q") == []
    (folder / "empty.json").write_text("")
    ingest(spark, folder / "empty.json", url=url, queue="q", **given)
    if option != "key":
        return
    (folder / "b.json").write_text('{"id": 1, "nofield": null}\n')
    assert ingest(spark, folder, url=url, queue="q", key="nofield").rows == 3
    (folder / "c.json").write_text('{"id": 2}\n')
    assert ingest(spark, folder, url=url, queue="q", key="nofield").rows == 1  # another file has it


def test_a_value_of_a_folder_is_a_key_as_a_field_is(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "day=3").mkdir(parents=True)
    (tmp_path / "in" / "day=3" / "a.json").write_text('{"id": 1}\n')
    ingest(spark, tmp_path / "in", url=url, queue="q", ordering_key="day", expect={"day": "day = 3"})
    assert [(one.payload, one.ordering_key, one.state) for one in stored(url, "q")] == [('{"id": 1}', "3", "ready")]


@pytest.mark.parametrize("given", [{}, {"key": "n"}, {"rate": 1e6}, {"expect": {"n": "n > 0"}}])
def test_what_is_not_json_or_not_utf_8_is_named_with_its_file_and_the_way_out(
    spark: Any, url: str, tmp_path: Path, given: dict[str, Any]
) -> None:
    for name, content, said in (
        ("array", b'[\n{"n": 1},\n{"n": 2}\n]\n', r"/array\.json can not be read: '\[' is not JSON\..*multiLine=true"),
        ("broken", b'{"n": 1}\n{"n":\n', r"/broken\.json can not be read: '{\"n\":' is not JSON\."),
        (
            "latin",
            '{"n": 1}\n{"n": "José"}\n'.encode("latin-1"),
            r"/latin\.json can not be read: it is not UTF-8, in .*Jos\\\\xe9.*encoding=ISO-8859-1",
        ),
    ):
        (tmp_path / f"{name}.json").write_bytes(content)
        with pytest.raises(ValueError, match=said) as refused:
            ingest(spark, tmp_path / f"{name}.json", url=url, queue="q", **given)
        assert "\n" not in str(refused.value)
    assert stored(url, "q") == []


def test_documents_over_many_lines_are_put_one_by_one_as_they_are_written(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('\ufeff[\n {"n": 1,\n  "x": 1.10},\n {"n": 2}\n]\n')
    given: dict[str, Any] = {"options": {"multiLine": "true"}, "key": "n", "expect": {"one": "n = 1"}}
    done = ingest(spark, tmp_path / "a.json", url=url, queue="q", **given)
    assert (done.rows, done.rejected) == (1, 1)
    assert texts(url, "q") == ['{"n": 1,\n  "x": 1.10}', '{"n": 2}']
    (tmp_path / "b.json").write_text('[{"n": 3},')
    with pytest.raises(ValueError, match=r"/b\.json can not be read: it is not JSON .*begins with '\[{\"n\": 3},'"):
        ingest(spark, tmp_path / "b.json", url=url, queue="q", **given)


def test_lines_in_another_encoding_are_read_in_it(spark: Any, url: str, tmp_path: Path) -> None:
    for encoding in ("latin-1", "windows-1252", "utf-16"):
        (tmp_path / "a.json").write_bytes('{"n": "José"}\r\n\r\n{"n": "é"}'.encode(encoding))
        options = {"encoding": encoding}
        ingest(spark, tmp_path / "a.json", url=url, queue=encoding, options=options, key="n", expect={"n": "n < 'z'"})
        assert texts(url, encoding) == ['{"n": "José"}', '{"n": "é"}']
        assert {one.payload for one in stored(url, encoding) if one.state == "dead"} == {'{"n": "é"}'}
    with pytest.raises(ValueError, match=r"/a\.json can not be read: it is not ascii"):
        ingest(spark, tmp_path / "a.json", url=url, queue="q", options={"encoding": "ascii"})
    with pytest.raises(ValueError, match="there is no encoding 'latin-99'"):
        ingest(spark, tmp_path / "a.json", url=url, queue="q", options={"encoding": "latin-99"})
    (tmp_path / "a.txt").write_bytes("José\né".encode("latin-1"))
    with pytest.raises(ValueError, match=r"/a\.txt can not be read: it is not UTF-8"):
        ingest(spark, tmp_path / "a.txt", url=url, queue="text")
    ingest(spark, tmp_path / "a.txt", url=url, queue="text", options={"encoding": "latin-1"})
    assert [json.loads(one) for one in texts(url, "text")] == ["José", "é"]


def test_what_is_no_json_but_by_an_option_is_put_as_spark_reads_it(spark: Any, url: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{'n': 1} // one\n")
    options = {"allowComments": "true", "allowSingleQuotes": "true"}
    ingest(spark, tmp_path / "a.json", url=url, queue="q", options=options)
    assert texts(url, "q") == ['{"n":1}']
    (tmp_path / "b.json").write_bytes("{'n': 'é'}\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"/b\.json can not be read: it is not UTF-8"):
        ingest(spark, tmp_path / "b.json", url=url, queue="q", options=options)
    (tmp_path / "c.json").write_text("{'n': \n")
    with pytest.raises(ValueError, match=r"/c\.json can not be read: it is not JSON, also by these options"):
        ingest(spark, tmp_path / "c.json", url=url, queue="q", options=options)


def test_documents_are_told_apart_without_being_changed() -> None:
    assert documents(' {"a": 1.0}\n[{"b":  2}, 3 ,"é"] []\n null ') == ['{"a": 1.0}', '{"b":  2}', "3", '"é"', "null"]
    assert documents("\n") == []
