"""Tables of a catalog in Iceberg or Delta, through the writers that their jars give Spark.

What a table is of stands in one of its properties. An increment takes the place of whatever the table has behind a
number, in one commit: a run that is repeated doubles nothing, and of two that overlap the later one fails, because the
table has changed since it looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from localqueue.spark.jobs.delta_table import CommittedElsewhere
from localqueue.spark.jobs.row_count import RowCount
from localqueue.spark.jobs.staged_files import known_format
from localqueue.spark.root_cause import root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LAKE_FORMATS = ("iceberg", "delta")
#: The jars that were tried, by the version of Spark that they are built for.
JARS: Mapping[str, Mapping[str, str]] = {
    "iceberg": {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
    "delta": {"4.1": "io.delta:delta-spark_4.1_2.13:4.4.0", "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"},
}
#: What else a session has to be told.
SETTINGS: Mapping[str, str] = {
    "iceberg": "spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog, with its type and warehouse or uri",
    "delta": "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.{catalog}=org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
#: The view that the rows of a merge are while it runs, in a session that runs one merge at a time.
_CHANGES = "localqueue_changes"
_MISSING = ("PLUGIN_CLASS_NOT_FOUND", "DATA_SOURCE_NOT_FOUND", "CATALOG_NOT_FOUND", "ClassNotFoundException")
_OF_ANOTHER_SPARK = (
    "IncompatibleClassChangeError",
    "NoSuchMethodError",
    "NoSuchFieldError",
    "AbstractMethodError",
    "NoClassDefFoundError",
)
_NO_CATALOG = ("REQUIRES_SINGLE_PART_NAMESPACE",)
_NO_NAMESPACE = ("SCHEMA_NOT_FOUND", "NoSuchNamespaceException")
_CONFLICTS = (
    "io.delta.exceptions.Concurrent",
    "org.apache.spark.sql.delta.Concurrent",
    "DELTA_CONCURRENT",
    "iceberg.exceptions.ValidationException",
    "iceberg.exceptions.CommitFailedException",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
)


class LakeTable:
    """A table of a catalog, which may not exist yet. `uri` is its name.

    Without a `format` it is that of the catalog. What the table was when this was made is what `extend` goes by.
    """

    def __init__(self, spark: SparkSession, name: str, format: str | None = None) -> None:
        self._spark = spark
        self.uri = name
        parts = name.split(".")
        self._catalog = parts[0] if len(parts) > 2 else "spark_catalog"
        self.format = known_format(format or self._catalogs_format(), LAKE_FORMATS)
        with self._reached():
            self.exists = bool(spark.catalog.tableExists(name))
            self._properties = self._read_properties() if self.exists else {}

    def note(self, name: str) -> str | None:
        """A property of the table."""
        return self._properties.get(name)

    def create(self, schema: StructType, *, partition_by: str | None = None, notes: Mapping[str, str]) -> None:
        """Make the table, empty and with these properties."""
        from pyspark.sql import functions as f

        writer = self._spark.createDataFrame([], schema).writeTo(self.uri).using(self.format)
        for name, value in notes.items():
            writer = writer.tableProperty(name, value)
        if partition_by is not None:
            writer = writer.partitionedBy(f.col(partition_by))
        with self._reached():
            writer.create()
        self.exists = True

    def last(self, column: str) -> int:
        """The highest number in a column, 0 when there is none."""
        with self._reached():
            found = self._spark.table(self.uri).agg({column: "max"}).first()
        return 0 if found is None or found[0] is None else int(found[0])

    def extend(self, df: DataFrame, column: str, after: int, through: int, *, writer: str) -> int:
        """Make these rows all that the table has behind a number, in one commit; how many are there then.

        CommittedElsewhere, and nothing is changed, when somebody else has written there since this was made; `writer`
        is the name that all who write such rows go by.
        """
        from pyspark.sql import functions as f

        writing = df.writeTo(self.uri)
        for name, value in self._guards(through, writer).items():
            writing = writing.option(name, value)
        with self._reached():
            writing.overwrite(f.col(column) > after)
            now = self._spark.table(self.uri)
            # Not counted on the way: Delta does not even read rows that it has already.
            return now.where((f.col(column) > after) & (f.col(column) <= through)).count()

    def append(self, df: DataFrame) -> int:
        """Add rows; how many."""
        return self._count_and_write(df, lambda rows: rows.writeTo(self.uri).append())

    def replace(self, df: DataFrame) -> int:
        """Make the table these rows, with their columns, in one commit; how many."""
        return self._count_and_write(df, lambda rows: rows.writeTo(self.uri).using(self.format).createOrReplace())

    def begin(self, df: DataFrame, *, notes: Mapping[str, str]) -> None:
        """Make the table these rows, with their columns and with these properties, whatever it was, in one commit."""
        writer = df.writeTo(self.uri).using(self.format)
        for name, value in notes.items():
            writer = writer.tableProperty(name, value)
        with self._reached():
            writer.createOrReplace()

    def overwrite(self, df: DataFrame) -> None:
        """Make these rows all that the table has, in one commit."""
        from pyspark.sql import functions as f

        with self._reached():
            df.writeTo(self.uri).overwrite(f.lit(True))

    def merge_keys(self, df: DataFrame) -> None:
        """Bring rows with a `key`, a `seq` and whether they are `gone` into a table of keys, in one commit.

        A row is taken when it is newer than the one of its key. Columns that the table lacks are added before.
        """
        columns = [f"`{name}`" for name in df.columns if name != "gone"]
        values = [f"s.{name}" for name in columns]
        df.createOrReplaceTempView(_CHANGES)
        try:
            with self._reached():
                self._widen(df)
                self._spark.sql(
                    f"MERGE INTO {self.uri} t USING {_CHANGES} s ON t.key = s.key "
                    "WHEN MATCHED AND s.gone AND s.seq > t.seq THEN DELETE "
                    f"WHEN MATCHED AND s.seq > t.seq THEN UPDATE SET {_pairs(columns, values)} "
                    f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(values)})"
                )
        finally:
            self._spark.catalog.dropTempView(_CHANGES)

    def refresh(self) -> None:
        """Have the session see what others have written: its catalog may remember what the table was."""
        with self._reached():
            self._spark.sql(f"REFRESH TABLE {self.uri}")

    def _widen(self, df: DataFrame) -> None:
        there = {*self._spark.table(self.uri).columns, "gone"}
        lacking = [f"`{one.name}` {one.dataType.simpleString()}" for one in df.schema if one.name not in there]
        if lacking:
            self._spark.sql(f"ALTER TABLE {self.uri} ADD COLUMNS ({', '.join(lacking)})")

    def _count_and_write(self, df: DataFrame, write: Callable[[DataFrame], None]) -> int:
        if self.format != "delta":
            counted = RowCount(df)
            with self._reached():
                write(counted.rows)
            return counted.number()
        kept = df.persist()  # Delta drops what would count them on the way
        try:
            number = kept.count()
            with self._reached():
                write(kept)
            return number
        finally:
            kept.unpersist()

    def _guards(self, through: int, writer: str) -> dict[str, str]:
        if self.format == "delta":
            return {"txnAppId": writer, "txnVersion": str(through)}
        options = {"isolation-level": "serializable", "snapshot-property.localqueue.last": str(through)}
        seen = self._properties.get("current-snapshot-id", "none")
        return options if seen == "none" else {**options, "validate-from-snapshot-id": seen}

    def _read_properties(self) -> dict[str, str]:
        self.refresh()
        return {row[0]: row[1] for row in self._spark.sql(f"SHOW TBLPROPERTIES {self.uri}").collect()}

    def _catalogs_format(self) -> str:
        plugin = (self._spark.conf.get(f"spark.sql.catalog.{self._catalog}", "") or "").lower()
        found = next((one for one in LAKE_FORMATS if one in plugin), None)
        if found is None:
            raise ValueError(
                f"table {self.uri!r}: catalog {self._catalog!r} is neither of Iceberg nor of Delta: set it up by "
                f"{SETTINGS['iceberg'].format(catalog='lake')}, or give format, one of {', '.join(LAKE_FORMATS)}"
            )
        return found

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """An error of the catalog or its jar as one line that says what to do."""
        try:
            yield
        except Exception as error:
            told = self._explained(error)
            if told is None:
                raise
            raise told from error

    def _explained(self, error: Exception) -> Exception | None:
        from pyspark.errors import ParseException

        text = str(error)

        def says(signs: tuple[str, ...]) -> bool:
            return any(sign in text for sign in signs)

        if isinstance(error, ParseException):
            return ValueError(f"table {self.uri!r} is not the name of a table, such as lake.db.journal")
        if says(_NO_CATALOG):
            setting = SETTINGS[self.format].format(catalog=self._catalog)
            return ValueError(f"table {self.uri!r}: there is no catalog {self._catalog!r}: set {setting}")
        if says(_CONFLICTS):
            return CommittedElsewhere(f"somebody else has committed to {self.uri} meanwhile: run this again")
        if says(_MISSING):
            return ValueError(f"table {self.uri!r}: Spark has no jar of {self.format}: {self._way()}")
        if says(_OF_ANOTHER_SPARK):
            return ValueError(f"table {self.uri!r}: the jar of {self.format} is not for this Spark: {self._way()}")
        if says(_NO_NAMESPACE):
            return ValueError(f"table {self.uri!r}: its namespace is not there: CREATE NAMESPACE makes it")
        if type(error).__name__ == "Py4JJavaError":
            return ValueError(f"table {self.uri!r} can not be written: {root_cause(error)}")
        return None

    def _way(self) -> str:
        built = JARS[self.format]
        own = ".".join(self._spark.version.split(".")[:2])
        setting = SETTINGS[self.format].format(catalog=self._catalog)
        if own in built:
            return f"set spark.jars.packages={built[own]} and {setting}"
        newest = max(built)
        return (
            f"none that was tried works with Spark {self._spark.version}; with Spark {newest} it is {built[newest]} "
            '(pip install "localqueue[lake]" has Spark 4.1). Without a jar, give a path: parquet, or delta by delta-rs'
        )


def _pairs(columns: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in zip(columns, values, strict=True))


def is_table(spark: SparkSession, name: str) -> bool:
    """Whether a catalog of the session has a table of this name, which says of which namespace it is."""
    if "." not in name or "/" in name:
        return False
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # no name of a table, or no such catalog
        return False


def one_place(path: Any, table: str | None) -> None:
    """ValueError unless exactly one of both is given."""
    if (path is None) == (table is None):
        raise ValueError("give either path, for a folder, or table, for a table of a catalog such as lake.db.journal")
