"""The address of a broker, with the options that stand behind its `?`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from urllib.parse import unquote

from localqueue.stores.address import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """`url` goes to the driver and may hold a password; `shown` is for everybody."""

    url: str = field(repr=False)
    shown: str
    options: dict[str, str]


def split(url: str, **defaults: str) -> BrokerAddress:
    """Take the options that have a default out of an address. The rest is the driver's."""
    address = parse(url)
    base, _, query = address.url.partition("?")
    options, rest = dict(defaults), list[str]()
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        if unquote(name) in defaults:
            options[unquote(name)] = unquote(value)
        else:
            rest.append(pair)
    for name, value in options.items():
        if not value:
            raise ValueError(f"can not open {address.shown!r}: {name!r} has no value")
    return BrokerAddress(url=base + ("?" if rest else "") + "&".join(rest), shown=address.shown, options=options)


def number(address: BrokerAddress, name: str, *, least: float) -> float:
    """An option that is a number."""
    try:
        value = float(address.options[name])
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        raise ValueError(
            f"can not open {address.shown!r}: {name!r} is a number from {least:g} on, not {address.options[name]!r}"
        )
    return value
