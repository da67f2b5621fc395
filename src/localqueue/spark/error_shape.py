"""The shape of an error: its type and its message without what differs from one message to the next.

`OSError: can not read 'a/17.csv' after 3 tries` and the same of `b/9.csv` have one shape,
`OSError: can not read <text> after <n> tries`. As a Spark expression and as plain Python, with the same result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localqueue.spark import sail

if TYPE_CHECKING:
    from pyspark.sql import Column

#: What stands for an error that was not told.
UNKNOWN = "(no error recorded)"

#: A shape is for grouping and for reading, so it ends somewhere.
LONGEST = 240

# Both engines read these patterns alike: no class whose meaning depends on Unicode, no flags.
_REPLACED: tuple[tuple[str, str], ...] = (
    (r"[ \t\r\n\f\x0b]+", " "),
    (r"(?<![A-Za-z0-9])'[^']*'(?![A-Za-z0-9])", "<text>"),
    (r'"[^"]*"', "<text>"),
    (r"`[^`]*`", "<text>"),
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (r"(?<![A-Za-z0-9_])0[xX][0-9a-fA-F]+", "<hex>"),
    (
        r"(?<![A-Za-z0-9_])(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}(?![A-Za-z0-9_])",
        "<hex>",
    ),
    (r"(?:(?<![A-Za-z0-9_.)-])[-+])?[0-9]+(?:[.,:/-][0-9]+)*", "<n>"),
)


def shape_of(type: str | None, message: str | None) -> str:
    """The shape of an error with this type and message."""
    text = message or ""
    for pattern, put in _REPLACED:
        text = re.sub(pattern, put, text)
    text = text.strip(" ")
    if not text:
        return type or UNKNOWN
    return (f"{type}: {text}" if type else text)[:LONGEST]


def error_shape(error: Column | str) -> Column:
    """The shape of an `error` or `last_error` column, as an expression of Spark alone; on Sail, by Python."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    column = F.col(error) if isinstance(error, str) else error
    running = SparkSession.getActiveSession()
    if running is not None and sail.runs(running):  # its patterns can not look around
        return F.udf(shape_of, "string", useArrow=False)(column["type"], column["message"])
    text = F.coalesce(column["message"], F.lit(""))
    for pattern, put in _REPLACED:
        text = F.regexp_replace(text, pattern, put)
    text = F.trim(text)
    type = F.when(column["type"] != "", column["type"])
    told = F.concat(F.coalesce(F.concat(type, F.lit(": ")), F.lit("")), text)
    return F.when(text == "", F.coalesce(type, F.lit(UNKNOWN))).otherwise(F.substring(told, 1, LONGEST))
