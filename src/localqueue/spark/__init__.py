"""Queues, dead letters and event history on Spark: the data source `localqueue` and the jobs of a data pipeline."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localqueue.spark.checkup import doctor as doctor
    from localqueue.spark.jobs.archive import archive as archive
    from localqueue.spark.jobs.archive import read_archive as read_archive
    from localqueue.spark.jobs.compact import compact as compact
    from localqueue.spark.jobs.expectations import enforce as enforce
    from localqueue.spark.jobs.export import export as export
    from localqueue.spark.jobs.ingest import ingest as ingest
    from localqueue.spark.jobs.live_report import stream_report as stream_report
    from localqueue.spark.jobs.materialise import materialise as materialise
    from localqueue.spark.jobs.materialise import read_view as read_view
    from localqueue.spark.jobs.process import process as process
    from localqueue.spark.jobs.replay import replay as replay
    from localqueue.spark.jobs.report import report as report
    from localqueue.spark.jobs.triage import triage as triage
    from localqueue.spark.lineage import tell_lineage as tell_lineage
    from localqueue.spark.options import OptionError as OptionError
    from localqueue.spark.sink.tallies import tally as tally
    from localqueue.spark.source.sample import infer_schema as infer_schema
    from localqueue.spark.spark_session import register as register
    from localqueue.spark.spark_session import session as session
    from localqueue.spark.streams.consumers import consumer as consumer
    from localqueue.spark.streams.consumers import consumers as consumers
    from localqueue.spark.streams.consumers import forget_consumer as forget_consumer
    from localqueue.spark.streams.consumers import release_consumer as release_consumer
    from localqueue.spark.streams.consumers import release_consumers as release_consumers
    from localqueue.spark.streams.consumers import reset_consumer as reset_consumer
    from localqueue.spark.streams.verdict import condemn as condemn

#: Where each name is. None of them is also the name of a module here: importing that would take its place.
_HOMES = {
    "OptionError": "localqueue.spark.options",
    "archive": "localqueue.spark.jobs.archive",
    "compact": "localqueue.spark.jobs.compact",
    "condemn": "localqueue.spark.streams.verdict",
    "consumer": "localqueue.spark.streams.consumers",
    "consumers": "localqueue.spark.streams.consumers",
    "doctor": "localqueue.spark.checkup",
    "enforce": "localqueue.spark.jobs.expectations",
    "export": "localqueue.spark.jobs.export",
    "forget_consumer": "localqueue.spark.streams.consumers",
    "infer_schema": "localqueue.spark.source.sample",
    "ingest": "localqueue.spark.jobs.ingest",
    "materialise": "localqueue.spark.jobs.materialise",
    "process": "localqueue.spark.jobs.process",
    "read_archive": "localqueue.spark.jobs.archive",
    "read_view": "localqueue.spark.jobs.materialise",
    "register": "localqueue.spark.spark_session",
    "release_consumer": "localqueue.spark.streams.consumers",
    "release_consumers": "localqueue.spark.streams.consumers",
    "replay": "localqueue.spark.jobs.replay",
    "report": "localqueue.spark.jobs.report",
    "reset_consumer": "localqueue.spark.streams.consumers",
    "session": "localqueue.spark.spark_session",
    "stream_report": "localqueue.spark.jobs.live_report",
    "tally": "localqueue.spark.sink.tallies",
    "tell_lineage": "localqueue.spark.lineage",
    "triage": "localqueue.spark.jobs.triage",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
