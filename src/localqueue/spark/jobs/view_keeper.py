"""What happens with each batch of the query that keeps a view up to date."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from localqueue.spark.jobs import delta_table, view_table
from localqueue.spark.jobs.files import Folder
from localqueue.spark.jobs.lake_table import LakeTable
from localqueue.spark.jobs.latest import is_tombstone, latest_per_key
from localqueue.spark.jobs.progress import Progress
from localqueue.spark.jobs.view_query import typed
from localqueue.spark.jobs.view_shape import NOTE, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: The file in which a Parquet view has its columns.
SCHEMA = "_schema.json"
#: How many files a Delta view may have before they are merged.
_FILES = 64


class TableKeeper:
    """Brings batches into the table: in the driver, or in a process of a Spark Connect server.

    A batch that is repeated counts once. Folders know it by query and number; in a table of a catalog it changes
    nothing, since a row is taken when it is newer than the one of its key, and the result of a query as a whole.
    """

    def __init__(
        self, folder: Folder, shape: Shape, checkpoint: Folder, schema: StructType | str | None, say: Progress
    ) -> None:
        self._folder = folder
        self._shape = shape
        self._checkpoint = checkpoint
        self._schema = schema
        self._say = say

    def merge(self, batch: DataFrame, number: int) -> None:
        """Bring in the latest message of each key."""
        rows = self._latest(batch).persist()
        try:
            anew = self._is_anew(number)
            if self._shape.table is not None:
                table = self._lake(batch)
                if anew or self._is_missing(table, number):
                    table.begin(rows.where("not gone").drop("gone"), notes=self._notes())
                else:
                    table.merge_keys(rows)
            elif self._shape.format == "delta":
                delta_table.merge_delta(rows, self._folder, self._transaction(number), anew=anew)
                delta_table.tidy_delta(self._folder, files=_FILES)
            else:
                self._keep_schema(rows.drop("gone"))
                view_table.merge_keys(rows, self._folder, self._query(), number, anew=anew)
        finally:
            rows.unpersist()
        self._done(number)

    def replace(self, batch: DataFrame, number: int) -> None:
        """Make the table the result of the query."""
        if self._shape.table is not None:
            table = self._lake(batch)
            if self._is_anew(number) or self._is_missing(table, number):
                table.begin(batch, notes=self._notes())
            else:
                table.overwrite(batch)
        elif self._shape.format == "delta":
            mode = "append" if delta_table.table_at(self._folder) is None else "overwrite"
            delta_table.write_delta(batch, self._folder, mode=mode, transaction=self._transaction(number))
        else:
            self._keep_schema(batch)
            view_table.replace_all(batch, self._folder, self._query(), number)
        self._done(number)

    def _latest(self, batch: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        assert self._shape.key is not None
        last = latest_per_key(batch, self._shape.key)
        last = last.withColumn("gone", f.coalesce(is_tombstone(last), f.lit(False)))
        if self._schema is None:
            return last
        return typed(last.select("key", "seq", "at", "value", "gone"), self._schema).drop("value")

    def _lake(self, batch: DataFrame) -> LakeTable:
        """The table in the session of the batch, which is not the one that the query was started in."""
        assert self._shape.table is not None
        return LakeTable(batch.sparkSession, self._shape.table, self._shape.format)

    def _is_anew(self, number: int) -> bool:
        return self._shape.build > 1 and number == 0

    def _is_missing(self, table: LakeTable, number: int) -> bool:
        """Whether the table is to be made. One that is dropped later is not made again of what comes after that."""
        return not table.exists and number == 0

    def _notes(self) -> dict[str, str]:
        return {NOTE: self._shape.text(indent=None)}

    def _done(self, number: int) -> None:
        self._say(f"batch {number} is in {self._shape.table or self._folder.uri}")

    def _query(self) -> str:
        """The id of the query, which a checkpoint keeps: batches are numbered anew with a new checkpoint."""
        found: dict[str, Any] = json.loads(self._checkpoint.read("metadata") or "{}")
        return str(found["id"])

    def _transaction(self, number: int) -> delta_table.Transaction:
        return delta_table.Transaction(f"localqueue view {self._query()}", number)

    def _keep_schema(self, rows: DataFrame) -> None:
        if self._folder.read(SCHEMA) != rows.schema.json():
            self._folder.replace(SCHEMA, rows.schema.json())
