"""What the address of a Kafka says: where it is, who logs in, and how topics and groups are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

from localqueue.brokers.address import number, split
from localqueue.brokers.kafka.errors import load
from localqueue.stores.address import parse

_DEFAULTS = {
    "group": "localqueue.{queue}",
    "partitions": "4",
    "replication": "-1",
    "session_timeout": "10",
    "handover": "30",
    "timeout": "15",
}
_HEARTBEAT = 0.5  # seconds: so long a process may take to notice that another has joined


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    shown: str
    client: dict[str, Any] = field(repr=False)
    group: str
    partitions: int
    replication: int
    session_timeout: float
    handover: float
    timeout: float

    def group_of(self, topic: str) -> str:
        return self.group.replace("{queue}", topic)

    def dead_group_of(self, topic: str) -> str:
        """The one that remembers which dead letters were removed."""
        return f"{self.group_of(topic)}.dead"

    def producer(self) -> dict[str, Any]:
        return {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,  # while a batch is handed over; who waits for a report sends at once
            "delivery.timeout.ms": int(self.timeout * 1000),
            "message.max.bytes": 1_048_000,
            "partitioner": "murmur2_random",  # as in Kafka's own client
            "topic.metadata.propagation.max.ms": 2000,
            **self.client,
        }

    def consumer(self, group: str) -> dict[str, Any]:
        return {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(self.session_timeout * 1000),
            "heartbeat.interval.ms": int(1000 * min(_HEARTBEAT, self.session_timeout / 3)),
            "max.poll.interval.ms": int(1000 * max(300.0, 4 * self.handover, self.session_timeout)),
            "fetch.wait.max.ms": 200,
            "fetch.error.backoff.ms": 50,
            "queued.min.messages": 10_000,
            "queued.max.messages.kbytes": 16_384,
            **self.client,
        }


def read(url: str) -> KafkaSettings:
    address = split(url, **_DEFAULTS)
    base, _, query = address.url.partition("?")
    login, at, hosts = base.removeprefix("kafka://").rpartition("@")
    hosts = hosts.rstrip("/")
    if not hosts or "/" in hosts:
        raise ValueError(f"can not open {address.shown!r}: the address of a Kafka is kafka://host:9092")
    client: dict[str, Any] = {
        "bootstrap.servers": hosts,
        "client.id": "localqueue",
        "log_level": 0,
        "allow.auto.create.topics": False,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
    }
    if at:
        user, _, password = login.partition(":")
        client |= {"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN"}
        client |= {"sasl.username": unquote(user), "sasl.password": unquote(password)}
    given = dict(pair.partition("=")[::2] for pair in query.split("&")) if query else {}
    extra = {unquote(name): unquote_plus(value) for name, value in given.items()}
    _require_known(url, extra)
    return KafkaSettings(
        shown=address.shown,
        client=client | extra,
        group=address.options["group"],
        partitions=int(number(address, "partitions", least=1)),
        replication=int(number(address, "replication", least=-1)),
        session_timeout=number(address, "session_timeout", least=0.1),
        handover=number(address, "handover", least=0),
        timeout=number(address, "timeout", least=0.1),
    )


def _require_known(url: str, extra: dict[str, Any]) -> None:
    """The driver knows its settings: a consumer that leads nowhere is made of them."""
    driver = load()
    try:
        driver.Consumer({"group.id": "localqueue", "log_level": 0, **extra}).close()
    except (driver.KafkaException, TypeError, ValueError) as error:
        refused = parse(url).unreadable(error, "kafka://host:9092 with settings of librdkafka behind the ?")
    else:
        return
    raise refused
