"""The address of a RabbitMQ and what can be said behind its `?`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

from localqueue.brokers.address import BrokerAddress, number, split
from localqueue.brokers.rabbitmq.errors import Tongue, load
from localqueue.stores.address import parse

QueueType = Literal["quorum", "classic"]

_DEFAULTS = {"queue_type": "quorum", "heartbeat": "20", "timeout": "10", "connection_name": "localqueue"}
_FORM = "amqp://user:password@host:5672/vhost or amqps://..."
_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the server is, who asks, and how."""

    host: str
    port: int
    vhost: str
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None
    queue_type: QueueType
    heartbeat: int
    timeout: float
    connection_name: str
    tongue: Tongue = field(repr=False)

    def parameters(self, role: str) -> Any:
        """What the driver connects with."""
        pika = load()
        return pika.ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.vhost,
            credentials=pika.PlainCredentials(self.user, self.password),
            heartbeat=self.heartbeat,
            socket_timeout=self.timeout,
            stack_timeout=self.timeout,
            client_properties={"connection_name": f"{self.connection_name} {role}"},
            ssl_options=None if self.tls is None else pika.SSLOptions(self.tls, self.host),
        )


def read(url: str, ssl_context: ssl.SSLContext | None, given: dict[str, Any]) -> Settings:
    """The settings that an address and keywords ask for; a keyword goes before the same word in the address."""
    if not isinstance(url, str):
        raise TypeError(f"the address of a RabbitMQ is a text such as {_FORM}, not a {type(url).__name__}")
    address = split(url, **_DEFAULTS)
    parts = urlsplit(address.url)
    unknown = [pair.partition("=")[0] for pair in parts.query.split("&") if pair]
    unknown += [name for name in given if name not in _DEFAULTS]
    if unknown:
        raise _refusal(address, f"it takes no {unknown[0]!r}, only {', '.join(_DEFAULTS)}")
    if parts.scheme not in _PORTS or "," in parts.netloc or "/" in parts.path[1:]:
        raise _refusal(address, f"use {_FORM}, with one host, and a slash in the vhost as %2F")
    address.options.update({name: str(value) for name, value in given.items()})
    tls = None if parts.scheme == "amqp" else ssl_context or ssl.create_default_context()
    return Settings(
        host=parts.hostname or "localhost",
        port=parts.port or _PORTS[parts.scheme],
        vhost=unquote(parts.path[1:]) or "/",
        user="guest" if parts.username is None else unquote(parts.username),
        password="guest" if parts.password is None else unquote(parts.password),
        tls=tls,
        queue_type=_queue_type(address),
        heartbeat=round(number(address, "heartbeat", least=1)),
        timeout=number(address, "timeout", least=0.001),
        connection_name=address.options["connection_name"],
        tongue=Tongue(address.shown, parse(url).mask),
    )


def _queue_type(address: BrokerAddress) -> QueueType:
    name = address.options["queue_type"]
    if name not in ("quorum", "classic"):
        raise _refusal(address, f"'queue_type' is quorum or classic, not {name!r}")
    return cast(QueueType, name)


def _refusal(address: BrokerAddress, why: str) -> ValueError:
    return ValueError(f"can not open {address.shown!r}: {why}")
