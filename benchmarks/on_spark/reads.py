"""Reading a queue: through ADBC, through Python, through JDBC, and the same rows from Parquet and from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness import Table
from localqueue import PersistentQueue
from localqueue.stores.url import open_store
from on_spark.bench import JARS, Bench, noop
from on_spark.no_database import NoDatabase


def fill(url: str, bench: Bench, queue: str = "orders") -> None:
    with open_store(url) as store:
        for start in range(0, bench.rows, 50_000):
            store.put_batch(queue, bench.values[start : start + 50_000], None)


def run(bench: Bench) -> Iterator[Table]:
    url = f"sqlite:///{bench.folder}/read.db"
    fill(url, bench)
    fill(bench.postgres, bench, "read")
    yield from reading(bench, "SQLite", url, "orders", bench.folder / "parquet")
    yield from reading(bench, "PostgreSQL", bench.postgres, "read", bench.folder / "parquet-pg")
    with open_store(bench.postgres) as store:
        PersistentQueue("read", store=store).purge()


def reading(bench: Bench, name: str, url: str, queue: str, copy: Any) -> Iterator[Table]:
    spark = bench.spark
    source = spark.read.format("localqueue").options(url=url, queue=queue)
    source.load().write.parquet(str(copy))
    spark.dataSource.register(NoDatabase)
    memory = spark.read.format(NoDatabase.name()).options(url=url, queue=queue, rows=str(bench.rows))

    def ours(engine: str, **options: str) -> Callable[[], None]:
        return lambda: noop(source.option("engine", engine).options(**options).load())

    systems: dict[str, Callable[[], float | None]] = {
        "Parquet": lambda: noop(spark.read.parquet(str(copy))),
        "localqueue, ADBC": ours("adbc"),
        "localqueue, Python": ours("python"),
        "no database": lambda: noop(memory.load()),
    }
    against = {name: ["Parquet"] for name in systems if name != "Parquet"}
    jdbc = jdbc_reader(bench, url)
    if jdbc is not None:
        systems["Spark JDBC"] = lambda: noop(jdbc)
        against["localqueue, ADBC"].append("Spark JDBC")
    yield bench.table(f"Reading {bench.rows:,} messages from {name}", systems, against)

    few = {"columns": "id,state,created_at"}

    def fresh(**options: str) -> Any:
        return spark.read.format("localqueue").options(url=url, queue=queue, engine="adbc", **options).load()

    yield bench.table(
        f"Three columns of {bench.rows:,} messages from {name}",
        {
            "full read, then select": lambda: noop(fresh().select("id", "state", "created_at")),
            "columns": lambda: noop(fresh(**few)),
        },
        {"columns": ["full read, then select"]},
    )


def jdbc_reader(bench: Bench, url: str) -> Any:
    """The table of messages through Spark's JDBC source, in as many partitions as there are cores."""
    if url.startswith("sqlite"):
        jar, driver, address, table = JARS[0], "org.sqlite.JDBC", f"jdbc:sqlite:{url[10:]}", "lq_messages"
        user: dict[str, str] = {}
        typed = {"customSchema": "payload STRING"}  # declared without a type, which JDBC takes for a number
    else:
        jar, driver, table = JARS[1], "org.postgresql.Driver", "localqueue.lq_messages"
        name, _, place = url.partition("://")[2].rpartition("@")
        address, user, typed = f"jdbc:postgresql://{place}", {"user": name.partition(":")[0] or "test"}, {}
    if not jar.exists():
        return None

    def reader() -> Any:
        return bench.spark.read.format("jdbc").options(url=address, driver=driver, fetchsize="4000", **user)

    low, high = reader().option("query", f"SELECT min(key) AS low, max(key) AS high FROM {table}").load().first()
    bounds = {"lowerBound": str(int(low)), "upperBound": str(int(high)), "numPartitions": "2"}
    return reader().options(dbtable=table, partitionColumn="key", **bounds, **typed).load()
