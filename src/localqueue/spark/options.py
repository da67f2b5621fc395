"""The options of `format("localqueue")`: what they are called, what they may be, and which go together.

Spark hands them over as text under names without case. Whatever is wrong with them is said here, before any store is
opened, with the name of the option and the way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from localqueue.brokers.url import is_broker
from localqueue.spark import option_values as values
from localqueue.spark.columns import VIEWS
from localqueue.spark.option_values import OptionError as OptionError
from localqueue.stores.address import shown
from localqueue.stores.default import from_environment
from localqueue.stores.url import backend_of

MODES = ("subscribe", "consume")
CORRUPT = ("column", "fail", "drop", "dead-letter")
ENGINES = ("auto", "adbc", "python")
DELIVERIES = ("atomic", "steps", "direct")
#: What a sink does with a row that finds its queue full; the names are those of the backpressure policies.
OVERFLOWS = ("reject", "drop-newest", "drop-oldest", "overflow-queue")

#: Options that Spark adds of its own accord, or that belong to its writers.
_SPARKS_OWN = {"checkpointlocation", "queryname"}

NAMES = (
    "url", "namespace", "queue", "view", "mode", "consumer", "columns", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "maxOffsetsPerTrigger", "minPartitions", "numPartitions",
    "includeHeaders", "failOnDataLoss", "corruptRows", "claimTimeout", "maxAttempts", "engine", "idempotencyKey",
    "delivery", "claimStore", "schema", "inferSchema", "sampleSize", "inferTimestamp", "pushFilters",
    "maxsize", "overflow", "overflowQueue", "subscribers", "fanout", "tally",
)  # fmt: skip
_SPELLED = {name.lower(): name for name in NAMES}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options as values. Made by `parse`; a plain object, so that it travels to the executors."""

    url: str = field(repr=False)
    namespace: str = "default"
    queue: str | None = None
    view: str = "messages"
    mode: str = "subscribe"
    consumer: str | None = None
    columns: tuple[str, ...] | None = None
    starting: int | str = "earliest"
    ending: int | str = "latest"
    starting_at: float | None = None
    ending_at: float | None = None
    max_offsets: int | None = None
    min_partitions: int | None = None
    num_partitions: int | None = None
    include_headers: bool = True
    fail_on_data_loss: bool = True
    corrupt: str | None = None
    claim_timeout: float = 86_400.0
    max_attempts: int | None = None
    engine: str = "auto"
    idempotency_key: str | None = None
    delivery: str = "atomic"
    claim_store: str | None = field(default=None, repr=False)
    schema: str | None = None
    infer: bool = False
    sample: int = 1000
    infer_times: bool = False
    push_filters: bool = False
    maxsize: int | None = None
    overflow: str = "reject"
    overflow_queue: str | None = None
    subscribers: tuple[str, ...] = ()
    fanout: bool = False
    tally: str | None = None

    @property
    def store_url(self) -> str:
        """Where records are kept: the store itself, or that of a consumer's claims on a broker."""
        return self.claim_store or self.url

    @property
    def backend(self) -> str:
        return backend_of(self.url)

    @property
    def at_broker(self) -> bool:
        """Whether the messages are at a broker."""
        return is_broker(self.url)

    @property
    def place(self) -> dict[str, str | None]:
        """What the progress of a stream says of where it is, without any password."""
        return {"store": shown(self.url), "queue": self.queue}

    def need_store(self, what: str) -> None:
        """Refuse a broker, which can not do this."""
        if self.at_broker:
            way = "" if not self.url.startswith("kafka") else '; Spark itself follows a topic, format("kafka")'
            raise OptionError(
                f"option 'url' is a broker, and {shown(self.url)} can not {what}: it can be consumed as a stream, "
                f'.option("mode", "consume") with options consumer and claimStore{way}'
            )

    def need_queue(self) -> str:
        if self.queue is None:
            raise OptionError('option \'queue\' is missing: name the queue, .option("queue", "jobs")')
        return self.queue


