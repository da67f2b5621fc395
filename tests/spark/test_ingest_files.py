"""Which files of a folder `ingest` puts: complete ones, each once, by whatever name it is reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs.file_ledger import File
from localqueue.spark.jobs.ingest import ingest
from localqueue.stores.url import open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def land(folder: Path, name: str, number: int) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"n\n{number}\n" if ".csv" in name else f'{{"n": {number}}}\n')


def numbers(url: str, queue: str = "q") -> list[int]:
    with open_store(url) as store:
        return sorted(int(json.loads(one.payload)["n"]) for one in store.scan(queue))


@pytest.mark.parametrize("format", [None, "json"])
def test_a_file_that_is_still_written_is_put_when_it_is_renamed(
    spark: Any, url: str, tmp_path: Path, format: str | None
) -> None:
    folder = tmp_path / "in"
    for number, ending in enumerate(
        (".tmp", ".part", ".partial", ".crdownload", ".filepart", "._COPYING_", ".inprogress")
    ):
        land(folder, f"a.json{ending}", number)
    with pytest.raises(ValueError, match="is not complete, by its name" if format else "does not show in its name"):
        ingest(spark, folder, url=url, queue="q", format=format)
    land(folder, "[b] c.json", 7)
    assert ingest(spark, folder, url=url, queue="q", format=format).files == 1
    (folder / "a.json.tmp").rename(folder / "a.json")
    assert ingest(spark, folder, url=url, queue="q", format=format).files == 1
    assert ingest(spark, f"{folder}/*", url=url, queue="q", format="json").was_there
    assert numbers(url) == [0, 7]


def test_a_path_is_seen_from_where_the_program_is_now(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path / "there/in", "a.json", 1)
    land(tmp_path / "there/in", "b.json.tmp", 2)
    monkeypatch.chdir(tmp_path / "there")
    assert ingest(spark, "in", url=url, queue="q").files == 1
    assert ingest(spark, "in/*.json", url=url, queue="q").was_there
    with pytest.raises(ValueError, match=r"there is nothing at file://.*/there/out"):
        ingest(spark, "out", url=url, queue="q")
    for nowhere in ("", " "):
        with pytest.raises(ValueError, match="path is empty"):
            ingest(spark, nowhere, url=url, queue="q", format="json", options={"recursiveFileLookup": "true"})


def test_values_of_folders_stay_where_a_file_is_left_out(spark: Any, url: str, tmp_path: Path) -> None:
    land(tmp_path / "in", "day=1/a.csv", 1)
    land(tmp_path / "in", "day=2/b.csv", 2)
    land(tmp_path / "in", "day=2/c.csv.part", 3)
    ingest(spark, tmp_path / "in", url=url, queue="q", schema="n int")
    with open_store(url) as store:
        found = sorted(str(one.payload) for one in store.scan("q"))
    assert found == ['{"n":1,"day":1}', '{"n":2,"day":2}']
    with pytest.raises(ValueError, match=r"some files are not complete.*give the folder without a pattern"):
        ingest(spark, f"{tmp_path}/i*", url=url, queue="q", format="csv")


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_file_is_put_once_through_whatever_link(spark: Any, url: str, tmp_path: Path, format: str) -> None:
    real = tmp_path / "real é"
    land(real, f"a b.{format}", 1)
    (tmp_path / "linked").symlink_to(real)
    (real / f"again.{format}").symlink_to(real / f"a b.{format}")
    assert ingest(spark, real, url=url, queue="q").rows == 1
    assert ingest(spark, tmp_path / "linked", url=url, queue="q").was_there
    (tmp_path / f"one.{format}").symlink_to(real / f"a b.{format}")
    assert ingest(spark, tmp_path / f"one.{format}", url=url, queue="q").was_there
    land(real, f"b.{format}", 2)
    assert ingest(spark, tmp_path / "linked", url=url, queue="q").rows == 1
    assert ingest(spark, real, url=url, queue="q").was_there
    assert numbers(url) == [1, 2]


def test_what_was_put_under_the_address_of_a_link_is_known_still(
    spark: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path / "real", "a.json", 1)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    with monkeypatch.context() as before:
        before.setattr(File, "address", property(lambda file: file.uri))
        ingest(spark, tmp_path / "linked", url=url, queue="q")
    assert ingest(spark, tmp_path / "linked", url=url, queue="q").was_there
    assert ingest(spark, tmp_path / "linked", url=url, queue="q", again=True).rows == 1
    assert ingest(spark, tmp_path / "linked", url=url, queue="q").was_there
    assert ingest(spark, tmp_path / "real", url=url, queue="q").was_there
    assert numbers(url) == [1, 1]


def test_a_folder_that_would_not_be_read_is_refused_or_read_when_that_is_asked_for(
    spark: Any, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    land(folder, "a.json", 1)
    land(folder, "sub/deep/b.json", 2)
    (folder / "empty").mkdir()
    for path in (folder, f"{tmp_path}/i*"):
        with pytest.raises(ValueError, match=r"/in/sub is a folder with files that would not be read.*recursiveFile"):
            ingest(spark, path, url=url, queue="q", format="json")
    assert ingest(spark, f"{folder}/*.json", url=url, queue="q").rows == 1
    options = {"recursiveFileLookup": "true"}
    assert ingest(spark, folder, url=url, queue="q", options=options).rows == 1
    land(folder, "sub/c.json", 3)
    land(folder, "sub/d.json.tmp", 4)
    assert ingest(spark, folder, url=url, queue="q", options=options).rows == 1
    assert numbers(url) == [1, 2, 3]
