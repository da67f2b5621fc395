"""`localqueue pipeline schema`: the types of a queue's payloads, from a sample. It starts no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import CommandFailed, say
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output, write
from localqueue.cli.pipeline_session import need_spark, where
from localqueue.cli.place import Place


def register(app: typer.Typer) -> None:
    add(app, schema)


def schema(
    queue: QueueName,
    place: Place,
    out: Output,
    sample: Annotated[int, typer.Option(min=1, help="How many payloads to look at.")] = 1000,
    view: Annotated[str, typer.Option(help="messages, dead, or events for what the journal has.")] = "messages",
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Text that is always an ISO date or time is one.")
    ] = False,
) -> None:
    """Print the schema that a sample of a queue's payloads fits, to be given to Spark.

    Payloads that do not fit it will be in the column _corrupt.
    """
    need_spark()
    from localqueue.spark.ddl import ddl_of
    from localqueue.spark.options import parse
    from localqueue.spark.source.sample import NothingToInfer, inferred_from

    wanted = {"inferSchema": "true", "sampleSize": str(sample), "inferTimestamp": str(timestamps)}
    options = parse({**where(place), **wanted, "queue": queue, "view": view})
    try:
        made = inferred_from(options)
    except NothingToInfer as error:
        raise CommandFailed(str(error)) from None
    text = ddl_of(made.schema)
    if out.as_json:
        counts = {"sampled": made.sampled, "typed": made.typed, "left_out": list(made.left_out)}
        return out.data({"queue": queue, "schema": text, **counts})
    write(text)
    if made.typed < made.sampled:
        say(f"{made.sampled - made.typed} of {made.sampled} payloads are no JSON object that has types")
