"""Tables of a catalog: how `CREATE TABLE ... USING localqueue OPTIONS (...)` keeps its options and gets them back.

Spark keeps the options of a table and hands none of them to a Python data source that reads or writes it. The schema is
the only thing that comes back. So the schema of a table that is created without columns, which Spark asks us for
with the options in hand, carries them as metadata of one column.

That column is a VARCHAR, as long as any text, where there is a string to make one of. Spark then never takes rows to be
written for fitting as they are, resolves them against the table, and gives them its metadata without the mark of
a VARCHAR. A column that was read from a table has that mark, so its options are never taken for those of a target; its
length is that of no other table, so that rows of one table do not fit another as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from pyspark.sql import types as t

from localqueue.spark.options import OptionError, Options, parse
from localqueue.stores.address import parse as address_of
from localqueue.stores.default import from_environment
from localqueue.stores.url import absolute

_KEPT = "localqueue"
_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's own name
_LONGEST = 2**31 - 1
_LENGTHS = 2**20
_PROVIDER = "provider"
_OPTION = "option."

_LOST = (
    "Spark hands over no options of a table that was made with columns, by AS SELECT or by saveAsTable. Make it "
    "without: CREATE TABLE t USING localqueue OPTIONS (url '...', queue '...', schema 'order_id long, city string'), "
    "and INSERT INTO it; or use a TEMPORARY VIEW, which has its options whatever its columns"
)
_READ_WITHOUT_URL = (
    'option \'url\' is missing: name the store, .option("url", "sqlite:///jobs.db"). LOCALQUEUE_URL is not taken for a '
    'read whose columns come from .schema(...) or from a table; it is for those of .option("schema", "order_id long, '
    'city string")'
)
_WRITE_WITHOUT_URL = (
    "option 'url' is missing, and 'queue' too: name the store, .option(\"url\", \"sqlite:///jobs.db\"), or set "
    'LOCALQUEUE_URL in the environment of Spark; and name the queue, .option("queue", "jobs")'
)


def is_creation(given: Mapping[str, str]) -> bool:
    """Whether these are the properties of a table that a catalog is about to have."""
    return _PROVIDER in given


def table_options(given: Mapping[str, str]) -> dict[str, str]:
    """What was said in OPTIONS, among the properties of a new table."""
    if "path" in given or "location" in given:
        raise OptionError("a table has no LOCATION or path: its store is option 'url', such as sqlite:///jobs.db")
    options = {name[len(_OPTION) :]: text for name, text in given.items() if name.startswith(_OPTION)}
    url = options.get("url")
    if url is not None:
        options["url"] = absolute(url)
        if address_of(url).secrets:
            raise OptionError(
                "option 'url' has a password, which a catalog would keep, and whatever is written from the table: "
                "leave it out (PGPASSWORD, a password file), or leave out 'url' and set LOCALQUEUE_URL where Spark runs"
            )
    return options


def keeping(schema: t.StructType, options: Mapping[str, str]) -> t.StructType:
    """The schema of a new table, which has its options in it."""
    text = json.dumps(dict(options), sort_keys=True)
    kept = {_KEPT: text}
    place = next((n for n, field in enumerate(schema) if type(field.dataType) is t.StringType), None)
    fields = list(schema)
    field = fields[place or 0]
    kind = field.dataType if place is None else t.VarcharType(_LONGEST - crc32(text.encode()) % _LENGTHS)
    fields[place or 0] = t.StructField(field.name, kind, field.nullable, {**field.metadata, **kept})
    return t.StructType(fields)


def options_to_read(given: Mapping[str, str], schema: t.StructType, *, asked: bool) -> Options:
    """The options of a read: what it was given, on top of what its table keeps.

    `asked` says that the schema was asked of us. One that comes from elsewhere may be that of a table that has lost its
    options, which looks like one that the user gave; the environment then names no store.
    """
    kept = next((field.metadata for field in schema if _KEPT in field.metadata), None)
    if kept is None and not asked and "url" not in given:
        raise OptionError(f"{_READ_WITHOUT_URL}. {_LOST}")
    return _options(given, kept)


def options_to_write(given: Mapping[str, str], schema: t.StructType) -> Options:
    """The same for a write. Where nothing says that there is a table, the environment names the store of rows for
    which the write itself has named the queue, as a table does not have to."""
    target = (field for field in schema if _KEPT in field.metadata and _VARCHAR not in field.metadata)
    kept = next((field.metadata for field in target if type(field.dataType) is t.StringType), None)
    if kept is None and not {"url", "queue"}.intersection(given):
        raise OptionError(f"{_WRITE_WITHOUT_URL}. {_LOST}")
    return _options(given, kept)


def _options(given: Mapping[str, str], kept: Mapping[str, Any] | None) -> Options:
    if "url" in given:
        return parse(given)
    try:
        return parse(given if kept is None else {**json.loads(kept[_KEPT]), **given})
    except OptionError as error:
        if kept is None and from_environment() is None:
            raise OptionError(f"{error}. {_LOST}") from None
        raise