def parse(given: Mapping[str, str]) -> Options:
    """The options of one reader or writer, or OptionError."""
    texts = dict(_spelled(given))
    usual = from_environment()
    url = texts.get("url", None if usual is None else usual.url)
    if url is None:
        # The user's own file, which serves elsewhere, would be another one for each user and machine of a cluster.
        raise OptionError(
            'option \'url\' is missing: name the store, .option("url", "sqlite:///jobs.db"), or set LOCALQUEUE_URL in '
            "the environment of Spark"
        )
    at_broker = is_broker(url)
    url = url if at_broker else values.store("url", url)
    view = values.one_of("view", texts.get("view", "messages"), tuple(VIEWS))
    found: dict[str, Any] = {
        "url": url,
        "namespace": values.filled("namespace", texts.get("namespace")) or (usual.namespace if usual else "default"),
        "queue": values.filled("queue", texts.get("queue")),
        "view": view,
        "mode": values.one_of("mode", texts.get("mode", "subscribe"), MODES),
        "consumer": values.filled("consumer", texts.get("consumer")),
        "columns": values.columns(view, texts.get("columns")),
        "starting": values.offset("startingOffsets", texts.get("startingOffsets", "earliest"), ("earliest", "latest")),
        "ending": values.offset("endingOffsets", texts.get("endingOffsets", "latest"), ("latest",)),
        "starting_at": values.moment("startingTimestamp", texts.get("startingTimestamp")),
        "ending_at": values.moment("endingTimestamp", texts.get("endingTimestamp")),
        "max_offsets": values.count("maxOffsetsPerTrigger", texts.get("maxOffsetsPerTrigger")),
        "min_partitions": values.count("minPartitions", texts.get("minPartitions")),
        "num_partitions": values.count("numPartitions", texts.get("numPartitions")),
        "include_headers": values.flag("includeHeaders", texts.get("includeHeaders", "true")),
        "fail_on_data_loss": values.flag("failOnDataLoss", texts.get("failOnDataLoss", "true")),
        "corrupt": values.one_of("corruptRows", texts["corruptRows"], CORRUPT) if "corruptRows" in texts else None,
        "claim_timeout": values.seconds("claimTimeout", texts.get("claimTimeout", "120" if at_broker else "86400")),
        "max_attempts": values.count("maxAttempts", texts.get("maxAttempts")),
        "engine": values.one_of("engine", texts.get("engine", "auto"), ENGINES),
        "idempotency_key": values.filled("idempotencyKey", texts.get("idempotencyKey")),
        "delivery": values.one_of("delivery", texts.get("delivery", "atomic"), DELIVERIES),
        "claim_store": values.store("claimStore", texts["claimStore"]) if "claimStore" in texts else None,
        "schema": values.filled("schema", texts.get("schema")),
        "infer": values.flag("inferSchema", texts.get("inferSchema", "false")),
        "push_filters": values.flag("pushFilters", texts.get("pushFilters", "false")),
        "sample": values.count("sampleSize", texts.get("sampleSize")) or 1000,
        "infer_times": values.flag("inferTimestamp", texts.get("inferTimestamp", "false")),
        "maxsize": values.count("maxsize", texts.get("maxsize")),
        "overflow": values.one_of("overflow", texts.get("overflow", "reject"), OVERFLOWS),
        "overflow_queue": values.filled("overflowQueue", texts.get("overflowQueue")),
        "subscribers": values.subscribers(texts.get("subscribers")),
        "fanout": values.flag("fanout", texts.get("fanout", "false")),
        "tally": values.filled("tally", texts.get("tally")),
    }
    return _agreeing(Options(**found), texts)


def _agreeing(options: Options, texts: Mapping[str, str]) -> Options:
    if options.starting_at is not None and "startingOffsets" in texts:
        raise OptionError("options 'startingOffsets' and 'startingTimestamp' both say where to begin: give one of them")
    if options.ending_at is not None and "endingOffsets" in texts:
        raise OptionError("options 'endingOffsets' and 'endingTimestamp' both say where to end: give one of them")
    shapes = [name for name in ("columns", "schema") if name in texts] + ["inferSchema"] * options.infer
    if len(shapes) > 1:
        raise OptionError(f"options {shapes[0]!r} and {shapes[1]!r} both say which columns there are: give one of them")
    idle = next((name for name in ("sampleSize", "inferTimestamp") if name in texts), None)
    if idle is not None and not options.infer:
        raise OptionError(f'option {idle!r} is for a schema that is inferred: add .option("inferSchema", "true")')
    if options.mode == "consume" and options.consumer is None:
        raise OptionError(
            "option 'consumer' is missing: mode 'consume' claims messages under a name that is the same after a "
            'restart, .option("consumer", "etl")'
        )
    if options.at_broker and options.mode != "consume":
        options.need_store(f"be used in mode {options.mode!r}")
    if options.at_broker and options.claim_store is None:
        raise OptionError(
            f"option 'claimStore' is missing: {shown(options.url)} is a broker, and what a consumer has claimed of it "
            'is kept in a store, .option("claimStore", "postgresql://host/db") or "sqlite:///claims.db"'
        )
    if options.claim_store is not None and not options.at_broker:
        raise OptionError(
            f"option 'claimStore' is for brokers; the claims on {shown(options.url)} are kept there, leave it out"
        )
    if "overflow" in texts and options.maxsize is None:
        raise OptionError(
            f"option 'overflow' ({options.overflow!r}) says what happens when the queue is full: say when that is with "
            "option 'maxsize'"
        )
    if (options.overflow == "overflow-queue") != (options.overflow_queue is not None):
        raise OptionError(
            "option 'overflow' is 'overflow-queue' and option 'overflowQueue' names that queue: give both or neither"
        )
    return options


def _spelled(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in given.items():
        key = name.lower()
        if key == "path":
            raise OptionError(
                f"option 'path' ({shown(text)!r}) is not used: give the store as option 'url', such as "
                "sqlite:///jobs.db, and call load(), save() or start() without a path"
            )
        if key in _SPELLED:
            yield _SPELLED[key], text
        elif key not in _SPARKS_OWN:
            raise OptionError(f"option {values.said(name)} is not known; there are {', '.join(NAMES)}")
