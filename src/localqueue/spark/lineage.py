"""OpenLineage: what a job reads and writes, told by its own client where that is set up.

Spark's listener of OpenLineage sees files and tables. Of a data source written in Python it sees the name alone,
because Spark gives such a source no place for properties; so the jobs tell of queues themselves, and `tell_lineage`
does for any code. Files are named as the listener names them, and a run told here has the listener's run of the
application as its parent, as its queries have: both make one graph.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

from localqueue.spark.lineage_parent import Run, run_of_application
from localqueue.stores.address import shown as shown_address
from localqueue.stores.url import absolute, backend_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    return Place(shown_address(_absolute(os.fspath(address))), f"{namespace}.{arguments.get(queue) or 'journal'}")


def _absolute(address: str) -> str:
    """The same store for who reads it elsewhere; what is no store's address stays as it is."""
    try:
        return absolute(address)
    except ValueError:
        return address


def path_of(arguments: Mapping[str, Any], name: str = "path") -> Place | None:
    """The folder, file or table of a job's arguments, named as Spark's listener names it; None for a DataFrame."""
    given = arguments.get(name)
    if given is None and arguments.get("table") is not None:
        return Place("spark", str(arguments["table"]))  # where it lies, only its catalog knows
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
            given = signature.bind(*args, **kwargs).arguments
            into = writes(given) if writes is not None else None
            tell = _Teller(client, job.__name__, _there(reads(given)), _there(into), run_of_application(given["spark"]))
            with tell.run():
                result = job(*args, **kwargs)
                tell.rows = next((n for one in _COUNTS if isinstance(n := getattr(result, one, None), int)), None)
                return result

        return run

    return decorate


Dataset = Mapping[str, Any] | str | os.PathLike[str]


@contextmanager
def tell_lineage(
    spark: SparkSession, name: str, *, reads: Iterable[Dataset] = (), writes: Iterable[Dataset] = ()
) -> Iterator[None]:
    """Tell OpenLineage of the block: when it begins, how it ended, what it reads and what it writes.

    A queue is the options that the data source gets (`{"url": ..., "queue": ...}`), anything else a path. Without a
    client that is set up nothing is told, and what goes wrong with the telling does not disturb the block.
    """
    if not name.strip():
        raise ValueError("name is empty: OpenLineage knows a job by its name")
    inputs, outputs = [_dataset(one) for one in reads], [_dataset(one) for one in writes]
    client = _client()
    if client is None:
        yield
        return
    with _Teller(client, name, inputs, outputs, run_of_application(spark), named=True).run():
        yield


def _dataset(given: Dataset) -> Place:
    found = queue_of(given) if isinstance(given, Mapping) else path_of({"path": given})
    if found is None:
        raise ValueError(f"{given!r} is no dataset: name a queue by its options, url and queue, or a path")
    return found


def _there(place: Place | None) -> list[Place]:
    return [] if place is None else [place]


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

    def __init__(
        self,
        client: Any,
        job: str,
        reads: list[Place],
        writes: list[Place],
        application: Run | None,
        *,
        named: bool = False,
    ) -> None:
        self._client, self._run = client, str(uuid.uuid4())
        self._reads, self._writes, self._application = reads, writes, application
        about = "".join(f".{place.name.strip('/').replace('/', '_')}" for place in (writes or reads)[:1])
        self._job = job if named else f"localqueue.{job}{about}"
        self._namespace = (
            os.environ.get("OPENLINEAGE_NAMESPACE") or (application and application.namespace) or "default"
        )
        self.rows: int | None = None

    @contextmanager
    def run(self) -> Iterator[None]:
        """The block as a run."""
        self._tell("START")
        try:
            yield
        except BaseException as error:
            self._tell("FAIL", error)
            raise
        self._tell("COMPLETE")

    def _tell(self, state: str, error: BaseException | None = None) -> None:
        from openlineage.client import event_v2 as events
        from openlineage.client.facet_v2 import error_message_run, output_statistics_output_dataset, parent_run

        facets: dict[str, Any] = {}
        if error is not None:
            text = f"{type(error).__name__}: {error}"
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(text, "python")
        if (above := self._application) is not None:
            facets["parent"] = parent_run.ParentRunFacet(
                parent_run.Run(above.run_id), parent_run.Job(above.namespace, above.job)
            )
        counted: dict[str, Any] = {}
        if self.rows is not None:
            counted["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(self.rows)
        try:
            self._client.emit(
                events.RunEvent(
                    eventType=events.RunState[state],
                    eventTime=datetime.now(UTC).isoformat(),
                    run=events.Run(self._run, facets),
                    job=events.Job(self._namespace, self._job),
                    producer=_PRODUCER,
                    inputs=[events.InputDataset(*place) for place in self._reads],
                    outputs=[events.OutputDataset(*place, outputFacets=counted) for place in self._writes],
                )
            )
        except Exception as failure:
            _log.warning("an OpenLineage event of %s was not sent: %s", self._job, failure)
