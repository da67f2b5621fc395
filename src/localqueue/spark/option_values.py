"""What the text of an option says, or OptionError with the name of the option, the text, and what it may be."""

from __future__ import annotations

import json
from datetime import datetime

from localqueue.brokers.url import is_broker
from localqueue.policies import StaticFanoutSubscriptions
from localqueue.policies._limits import LONGEST
from localqueue.spark.columns import known_columns
from localqueue.stores.address import conceal, shown
from localqueue.stores.url import absolute, backend_of

_MOST = 2**63  # more than any store counts


class OptionError(ValueError):
    """An option of the data source that can not be: the message names it, its value and what it may be."""


def store(name: str, text: str) -> str:
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


def said(text: str) -> str:
    """What was given, without the password of an address that is at the wrong place."""
    return repr(conceal(text, text))


def filled(name: str, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise OptionError(f"option {name!r} is empty")
    return text


def one_of(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise OptionError(f"option {name!r} must be one of {', '.join(allowed)}, not {said(text)}")
    return text


def columns(view: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    known = known_columns(view)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"has no column {said(unknown[0])}" if unknown else "needs at least one column"
        raise OptionError(f"option 'columns': view {view!r} {what}; it has {', '.join(known)}")
    if len(set(names)) < len(names):
        raise OptionError(f"option 'columns' names a column twice: {said(text)}")
    return names


def subscribers(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        return StaticFanoutSubscriptions(tuple(name.strip() for name in text.split(","))).subscribers
    except ValueError as error:
        raise OptionError(f"option 'subscribers' must be names with commas: {error}, in {said(text)}") from None


def offset(name: str, text: str, words: tuple[str, ...]) -> int | str:
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
    raise OptionError(f"option {name!r} must be {offset}, not {said(text)}")


def moment(name: str, text: str | None) -> float | None:
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
            f"2026-01-31T12:00:00+00:00, not {said(text)}"
        )
    return moment.timestamp()


def count(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 1000 and 1 <= int(digits) < _MOST):
        raise OptionError(f"option {name!r} must be a whole number from 1, not {said(text)}")
    return int(digits)


def seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= LONGEST:
        raise OptionError(f"option {name!r} must be seconds above 0, at most {LONGEST:.0f}, not {said(text)}")
    return seconds


def flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name!r} must be true or false, not {said(text)}")
    return text.lower() == "true"
