"""JSON of files as messages: every text is put as it is there. Columns are made beside it, for rules alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from localqueue.errors import PayloadError
from localqueue.spark import sail
from localqueue.spark.jobs.file_errors import not_decoded, shown
from localqueue.spark.jobs.ingest_texts import Unpacking
from localqueue.spark.jobs.outgoing_rows import Mapped, quoted, with_options
from localqueue.spark.sink.layout import check_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_WAY = (
    'Nothing was put: mend it, or give options={"multiLine": "true"} (--option multiLine=true) for a document or an '
    "array that spans lines"
)
#: How many rows are looked at to name some of the fields there are, and how many are named.
_LOOKED_AT, _NAMED = 100, 20
_SHOWN = 80
_fields = msgspec.json.Decoder(type=dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class JsonTexts:
    """The JSON in files. `rows` has their lines in the column `value`, or, to be unpacked, all of each file.

    A `schema` is for rules, and what does not fit it is an error; without one it is inferred over all the rows.
    """

    rows: DataFrame
    schema: StructType | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    unpacking: Unpacking | None = None
    of_files: Callable[[], StructType] | None = None  # how an engine infers it that does not take texts for that

    def messages(self, rows: DataFrame, mapped: Mapped) -> DataFrame:
        """Each text of these rows as the payload that it is, or the field that `value` names."""
        from pyspark.sql import functions as f

        texts = self._texts(rows)
        self._refuse_missing(texts, mapped)
        folders = self._folders()
        if self.schema is None and not mapped.expect:
            text, value, wide, ruled = "value", f.col("value"), texts, texts
        else:
            text, value, wide, ruled = self._beside_columns(texts)

        def of(name: str) -> Column:
            return f.col(quoted(name)) if name in folders else _field(text, name)

        def pairs_of(name: str) -> Column:
            return of(name) if name in folders else f.from_json(of(name), "map<string,string>")

        if mapped.value in folders:
            value = of(mapped.value)
        messages = with_options(wide, value, mapped, of, pairs_of=pairs_of, ruled=ruled)
        if mapped.value is None or mapped.value in folders:
            return messages
        return messages.mapInArrow(partial(_pick, mapped.value), messages.schema)

    def fault(self, rows: DataFrame) -> str | None:
        """What is wrong with the first text in these rows that can not be put; None when all can."""
        from pyspark.sql import functions as f

        if sail.runs(rows.sparkSession):
            return None
        if self.unpacking is None:
            rows = rows.select(f.col("_metadata.file_path").alias("file"), "value")
        else:
            rows = self.unpacking.texts(rows)
        found = rows.select("file", f.col("value").cast("binary")).mapInArrow(_faults, "said string").head(1)
        return str(found[0][0]) if found else None

    def _texts(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if self.unpacking is not None:
            rows = self.unpacking.texts(rows)
        elif self.schema is not None:
            rows = rows.withColumn("file", f.col("_metadata.file_path"))
        return rows.where(f.length(f.trim("value")) > 0)

    def _folders(self) -> list[str]:
        """The columns that the names of folders tell."""
        return [name for name in self.rows.columns if name != "value"]

    def _beside_columns(self, texts: DataFrame) -> tuple[str, Column, DataFrame, DataFrame]:
        """The texts with columns beside them: where they are, what is put, all columns, and those that a rule sees."""
        from pyspark.sql import functions as f
        from pyspark.sql import types as t

        folders = self._folders()
        kind = self._inferred() if self.schema is None else self.schema
        kind = t.StructType([one for one in kind if one.name not in folders])
        taken = {name.lower() for name in (*kind.names, *folders)}
        text, file, misfit = (_free(name, taken) for name in ("text", "file", "misfit"))
        options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": misfit}
        parsed = t.StructType([*kind, t.StructField(misfit, t.StringType())])
        file_name = f.col("file") if "file" in texts.columns else f.lit(None)
        wide = texts.select(
            f.col("value").alias(text),
            file_name.alias(file),
            *(f.col(quoted(name)) for name in folders),
            f.from_json("value", parsed, options).alias("row"),
        ).select(quoted(text), quoted(file), *map(quoted, folders), "row.*")
        value = f.col(text)
        if self.schema is not None:
            said = f.concat(
                f.lit("UnreadableFile: "), file, f.lit(" can not be read: "),
                f.regexp_replace(f.substring(text, 1, _SHOWN), r"\s+", " "),
                f.lit(f" is not JSON, or does not fit the schema {self.schema.simpleString()}. {_WAY}"),
            )  # fmt: skip
            value = f.when(f.col(misfit).isNotNull(), f.raise_error(said)).otherwise(value)
        return text, value, wide, wide.drop(text, file, misfit)

    def _inferred(self) -> StructType:
        from pyspark.sql import types as t

        if self.of_files is not None and sail.runs(self.rows.sparkSession):
            return self.of_files()
        texts = self._texts(self.rows).select("value")
        broken = "not JSON"
        reader = texts.sparkSession.read.options(**{**self.options, "columnNameOfCorruptRecord": broken})
        try:
            schema = reader.json(texts).schema
        except TypeError:  # before Spark 4.2
            schema = reader.json(texts.rdd.map(lambda row: str(row[0]))).schema
        return t.StructType([one for one in schema if one.name != broken])

    def _refuse_missing(self, texts: DataFrame, mapped: Mapped) -> None:
        """ValueError when no row has a field that is named: all would be put without what it is for.

        That some rows are without is allowed, so most times the first row tells.
        """
        given = (mapped.value, mapped.key, mapped.ordering_key, mapped.priority, mapped.delay, mapped.headers)
        names = [name for name in given if isinstance(name, str) and name not in self._folders()]
        if not names or texts.where(_all_there(names)).head(1):
            return
        for name in names:
            if any(rows.where(_is_there(name)).head(1) for rows in (texts, self._texts(self.rows))):
                continue
            if not texts.head(1):
                return
            said = self.fault(self.rows)
            if said is not None:
                raise ValueError(said)
            raise ValueError(f"there is no field {name!r} in any row; there are {', '.join(_some_fields(texts))}")


def _field(text: str, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.get_json_object(quoted(text), f"$['{name}']")


def _all_there(names: list[str]) -> Column:
    from pyspark.sql import functions as f

    found = f.lit(True)
    for name in names:
        found = found & _field("value", name).isNotNull()
    return found


def _is_there(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.array_contains(f.json_object_keys("value"), name)


def _some_fields(texts: DataFrame) -> list[str]:
    from pyspark.sql import functions as f

    rows = texts.select(f.json_object_keys("value")).head(_LOOKED_AT)
    return sorted({name for row in rows for name in row[0] or ()})[:_NAMED] or ["none"]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _pick(name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The payloads with a field of theirs in their place: JSON that is in a string, or as it is written there."""
    import pyarrow as pa

    for batch in batches:
        picked = [_picked(text, name) for text in batch["value"].to_pylist()]
        yield batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(picked, pa.string()))


def _picked(text: str, name: str) -> str | None:
    check_json([text])
    found: Any = _fields(text).get(name) if text.lstrip().startswith("{") else None
    if found is None or bytes(found) == b"null":
        return None
    inner = bytes(found).decode()
    return str(msgspec.json.decode(inner)) if inner.startswith('"') else inner


def _faults(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        found = map(_fault, batch["file"].to_pylist(), batch["value"].to_pylist())
        yield pa.record_batch({"said": pa.array([said for said in found if said is not None], pa.string())})


def _fault(file: str, value: bytes) -> str | None:
    try:
        text = value.decode()
        if text.strip(" "):
            check_json([text])
    except UnicodeDecodeError:
        return not_decoded(file, value)
    except PayloadError:
        return f"{file} can not be read: {shown(text)} is not JSON. {_WAY}"
    return None
