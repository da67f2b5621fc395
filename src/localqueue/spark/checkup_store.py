"""The check of `doctor` that needs no session: whether a store answers here."""

from __future__ import annotations

import socket

from localqueue.errors import QueueStoreError
from localqueue.spark.checkup import FAIL, OK, Check
from localqueue.spark.options import OptionError, Options, parse
from localqueue.spark.place import opened

NAME = "store"


def named(url: str | None, namespace: str | None) -> Options | Check:
    """The store that is meant, or what is wrong with its name."""
    given = {"url": url, "namespace": namespace}
    try:
        return parse({name: value for name, value in given.items() if value is not None})
    except OptionError as error:
        return Check(name=NAME, state=FAIL, found=str(error))


def answers_here(options: Options | Check) -> Check:
    """Whether a store answers to this process. It is not made by that."""
    if isinstance(options, Check):
        return options
    told = answer(options)
    if told["error"] is not None:
        return Check(
            name=NAME,
            state=FAIL,
            found=told["error"],
            way_out="start it, make it by a first put, or give its right name",
        )
    return Check(name=NAME, state=OK, found=f"{told['url']} answers here")


def answer(options: Options) -> dict[str, str | None]:
    """What a store says when it is asked for the time."""
    found: dict[str, str | None] = {"host": socket.gethostname(), "url": None, "error": None}
    try:
        with opened(options, read_only=True) as store:
            store.now()
            found["url"] = store.url
    except (QueueStoreError, OSError, ImportError, ValueError) as error:
        found["error"] = str(error)
    return found
