"""What each broker can do, as one table: for programs, for the contract suite, and for the docs.

The suite asserts what a row says is there and that the rest is refused, so a row that lies fails. Nothing here imports
a driver: the table can be read where none is installed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal


def _says(title: str, default: Any = ...) -> Any:
    return field(metadata={"title": title}) if default is ... else field(default=default, metadata={"title": title})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapabilities:
    """One broker, or one way to use it."""

    name: str = _says("broker")
    title: str = _says("what it is")
    address: str = _says("`open_broker(...)`")
    extra: str = _says("install")
    model: Literal["push", "block", "poll"] = _says("native model")
    push: Literal["message", "signal", "none"] = _says("a push carries")
    fallback: Literal["none", "optional", "catch-up", "poll only"] = _says("fallback needed")
    makes_queues: bool = _says("queues are made by `ensure`", True)
    delay: bool = _says("delayed sends")
    longest_delay: float | None = _says("longest delay, seconds", None)
    retry_delay: bool = _says("delayed redelivery")
    priorities: int = _says("priorities above 0", 0)
    dedupe: bool = _says("drops duplicates by key")
    dedupe_window: str = _says("for how long", "")
    order: Literal["queue", "key", "none"] = _says("order kept, one consumer")
    lease: Literal["timeout", "connection"] = _says("a delivery is held by")
    renewal: bool = _says("leases can be renewed")
    origin: str = _says("a message is known by")
    fenced: bool = _says("a stale ack is refused")
    counts_deliveries: bool = _says("deliveries are counted by the broker")
    final_acks: bool = _says("an acked message never comes again", False)
    single_acks: bool = _says("messages are acked one by one", True)
    atomic_batch: bool = _says("a batch is sent whole or not at all")
    dead_letters: str = _says("dead letters are")
    dead_letters_atomic: bool = _says("moved in one step")
    counts: tuple[str, ...] = _says("`stats` knows")
    long_wait: float | None = _says("longest wait of one call, seconds", None)
    largest_body: int | None = _says("largest body, bytes", None)
    backpressure: str = _says("backpressure")
    connections: str = _says("many queues take")
    survives: str = _says("what a confirmed message survives")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_COPIED = "a copy that is confirmed before the message is acked"

_RABBITMQ: dict[str, Any] = {
    "extra": "`localqueue[rabbitmq]`",
    "model": "push",
    "push": "message",
    "fallback": "none",
    "delay": True,
    "longest_delay": 4_290_000.0,
    "retry_delay": True,
    "dedupe": False,
    "order": "queue",
    "lease": "connection",
    "renewal": False,
    "origin": "its `message_id`, if its sender gave it one",
    "fenced": True,
    "atomic_batch": False,
    "dead_letters": f"in the queue `<queue>.dead`: {_COPIED}; a dead-letter exchange leads there too",
    "dead_letters_atomic": False,
    "counts": ("ready", "dead"),
    "largest_body": 16_777_216,
    "backpressure": "prefetch: the server sends no more than that unacked",
    "connections": "one connection to send and one to receive, a channel for each queue that is consumed",
}

_SQS: dict[str, Any] = {
    "extra": "`localqueue[sqs]`",
    "model": "poll",
    "push": "none",
    "fallback": "poll only",
    "retry_delay": True,
    "lease": "timeout",
    "renewal": True,
    "origin": "its `MessageId`",
    "fenced": False,
    "counts_deliveries": True,
    "atomic_batch": False,
    "dead_letters_atomic": False,
    "counts": ("ready", "inflight", "delayed", "dead"),
    "long_wait": 20.0,
    "largest_body": 1_048_576,
    "backpressure": "nothing comes that was not asked for",
    "connections": "one pool of HTTP connections",
    "survives": "what the service promises",
}

_STORE: dict[str, Any] = {
    "model": "poll",
    "push": "signal",
    "fallback": "catch-up",
    "makes_queues": False,
    "delay": True,
    "retry_delay": True,
    "priorities": 2_147_483_647,
    "dedupe": True,
    "dedupe_window": "while the message is stored",
    "order": "queue",
    "lease": "timeout",
    "renewal": True,
    "origin": "its id",
    "fenced": True,
    "counts_deliveries": True,
    "final_acks": True,
    "atomic_batch": True,
    "dead_letters": "messages of the queue in the state `dead`",
    "dead_letters_atomic": True,
    "counts": ("ready", "inflight", "delayed", "dead"),
    "backpressure": "nothing comes that was not asked for",
    "survives": "what the store promises: see stores.md",
}

CAPABILITIES: tuple[BrokerCapabilities, ...] = (
    BrokerCapabilities(
        **_RABBITMQ,
        name="rabbitmq",
        title="RabbitMQ, quorum queues",
        address="`amqp://user@host:5672/vhost`, `amqps://...`",
        counts_deliveries=True,
        survives="the loss of a minority of the nodes, and any restart",
    ),
    BrokerCapabilities(
        **_RABBITMQ,
        name="rabbitmq-classic",
        title="RabbitMQ, classic durable queues with priorities",
        address="`amqp://user@host:5672/vhost?queue_type=classic`",
        priorities=10,
        counts_deliveries=False,
        survives="a restart of the node",
    ),
    BrokerCapabilities(
        **_SQS,
        name="sqs",
        title="Amazon SQS, standard queues",
        address="`sqs://eu-central-1`, `sqs://key@host:port/?region=...`",
        delay=True,
        longest_delay=900.0,
        dedupe=False,
        order="none",
        dead_letters=f"in the queue `<queue>-dead`: {_COPIED}",
    ),
    BrokerCapabilities(
        **_SQS,
        name="sqs-fifo",
        title="Amazon SQS, FIFO queues",
        address="`sqs://eu-central-1?fifo=true`",
        delay=False,
        dedupe=True,
        dedupe_window="5 minutes",
        order="key",
        dead_letters=f"in the queue `<queue>-dead.fifo`: {_COPIED}",
    ),
    BrokerCapabilities(
        name="redis-streams",
        title="Redis Streams, one consumer group",
        address="`redis+stream://host:6379/0`, `rediss+stream://...`",
        extra="`localqueue[redis]`",
        model="block",
        push="message",
        fallback="optional",
        delay=True,
        retry_delay=True,
        dedupe=False,
        order="queue",
        lease="timeout",
        renewal=True,
        origin="the id of its entry",
        fenced=True,
        counts_deliveries=True,
        final_acks=True,
        atomic_batch=True,
        dead_letters="in the stream `{<queue>}:dead`",
        dead_letters_atomic=True,
        counts=("ready", "inflight", "delayed", "dead"),
        backpressure="no more is read than there is room for",
        connections="one connection for each receiver that waits, a pool for the rest",
        survives="what the server promises: its `appendonly` and `appendfsync`",
    ),
    BrokerCapabilities(
        name="kafka",
        title="Apache Kafka, one consumer group",
        address="`kafka://host:9092`",
        extra="`localqueue[kafka]`",
        model="push",
        push="message",
        fallback="none",
        delay=False,
        retry_delay=True,
        dedupe=False,
        order="key",
        lease="connection",
        renewal=False,
        origin="its partition and offset",
        fenced=True,
        counts_deliveries=False,
        single_acks=False,
        atomic_batch=False,
        dead_letters=f"in the topic `<topic>.dead`: {_COPIED}",
        dead_letters_atomic=False,
        counts=("ready", "dead"),
        largest_body=1_000_000,
        backpressure="pause: partitions are not fetched while the buffer is full",
        connections="a consumer for each topic that is received and each subscription, one producer",
        survives="the loss of brokers that `acks=all` and `min.insync.replicas` allow",
    ),
    BrokerCapabilities(
        name="pgmq",
        title="PGMQ, the extension of PostgreSQL or its SQL",
        address="`pgmq://user@host:5432/database`",
        extra="`localqueue[pgmq]`",
        model="poll",
        push="signal",
        fallback="catch-up",
        delay=True,
        retry_delay=True,
        dedupe=False,
        order="queue",
        lease="timeout",
        renewal=True,
        origin="its `msg_id`",
        fenced=True,
        counts_deliveries=True,
        final_acks=True,
        atomic_batch=True,
        dead_letters="in the queue `<queue>_dead`",
        dead_letters_atomic=True,
        counts=("ready", "inflight", "delayed", "dead"),
        backpressure="nothing comes that was not asked for",
        connections="one connection that listens, a pool for the rest",
        survives="a commit of PostgreSQL",
    ),
    *(
        BrokerCapabilities(**_STORE, name=name, title=title, address=address, extra=extra, connections=connections)
        for name, title, address, extra, connections in (
            ("sqlite", "SQLiteQueueStore", "`sqlite:///jobs.db`", "nothing", "one file"),
            ("lmdb", "LMDBQueueStore", "`lmdb:///jobs`", "`localqueue[lmdb]`", "one directory"),
            ("memory", "MemoryQueueStore", "`memory://`", "nothing", "nothing"),
            ("pg", "PostgresQueueStore", "`postgresql://...`", "`localqueue[postgres]`", "one that listens, a pool"),
            ("redis", "RedisQueueStore", "`redis://...`", "`localqueue[redis]`", "one that listens, a pool"),
            ("mongodb", "MongoDBQueueStore", "`mongodb://...`", "`localqueue[mongodb]`", "one that listens, a pool"),
        )
    ),
)

_BY_NAME = {one.name: one for one in CAPABILITIES}


def capabilities_of(name: str) -> BrokerCapabilities:
    """The row of a broker by its name, such as `rabbitmq`."""
    if name not in _BY_NAME:
        raise ValueError(f"there is no broker {name!r}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def as_dict() -> dict[str, dict[str, Any]]:
    """The table in plain values, by the names of the brokers."""
    return {one.name: one.as_dict() for one in CAPABILITIES}


def as_markdown() -> str:
    """One table: a row for each property, a column for each broker, and one for all stores, which are alike here."""
    shown = [one for one in CAPABILITIES if one.name not in _STORES] + [_every_store()]
    lines = [
        ["", *(f"`{one.name}`" if one.name in _BY_NAME else one.name for one in shown)],
        ["---"] * (len(shown) + 1),
    ]
    for one in fields(BrokerCapabilities):
        if one.name != "name":
            lines.append([str(one.metadata["title"]), *(_cell(getattr(row, one.name)) for row in shown)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


_STORES = {"sqlite", "lmdb", "memory", "pg", "redis", "mongodb"}


def _every_store() -> BrokerCapabilities:
    return BrokerCapabilities(
        **_STORE,
        name="every store",
        title="all stores",
        address="its address",
        extra="see stores.md",
        connections="few",
    )


def _cell(value: Any) -> str:
    match value:
        case True:
            return "yes"
        case None | "":
            return ""
        case False | 0 | "none":
            return "no"
        case tuple():
            return ", ".join(value)
        case float():
            return f"{value:g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
