"""How many rows a write has written, counted while it writes them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from localqueue.spark import sail

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_passed: Counter[str] = Counter()  # rows that have passed on Sail, whose tasks are threads of this process


class RowCount:
    """Write `rows` in the place of the DataFrame; afterwards `number()` is how many they were."""

    def __init__(self, df: DataFrame) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        self._here = uuid.uuid4().hex if sail.runs(df.sparkSession) else None
        self._observed = Observation()
        if self._here is None:
            self.rows = df.observe(self._observed, f.count(f.lit(1)).alias("rows"))
        else:  # Sail has no observations, and refuses writes of parts that it has divided itself
            self.rows = df.mapInArrow(_Passing(self._here), df.schema).coalesce(1)

    def number(self) -> int:
        if self._here is not None:
            return _passed.pop(self._here, 0)
        return int(self._observed.get.get("rows") or 0)


class _Passing:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            _passed[self._name] += batch.num_rows
            yield batch
