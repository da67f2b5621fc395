"""The zone of a Spark session, in which Spark takes times that name none."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark import TaskContext

PROPERTY = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?").fullmatch


def moment(text: str) -> datetime:
    """An ISO time as a moment; one without a zone is of the session's."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        return found.astimezone(UTC)
    zone = session_zone()
    return (found if zone is None else found.replace(tzinfo=zone)).astimezone(UTC)


def session_zone() -> tzinfo | None:
    """The zone of the session whose task runs here, UTC outside of tasks; None is that of the machine, as for Spark
    where nothing is set."""
    context = TaskContext.get()
    if context is None:
        return UTC
    name = context.getLocalProperty(PROPERTY)
    return None if name is None else zone_of(name)


@cache
def zone_of(name: str) -> tzinfo:
    """A zone by a name that Spark takes: a region, or an offset."""
    if name in ("UTC", "Z", "GMT", "UT", "Etc/UTC"):
        return UTC
    offset = _OFFSET(name)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-length if offset[1] == "-" else length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(
            f"{PROPERTY} is {name!r}, and this machine does not know that zone: pip install tzdata, or set another one"
        ) from error
