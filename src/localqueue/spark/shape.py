"""Which columns a read has when the user names none by `.schema(...)`, and which of a table's can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.spark.columns import VIEWS, known_columns, spark_schema
from localqueue.spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

CORRUPT = "_corrupt"


def default_schema(options: Options) -> StructType:
    """The columns of a read with these options."""
    if options.schema is not None:
        from localqueue.spark.ddl import parse_ddl

        return parse_ddl(options.schema)
    if options.infer:
        from localqueue.spark.source.sample import inferred_from

        options.need_store("be sampled for a schema")
        return inferred_from(options).schema
    columns = VIEWS[options.view]
    if options.columns is not None:
        known = known_columns(options.view)
        columns = {name: known[name] for name in options.columns}
    elif not options.include_headers:
        columns = {name: kind for name, kind in columns.items() if name != "headers"}
    return spark_schema(columns)


def own_columns(options: Options, schema: StructType, writable: frozenset[str]) -> tuple[str, ...]:
    """Columns of a table that only the store fills, where rows of this schema are written to such a table.

    A write that names other columns than the table has is an ordinary one, and has none of them.
    """
    if options.view != "messages":
        raise OptionError(f"option 'view' is {options.view!r}: rows are written to a queue as messages, leave it out")
    names = schema.fieldNames()
    if options.schema is not None or options.infer:
        return tuple(
            name for name in names if name == CORRUPT or (name[:1] == "_" and name[1:] in known_columns("messages"))
        )
    if "value" in names and names == default_schema(options).fieldNames():
        return tuple(name for name in names if name not in writable)
    return ()
