"""The address of SQS: a region of AWS, or an endpoint of one's own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from localqueue.stores.address import parse

LONGEST_WAIT = 20
_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]{1,2}")
_OPTIONS = ("region", "fifo", "wait", "tls", "token")
_FORM = "sqs://eu-central-1 or sqs://key:secret@host:port/?region=us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SQSAddress:
    """`endpoint` is None for AWS; `credentials` are empty where boto3 is to find them itself."""

    shown: str
    region: str
    endpoint: str | None = None
    credentials: dict[str, str] = field(default_factory=dict, repr=False)
    fifo: bool = False
    wait: int = LONGEST_WAIT

    def client_options(self) -> dict[str, Any]:
        return {"region_name": self.region, "endpoint_url": self.endpoint, **self.credentials}


def read(url: str) -> SQSAddress:
    """`ValueError` says what of an address can not be understood, without its secret."""
    address = parse(url)
    parts = urlsplit(address.url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    refused = f"can not open {address.shown!r}: "
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise ValueError(f"{refused}there is no option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
    if parts.path not in ("", "/"):
        raise ValueError(f"{refused}it has no path; queues are named when they are used. Its form is {_FORM}")
    if not parts.hostname:
        raise ValueError(f"{refused}it names no region and no host; its form is {_FORM}")
    on_aws = parts.port is None and _REGION.fullmatch(parts.hostname) is not None
    if on_aws and options.get("region", parts.hostname) != parts.hostname:
        raise ValueError(f"{refused}it names two regions, {parts.hostname!r} and {options['region']!r}")
    credentials = _credentials(refused, parts.username, parts.password, options.get("token"))
    host = parts.netloc.rpartition("@")[2]
    tls = _is(refused, "tls", options)
    return SQSAddress(
        shown=address.shown,
        region=parts.hostname if on_aws else options.get("region") or "us-east-1",
        endpoint=None if on_aws else f"{'https' if tls else 'http'}://{host}",
        credentials=credentials,
        fifo=_is(refused, "fifo", options),
        wait=_wait(refused, options.get("wait")),
    )


def _credentials(refused: str, key: str | None, secret: str | None, token: str | None) -> dict[str, str]:
    if bool(key) != bool(secret):
        raise ValueError(f"{refused}a key and its secret go together, as in sqs://key:secret@...; or leave both out")
    if not key or not secret:
        return {}
    found = {"aws_access_key_id": unquote(key), "aws_secret_access_key": unquote(secret)}
    return {**found, "aws_session_token": token} if token else found


def _is(refused: str, name: str, options: dict[str, str]) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise ValueError(f"{refused}{name} is true or false, not {options[name]!r}")
    return value == "true"


def _wait(refused: str, value: str | None) -> int:
    if value is None:
        return LONGEST_WAIT
    if not value.isdecimal() or not 1 <= int(value) <= LONGEST_WAIT:
        raise ValueError(f"{refused}wait is a whole number of seconds from 1 to {LONGEST_WAIT}, not {value!r}")
    return int(value)
