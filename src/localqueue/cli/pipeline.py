"""`localqueue pipeline`: the data pipeline on Spark."""

from __future__ import annotations

import typer

from localqueue.cli import (
    pipeline_archive,
    pipeline_consumers,
    pipeline_jobs,
    pipeline_report,
    pipeline_schema,
    pipeline_tables,
    pipeline_triage,
)
from localqueue.cli.command import family


def commands() -> typer.Typer:
    app = family("Pipelines on Spark: tables in and out, reports, archives, dead letters, workers on a cluster.")
    for module in (pipeline_jobs, pipeline_tables, pipeline_schema, pipeline_archive, pipeline_report):
        module.register(app)
    triage = family("Dead letters by the shape of their error.")
    pipeline_triage.register(triage)
    app.add_typer(triage, name="triage")
    consumers = family("Consumers: who claims messages of a queue for a stream of Spark.")
    pipeline_consumers.register(consumers)
    app.add_typer(consumers, name="consumers")
    return app
