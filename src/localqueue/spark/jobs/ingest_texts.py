"""Texts of files that Spark's reader of lines can not take apart: another encoding, or documents over many lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from localqueue.spark import sail
from localqueue.spark.jobs.file_errors import UnreadableFile, not_decoded, shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"[ \t\r\n]*")
_scan = json.JSONDecoder().raw_decode
_elements = msgspec.json.Decoder(type=list[msgspec.Raw]).decode


@dataclass(frozen=True, kw_only=True)
class Unpacking:
    """How a whole file becomes texts: its encoding, and whether each document, each line or all of it is one."""

    encoding: str = "UTF-8"
    documents: bool = False
    lines: bool = True

    def __post_init__(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"there is no encoding {self.encoding!r}: give one such as ISO-8859-1") from None

    def texts(self, files: DataFrame) -> DataFrame:
        """What is in files, which are whole in the column `value`, with their other columns and their name, `file`."""
        from pyspark.sql import functions as f
        from pyspark.sql import types as t

        others = [field for field in files.schema if field.name != "value"]
        file = f.col("_metadata.file_path").alias("file")
        given = files.select(f.col("value").cast("binary"), file, *(field.name for field in others))
        text = t.StringType()
        named = [t.StructField("value", text), t.StructField("file", text)]
        return given.mapInArrow(self._unpack, t.StructType([*named, *others]))

    def _unpack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in range(batch.num_rows):
                one = batch.slice(number, 1)
                texts = self._texts(one["file"][0].as_py(), one["value"][0].as_py())
                repeated = one.take(pa.array([0] * len(texts), pa.int32()))
                yield repeated.set_column(0, "value", pa.array(texts, pa.string()))

    def _texts(self, file: str, packed: bytes) -> list[str]:
        try:
            text = packed.decode(self.encoding).removeprefix("\ufeff")
        except ValueError:
            raise UnreadableFile(not_decoded(file, packed, self.encoding)) from None
        if not self.documents:
            return _LINE_END.split(text) if self.lines else [text]
        try:
            return documents(text)
        except (ValueError, RecursionError) as error:
            raise UnreadableFile(
                f"{file} can not be read: it is not JSON ({error}), and begins with {shown(text)}. Nothing was put: "
                "mend the file"
            ) from None


def documents(text: str) -> list[str]:
    """The documents of a text, one behind another, as they are written there; those of an array are its elements."""
    found = []
    at = _blank(text, 0)
    while at < len(text):
        end = _scan(text, at)[1]
        one = text[at:end]
        found += [bytes(element).decode() for element in _elements(one)] if one.startswith("[") else [one]
        at = _blank(text, end)
    return found


def refuse_damage(texts: DataFrame) -> None:
    """ValueError, with its name, for a file that is not UTF-8: Spark would replace what is not."""
    from pyspark.sql import functions as f

    if sail.runs(texts.sparkSession):  # which refuses it itself
        return
    name, value = f.col("_metadata.file_path"), f.col("value").cast("binary")
    found = texts.where(~f.is_valid_utf8("value")).select(name, value).head(1)
    if found:
        raise ValueError(not_decoded(found[0][0], bytes(found[0][1])))


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()
