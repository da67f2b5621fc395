"""Archiving a journal: Delta and Parquet, beside Spark writing the same rows to Parquet."""

from __future__ import annotations

from collections.abc import Iterator

from harness import Table
from localqueue.spark import archive
from localqueue.stores.url import open_store
from on_spark.bench import Bench
from on_spark.reads import fill


def run(bench: Bench) -> Iterator[Table]:
    url = f"sqlite:///{bench.folder}/journal.db"
    with open_store(url) as store:
        store.enable_journal()
    fill(url, bench)
    events = bench.spark.read.format("localqueue").options(url=url, view="events")

    def plain() -> None:
        with bench.fresh() as folder:
            events.load().write.parquet(str(folder / "plain"))

    def ours(format: str) -> None:
        with bench.fresh() as folder:
            archive(bench.spark, url=url, path=folder / "archive", format=format, compact_after=1000)

    yield bench.table(
        f"Archiving {bench.rows:,} entries of a SQLite journal",
        {
            "Spark to Parquet": plain,
            "archive, Delta": lambda: ours("delta"),
            "archive, Parquet": lambda: ours("parquet"),
        },
        {"archive, Delta": ["Spark to Parquet"], "archive, Parquet": ["Spark to Parquet"]},
    )
