"""The data files of an archive, damaged: what is read is what was written, or the damage is told in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from localqueue.spark.jobs.archive import archive, read_archive
from localqueue.spark.jobs.replay import replay
from localqueue.spark.root_cause import root_cause
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.url import open_store
from tests.fuzz.damage import Damage, damages
from tests.fuzz.effort import examples

PAYLOADS = [f'"{n}{"x" * 100}"' for n in range(300)]


@pytest.fixture(scope="module")
def whole(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archived")
    url, path = f"sqlite:///{folder / 'jobs.db'}", folder / "archive"
    with open_store(url) as store:
        store.enable_journal()
        for start in (0, 150):
            some = PAYLOADS[start : start + 150]
            ids = store.mint(len(some))
            store.commit(Changes(enqueue=[NewMessage(i, "jobs", p) for i, p in zip(ids, some, strict=True)]))
            archive(spark, url=url, path=path, format="parquet")
    return path


def damaged(whole: Path, folder: Path, damage: Damage, *, has_sums: bool = True) -> tuple[Path, Path]:
    """A copy of the archive, and its last file of data, which is damaged."""
    path = folder / "archive"
    shutil.copytree(whole, path)
    file = sorted(path.rglob("*.parquet"))[-1]
    file.write_bytes(damage(file.read_bytes()))
    if not has_sums:  # as where Hadoop writes none
        for one in path.rglob(".*.crc"):
            one.unlink()
    return path, file


@given(damage=damages, has_sums=st.booleans())
@examples(6)
def test_a_damaged_file_is_read_as_it_was_written_or_named(
    spark: Any, whole: Path, tmp_path_factory: pytest.TempPathFactory, damage: Damage, has_sums: bool
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path, file = damaged(whole, folder, damage, has_sums=has_sums)
    try:
        found = read_archive(spark, path).orderBy("seq").collect()
    except (PySparkException, Py4JError, ValueError) as error:
        told = root_cause(error)
        assert file.name in told and "\n" not in told
    else:
        assert [row["value"] for row in found] == PAYLOADS
        assert found == read_archive(spark, whole).orderBy("seq").collect()
    shutil.rmtree(folder)


def test_nothing_of_a_damaged_archive_is_put(spark: Any, whole: Path, tmp_path: Path) -> None:
    path, file = damaged(whole, tmp_path, lambda content: b"")
    with pytest.raises(ValueError, match=f"{file.name} is damaged: it is empty"):
        replay(spark, source=path, url=f"sqlite:///{tmp_path / 'jobs.db'}")
    file.write_bytes(b"PAR1 and then something else PAR1")
    with pytest.raises((PySparkException, Py4JError)) as told:
        replay(spark, source=path, url=f"sqlite:///{tmp_path / 'jobs.db'}")
    assert file.name in root_cause(told.value)
    with open_store(f"sqlite:///{tmp_path / 'jobs.db'}") as store:
        assert store.scan("jobs") == []
