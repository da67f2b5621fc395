"""The options of `format("localqueue")`: what they are called, what they may be, and which go together.

Spark hands them over as text under names without case. Whatever is wrong with them is said here, before any store is
opened, with the name of the option and the way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from localqueue.brokers.url import is_broker
from localqueue.policies import StaticFanoutSubscriptions
from localqueue.policies._limits import LONGEST
from localqueue.spark.columns import VIEWS, known_columns
from localqueue.stores.address import conceal, shown
from localqueue.stores.default import from_environment
from localqueue.stores.url import absolute, backend_of

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
    "delivery", "claimStore", "schema", "inferSchema", "sampleSize", "inferTimestamp",
    "maxsize", "overflow", "overflowQueue", "subscribers", "fanout", "tally",
)  # fmt: skip
_MOST = 2**63  # more than any store counts
_SPELLED = {name.lower(): name for name in NAMES}


class OptionError(ValueError):
    """An option of the data source that can not be: the message names it, its value and what it may be."""


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
    url = url if at_broker else _store("url", url)
    view = _one_of("view", texts.get("view", "messages"), tuple(VIEWS))
    values: dict[str, Any] = {
        "url": url,
        "namespace": _filled("namespace", texts.get("namespace")) or (usual.namespace if usual else "default"),
        "queue": _filled("queue", texts.get("queue")),
        "view": view,
        "mode": _one_of("mode", texts.get("mode", "subscribe"), MODES),
        "consumer": _filled("consumer", texts.get("consumer")),
        "columns": _columns(view, texts.get("columns")),
        "starting": _offset("startingOffsets", texts.get("startingOffsets", "earliest"), ("earliest", "latest")),
        "ending": _offset("endingOffsets", texts.get("endingOffsets", "latest"), ("latest",)),
        "starting_at": _moment("startingTimestamp", texts.get("startingTimestamp")),
        "ending_at": _moment("endingTimestamp", texts.get("endingTimestamp")),
        "max_offsets": _count("maxOffsetsPerTrigger", texts.get("maxOffsetsPerTrigger")),
        "min_partitions": _count("minPartitions", texts.get("minPartitions")),
        "num_partitions": _count("numPartitions", texts.get("numPartitions")),
        "include_headers": _flag("includeHeaders", texts.get("includeHeaders", "true")),
        "fail_on_data_loss": _flag("failOnDataLoss", texts.get("failOnDataLoss", "true")),
        "corrupt": _one_of("corruptRows", texts["corruptRows"], CORRUPT) if "corruptRows" in texts else None,
        "claim_timeout": _seconds("claimTimeout", texts.get("claimTimeout", "120" if at_broker else "86400")),
        "max_attempts": _count("maxAttempts", texts.get("maxAttempts")),
        "engine": _one_of("engine", texts.get("engine", "auto"), ENGINES),
        "idempotency_key": _filled("idempotencyKey", texts.get("idempotencyKey")),
        "delivery": _one_of("delivery", texts.get("delivery", "atomic"), DELIVERIES),
        "claim_store": _store("claimStore", texts["claimStore"]) if "claimStore" in texts else None,
        "schema": _filled("schema", texts.get("schema")),
        "infer": _flag("inferSchema", texts.get("inferSchema", "false")),
        "sample": _count("sampleSize", texts.get("sampleSize")) or 1000,
        "infer_times": _flag("inferTimestamp", texts.get("inferTimestamp", "false")),
        "maxsize": _count("maxsize", texts.get("maxsize")),
        "overflow": _one_of("overflow", texts.get("overflow", "reject"), OVERFLOWS),
        "overflow_queue": _filled("overflowQueue", texts.get("overflowQueue")),
        "subscribers": _subscribers(texts.get("subscribers")),
        "fanout": _flag("fanout", texts.get("fanout", "false")),
        "tally": _filled("tally", texts.get("tally")),
    }
    return _agreeing(Options(**values), texts)


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


def _store(name: str, text: str) -> str:
    """The address of a store that tasks can open."""
    if is_broker(text):
        raise OptionError(
            f"option {name!r} is a broker ({shown(text)}), and must be a store such as sqlite:///claims.db"
        )
    try:
        url = absolute(text)
        backend = backend_of(url)
    except ValueError as error:
        raise OptionError(f"option {name!r}: {error}") from None
    if backend == "memory":
        raise OptionError(
            f"option {name!r} is a memory store, which only its own process can see; "
            "Spark reads sqlite://, lmdb://, postgresql://, redis:// and mongodb://"
        )
    return url


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
            raise OptionError(f"option {_said(name)} is not known; there are {', '.join(NAMES)}")


def _said(text: str) -> str:
    """What was given, without the password of an address that is at the wrong place."""
    return repr(conceal(text, text))


def _filled(name: str, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise OptionError(f"option {name!r} is empty")
    return text


def _one_of(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise OptionError(f"option {name!r} must be one of {', '.join(allowed)}, not {_said(text)}")
    return text


def _columns(view: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    known = known_columns(view)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"has no column {_said(unknown[0])}" if unknown else "needs at least one column"
        raise OptionError(f"option 'columns': view {view!r} {what}; it has {', '.join(known)}")
    if len(set(names)) < len(names):
        raise OptionError(f"option 'columns' names a column twice: {_said(text)}")
    return names


def _subscribers(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        return StaticFanoutSubscriptions(tuple(name.strip() for name in text.split(","))).subscribers
    except ValueError as error:
        raise OptionError(f"option 'subscribers' must be names with commas: {error}, in {_said(text)}") from None


def _offset(name: str, text: str, words: tuple[str, ...]) -> int | str:
    if text in words:
        return text
    try:
        offset = json.loads(text)
        seq = offset["seq"] if isinstance(offset, dict) else offset
        if type(seq) is int and 0 <= seq < _MOST:
            return seq
    except (ValueError, KeyError, RecursionError):
        pass
    offset = f'{", ".join(words)} or an offset such as {{"seq": 120}}'
    raise OptionError(f"option {name!r} must be {offset}, not {_said(text)}")


def _moment(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return int(text) / 1000.0  # as the Kafka source: milliseconds since the epoch
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise OptionError(
            f"option {name!r} must be milliseconds since 1970 or an ISO time with its zone, such as "
            f"2026-01-31T12:00:00+00:00, not {_said(text)}"
        )
    return moment.timestamp()


def _count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 1000 and 1 <= int(digits) < _MOST):
        raise OptionError(f"option {name!r} must be a whole number from 1, not {_said(text)}")
    return int(digits)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= LONGEST:
        raise OptionError(f"option {name!r} must be seconds above 0, at most {LONGEST:.0f}, not {_said(text)}")
    return seconds


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name!r} must be true or false, not {_said(text)}")
    return text.lower() == "true"
