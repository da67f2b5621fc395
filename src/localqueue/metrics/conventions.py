"""How OpenTelemetry's messaging conventions (1.44, in development) name what a queue does."""

from __future__ import annotations

from typing import Any

from localqueue.queue.operation import Operation

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM = "localqueue"

SYSTEM_KEY = "messaging.system"
DESTINATION = "messaging.destination.name"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
BATCH_COUNT = "messaging.batch.message_count"
CLIENT_ID = "messaging.client.id"
DELIVERY_ATTEMPT = "messaging.localqueue.message.delivery_attempt"
TASK_NAME = "messaging.localqueue.task.name"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

OPERATION_DURATION = "messaging.client.operation.duration"
SENT_MESSAGES = "messaging.client.sent.messages"
CONSUMED_MESSAGES = "messaging.client.consumed.messages"
PROCESS_DURATION = "messaging.process.duration"

#: Upper bounds of the durations' buckets, in seconds.
DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

#: What an operation is said to have failed with that nothing was raised for.
LEASE_LOST = "localqueue.errors.LeaseLost"

_PORTS = {"postgresql": 5432, "postgres": 5432, "redis": 6379, "rediss": 6379, "mongodb": 27017}


def attributes_of(operation: Operation) -> dict[str, Any]:
    """What spans and metrics say of an operation, whatever comes of it."""
    return {
        SYSTEM_KEY: SYSTEM,
        DESTINATION: operation.queue,
        OPERATION_NAME: operation.name,
        OPERATION_TYPE: operation.kind,
        **server_of(operation.where),
    }


def server_of(url: str) -> dict[str, Any]:
    """Host and port of a store on a server; of several hosts the first. A store in a file or in memory has none."""
    scheme, separator, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2].partition(",")[0]
    if not separator or scheme in ("sqlite", "lmdb", "memory") or not host:
        return {}
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = host, ""
    number = int(port) if port.isdigit() else _PORTS.get(scheme)
    server: dict[str, Any] = {SERVER_ADDRESS: name.strip("[]")}
    return server if number is None else {**server, SERVER_PORT: number}


def error_type(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
