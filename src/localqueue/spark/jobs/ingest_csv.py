"""CSV with types: what a column can not hold as it is written is an error, and binary is base64, as `export` has it."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from localqueue.spark.jobs.ingest_files import given
from localqueue.spark.jobs.outgoing_rows import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

#: Encodings by Python's name, as Spark names them.
_ENCODINGS = {"iso8859-1": "ISO-8859-1", "ascii": "US-ASCII"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
#: A date without a time, or with that of midnight.
_DAY = r"^[^T :]+([T ]00:00(:00(\.0+)?)?)?$"


def csv_options(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Options of Spark's reader: a tab between fields by the name of the file, an encoding by any of its names."""
    tabs = {"sep": "\t"} if ".tsv" in name.lower() else {}
    found = {**tabs, **options}
    for option in [one for one in found if one.lower() in ("encoding", "charset")]:
        encoding = found[option]
        try:
            found[option] = _ENCODINGS.get(codecs.lookup(encoding).name, encoding)
        except LookupError:  # Java may know it
            continue
    return found


class TypedCsv:
    """Rows of CSV by a schema, of which some columns are read as text and made from it by `typed`."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        from pyspark.sql import types as t

        self._schema = schema
        self._options = options
        self._permissive = given(options, "mode") == "permissive"
        texts = [t.StructField(one.name, t.StringType()) if self._is_text(one) else one for one in schema]
        self.read_as = t.StructType(texts)

    def typed(self, rows: DataFrame) -> DataFrame:
        """The rows with the types of the schema, and the columns that folders tell."""
        from pyspark.sql import functions as f

        kinds = {one.name: one.dataType for one in self._schema if self._is_text(one)}
        if not kinds:
            return rows
        return rows.select(
            *(self._column(name, kinds[name]) if name in kinds else f.col(quoted(name)) for name in rows.columns)
        )

    def _is_text(self, column: StructField) -> bool:
        from pyspark.sql import types as t

        kind = column.dataType
        if isinstance(kind, t.BinaryType):
            return True
        if given(self._options, "mode") not in (None, "failfast"):
            return False
        if isinstance(kind, t.DecimalType):
            return given(self._options, "locale") is None
        return isinstance(kind, t.DateType) and given(self._options, "dateFormat") is None

    def _column(self, name: str, kind: DataType) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql import types as t

        text = f.col(quoted(name))
        if isinstance(kind, t.BinaryType):
            value, way = f.try_to_binary(text, f.lit("base64")), "is not base64, which binary is in CSV"
            fits = value.isNotNull()
            if self._permissive:
                return value.alias(name)
        elif isinstance(kind, t.DecimalType):
            value, way = text.try_cast(kind), f"can not be held exactly by {kind.simpleString()}"
            wide = text.try_cast(t.DecimalType(38, 38 - kind.precision + kind.scale))
            written = text.rlike(rf"^[^.eE]*(\.\d{{0,{kind.scale}}}0*)?$")
            fits = value.isNotNull() & text.rlike(_NUMBER) & (written | (text.rlike("[eE]") & (value == wide)))
        else:
            value, way = text.try_cast(kind), "can not be held exactly by date"
            fits = value.isNotNull() & text.rlike(_DAY)
        said = f.concat(
            f.lit("UnreadableFile: "), f.col("_metadata.file_path"), f.lit(f" can not be read: {name!r} is '"),
            f.regexp_replace(f.substring(text, 1, 80), r"\s+", " "),
            f.lit(f"', which {way}. Nothing was put: give a schema that fits it, or mend the file"),
        )  # fmt: skip
        return f.when(text.isNull() | fits, value).otherwise(f.raise_error(said).cast(kind)).alias(name)
