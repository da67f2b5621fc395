"""A message as a record of a topic, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import NO_HEADERS, Delivery

if TYPE_CHECKING:
    from localqueue.brokers.kafka.consumer import TopicConsumer
    from localqueue.brokers.kafka.partition import Partition


class Receipt(NamedTuple):
    """Where a delivery came from: a partition as it was assigned to this process; and which delivery it is."""

    consumer: TopicConsumer
    partition: Partition
    offset: int
    number: int


def headers_of(headers: Mapping[str, str], message_id: str | None) -> list[tuple[str, bytes]]:
    found = [(name, value.encode("utf-8", "surrogatepass")) for name, value in headers.items() if name != envelope.ID]
    if message_id is not None:
        found.append((envelope.ID, message_id.encode()))
    return found


def id_of(partition: int, offset: int) -> str:
    """The id of a message that was sent without one."""
    return f"{partition}-{offset}"


def delivery(queue: str, record: Any, receipt: Receipt, count: int) -> Delivery:
    """`record` is a message of the driver."""
    headers, message_id = NO_HEADERS, None
    if (found := record.headers()) is not None:
        own = {name: "" if value is None else value.decode("utf-8", "surrogateescape") for name, value in found}
        message_id = own.pop(envelope.ID, None)
        headers = own
    key, (_, created) = record.key(), record.timestamp()
    return Delivery(
        queue,
        id_of(record.partition(), receipt.offset) if message_id is None else message_id,
        record.value() or b"",
        headers,
        count,
        receipt,
        None if key is None else key.decode("utf-8", "backslashreplace"),
        0,
        created / 1000 if created > 0 else None,
        origin=id_of(record.partition(), receipt.offset),
    )


def dead_letter(queue: str, record: Any, receipt: Any) -> Delivery:
    found = delivery(queue, record, receipt, 1)
    attempts = found.headers.get(envelope.ATTEMPTS, "")
    return found._replace(attempts=int(attempts)) if attempts.isdecimal() else found
