"""OpenLineage: what a job reads and writes, told by its own client where that is set up.

Spark's listener of OpenLineage sees files and tables. Of a data source written in Python it sees the name alone,
because Spark gives such a source no place for properties; so the jobs tell of queues themselves, with files named as
the listener names them, and both make one graph.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

from localqueue.stores.address import shown as shown_address
from localqueue.stores.url import backend_of

P = ParamSpec("P")
R = TypeVar("R")

_PRODUCER = "https://pypi.org/project/localqueue/"
_COUNTS = ("rows", "put", "keys")
_log = logging.getLogger("localqueue")


class Place(NamedTuple):
    """A dataset as OpenLineage knows it."""

    namespace: str
    name: str


def queue_of(arguments: Mapping[str, Any], url: str = "url", queue: str = "queue") -> Place | None:
    """The queue of a job's arguments, or with none of them the journal of the store."""
    address = arguments.get(url)
    if address is None:
        return None
    namespace = arguments.get("namespace") or "default"
    return Place(shown_address(os.fspath(address)), f"{namespace}.{arguments.get(queue) or 'journal'}")


def path_of(arguments: Mapping[str, Any], name: str = "path") -> Place | None:
    """The folder, file or table of a job's arguments, named as Spark's listener names it; None for a DataFrame."""
    given = arguments.get(name)
    if not isinstance(given, str | os.PathLike):
        return None
    text = os.fspath(given)
    parts = urlsplit(text)
    if parts.scheme in ("", "file"):
        return Place("file", os.path.abspath(parts.path))
    return Place(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))


def origin_of(arguments: Mapping[str, Any]) -> Place | None:
    """What a job reads from, which is a store or a path."""
    given = arguments.get("source")
    if not isinstance(given, str | os.PathLike):
        return None
    try:
        backend_of(os.fspath(given))
    except ValueError:
        return path_of(arguments, "source")
    return queue_of(
        {**arguments, "namespace": arguments.get("source_namespace") or arguments.get("namespace")}, "source"
    )


Told = Callable[[Mapping[str, Any]], Place | None]


def told(*, reads: Told, writes: Told | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A job that tells OpenLineage when it begins and how it ended, where a client of it is set up."""

    def decorate(job: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(job)

        @functools.wraps(job)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            client = _client()
            if client is None:
                return job(*args, **kwargs)
            arguments = signature.bind(*args, **kwargs).arguments
            tell = _Teller(client, job.__name__, reads(arguments), writes(arguments) if writes is not None else None)
            tell("START")
            try:
                result = job(*args, **kwargs)
            except BaseException as error:
                tell("FAIL", error=error)
                raise
            tell(
                "COMPLETE", rows=next((n for one in _COUNTS if isinstance(n := getattr(result, one, None), int)), None)
            )
            return result

        return run

    return decorate


def _client() -> Any:
    """The client that the environment sets up; None when it sets up none, or none is installed."""
    if not any(name.startswith("OPENLINEAGE_") for name in os.environ):
        return None
    try:
        from openlineage.client import OpenLineageClient
    except ImportError:
        _log.warning('OpenLineage is set up and its client is missing: pip install "localqueue[lineage]"')
        return None
    return OpenLineageClient()


class _Teller:
    """Events of one run of a job. What goes wrong with them is logged: a job does not fail for its lineage."""

    def __init__(self, client: Any, job: str, reads: Place | None, writes: Place | None) -> None:
        self._client, self._run = client, str(uuid.uuid4())
        about = writes or reads
        self._job = f"localqueue.{job}" + (f".{about.name.strip('/').replace('/', '_')}" if about is not None else "")
        self._reads, self._writes = reads, writes

    def __call__(self, state: str, *, error: BaseException | None = None, rows: int | None = None) -> None:
        from openlineage.client import event_v2 as events
        from openlineage.client.facet_v2 import error_message_run, output_statistics_output_dataset

        facets: dict[str, Any] = {}
        if error is not None:
            text = f"{type(error).__name__}: {error}"
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(text, "python")
        counted: dict[str, Any] = {}
        if rows is not None:
            counted["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rows)
        try:
            self._client.emit(
                events.RunEvent(
                    eventType=events.RunState[state],
                    eventTime=datetime.now(UTC).isoformat(),
                    run=events.Run(self._run, facets),
                    job=events.Job(os.environ.get("OPENLINEAGE_NAMESPACE", "default"), self._job),
                    producer=_PRODUCER,
                    inputs=[events.InputDataset(*self._reads)] if self._reads is not None else [],
                    outputs=[events.OutputDataset(*self._writes, outputFacets=counted)] if self._writes else [],
                )
            )
        except Exception as failure:
            _log.warning("an OpenLineage event of %s was not sent: %s", self._job, failure)
