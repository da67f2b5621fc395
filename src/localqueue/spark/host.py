"""The address of a session on this machine.

Spark looks up the host's name and binds to the address it finds. On many laptops and in many containers the name leads
nowhere, or to an address that the machine had yesterday, and Spark does not start. A local session needs none of it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
#: What Spark asks before it looks the name up.
SETTINGS = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")


def is_local(master: str | None, conf: Mapping[str, str]) -> bool:
    """Whether all of a session is on this machine: that is Spark's choice where nobody names a master."""
    return (master or conf.get("spark.master") or os.environ.get("MASTER") or "local").startswith("local")


def said_address() -> str | None:
    """What the environment says for the host's name."""
    return next((f"{name}={os.environ[name]}" for name in SETTINGS if os.environ.get(name)), None)


def wrong_name() -> str | None:
    """Why Spark could not use the host's name; None where it can."""
    name = socket.gethostname()
    try:
        family, *_, address = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        return f"the host's name {name!r} leads to no address"
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return f"the host's name {name!r} leads to {address[0]}, which is not an address of this machine"
    return None


def use_address(master: str | None, conf: Mapping[str, str]) -> None:
    """Have the Spark that is started next use the loopback address where the host's name would be in its way."""
    if is_local(master, conf) and said_address() is None and wrong_name() is not None:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
