"""The page of a report: one HTML file that needs nothing else and opens without a network.

A pure function of the rows of the tables. Whatever came from messages (names, errors, ids) is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

from localqueue.spark.jobs.charts import Series, bars, chart
from localqueue.spark.jobs.report_style import STYLE
from localqueue.spark.jobs.report_tables import (
    Rows,
    card,
    dead_letters,
    queues,
    slowest,
    slowest_steps,
    workers,
    workflow_steps,
    workflows,
)
from localqueue.spark.jobs.report_text import duration, moment, number, share

MEASURES = {
    "wait": ("Wait", "from the put, or the end of its delay, to the first lease", "blue"),
    "run": ("Run", "from a lease to its settle, each delivery by itself", "violet"),
    "total": ("End to end", "from the put to the ack", "green"),
}
_SHARES = ("p50", "p90", "p95", "p99", "max")

#: Attempts that have a bar of their own.
_ATTEMPTS = 10


def page(
    tables: Mapping[str, Rows], *, title: str, source: str = "", width: int = 60, refresh: int | None = None
) -> str:
    """The page for the tables of `analytics` and, if there are some, of `run_analytics`, by their names.

    `width` is that of the buckets, in seconds. With `refresh` the browser reads the page anew every so many seconds.
    """
    flow = _overall(tables["flow"])[0]
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    parts = [
        _header(flow, title, source, tables["latencies"]),
        _tiles(flow, tables["latencies"]),
        _over_time(_overall(tables["throughput"]), width),
        _percentiles(_overall(tables["latencies"])),
        _percentiles_over_time(tables["latency_over_time"], tables["throughput"], width),
        _attempts(_overall(tables["retries"]), flow),
        dead_letters(tables["dead_letters"]),
        queues(tables["flow"], tables["latencies"]),
        workers(tables["workers"]),
        slowest(tables["slowest"]),
        workflows(tables.get("workflows", ())),
        workflow_steps(tables.get("workflow_steps", ())),
        slowest_steps(tables.get("slowest_steps", ())),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"{''.join(filter(None, parts))}<footer>Made by localqueue at {moment(datetime.now(UTC))}. "
        "All times are UTC.</footer></main></body></html>\n"
    )


def _overall(rows: Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["queue"] is None]


def _header(flow: Mapping[str, Any], title: str, source: str, latencies: Rows) -> str:
    first, last = flow["first_at"], flow["last_at"]
    lasted = duration((last - first).total_seconds())
    precision = latencies[0]["precision"] if latencies else "exact"
    origin = f" · {escape(source)}" if source else ""
    return (
        f"<header><h1>{escape(title)}</h1><p>{moment(first, zone=False)} to {moment(last)} ({lasted})</p>"
        f'<p class="soft">{number(flow["events"])} journal entries{origin} · percentiles: {escape(precision)}</p>'
        "</header>"
    )


def _tiles(flow: Mapping[str, Any], latencies: Rows) -> str:
    totals = {row["measure"]: row for row in _overall(latencies)}
    seconds = max((flow["last_at"] - flow["first_at"]).total_seconds(), 1.0)
    end = totals.get("total")
    tiles = [
        ("enqueued", number(flow["enqueued"]), False),
        ("acked", number(flow["acked"]), False),
        ("acked a second", number(flow["acked"] / seconds), False),
        ("succeeded, of those settled", share(flow["success_rate"]), False),
        ("of deliveries were retries", share(flow["retry_rate"]), False),
        ("dead-lettered", number(flow["dead_lettered"]), flow["dead_lettered"] > 0),
        ("backlog at the end", number(flow["backlog"]), False),
        ("end to end, p95", duration(end["p95"] if end else None), False),
    ]
    drawn = (
        f'<div class="tile{" bad" if bad else ""}"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value, bad in tiles
    )
    return f'<div class="tiles">{"".join(drawn)}</div>'


def _times(rows: Rows, width: int) -> list[datetime]:
    """Every bucket from the first to the last, also those in which nothing happened."""
    if not rows:
        return []
    first, last = min(row["bucket"] for row in rows), max(row["bucket"] for row in rows)
    return [first + timedelta(seconds=width * at) for at in range(int((last - first).total_seconds()) // width + 1)]


def _over_time(rows: Rows, width: int) -> str:
    times = _times(rows, width)
    by_time = {row["bucket"]: row for row in rows}

    def counts(name: str) -> list[float | None]:
        return [by_time[at][name] if at in by_time else 0 for at in times]

    flow = chart(
        times,
        write=number,
        lines=[Series(name="enqueued", colour="blue", values=counts("enqueued"))],
        columns=[
            Series(name="acked", colour="green", values=counts("acked")),
            Series(name="retried", colour="amber", values=counts("retried")),
            Series(name="dead-lettered", colour="red", values=counts("dead_lettered")),
        ],
        label="Messages over time",
    )
    backlog: list[float | None] = []
    for at in times:
        backlog.append(by_time[at]["backlog"] if at in by_time else backlog[-1])
    line = Series(name="messages to be delivered", colour="violet", values=backlog)
    waiting = chart(times, write=number, lines=[line], area=True, label="Backlog over time")
    every = duration(width)
    return card("Throughput", f"Messages in buckets of {every}, all queues", flow) + card(
        "Backlog", "Messages that are still to be delivered, or being so, at the end of each bucket", waiting
    )


def _percentiles(rows: Rows) -> str:
    by_measure = {row["measure"]: row for row in rows}
    groups = []
    for measure, (name, meaning, colour) in MEASURES.items():
        row = by_measure.get(measure)
        if row is None:
            continue
        values = [(share_, row[share_], duration(row[share_])) for share_ in _SHARES]
        note = f"{meaning}; {number(row['count'])} measured, mean {duration(row['mean'])}"
        # The longest of all would leave nothing to be seen of the others.
        drawn = bars(values, colour=colour, most=row["p99"] or None)
        groups.append(f'<div><h3>{name}</h3><p class="soft">{escape(note)}</p>{drawn}</div>')
    note = "Bars are relative to the p99 of their own group"
    return card("Latency", note, f'<div class="three">{"".join(groups)}</div>') if groups else ""


def _percentiles_over_time(rows: Rows, throughput: Rows, width: int) -> str:
    times = _times(throughput, width)
    groups = []
    for measure, (name, _, _) in MEASURES.items():
        by_time = {row["bucket"]: row for row in rows if row["measure"] == measure}
        if not by_time:
            continue
        lines = [
            Series(name=p, colour=colour, values=[by_time[at][p] if at in by_time else None for at in times])
            for p, colour in (("p99", "red"), ("p95", "amber"), ("p50", "blue"))
        ]
        drawn = chart(times, write=duration, lines=lines, durations=True, label=f"{name} over time")
        groups.append(f"<div><h3>{name}</h3>{drawn}</div>")
    note = f"Of what ended in buckets of {duration(width)}, all queues"
    return card("Latency over time", note, f'<div class="three">{"".join(groups)}</div>') if groups else ""


def _attempts(rows: Rows, flow: Mapping[str, Any]) -> str:
    def added(*names: str) -> list[tuple[str, float]]:
        counts = [(row["attempt"], sum(row[name] for name in names)) for row in rows]
        own = [(_nth(attempt), count) for attempt, count in counts if attempt <= _ATTEMPTS]
        later = sum(count for attempt, count in counts if attempt > _ATTEMPTS)
        return [*own, ("later", later)] if later else own

    def group(heading: str, colour: str, *names: str) -> str:
        counts = added(*names)
        whole = sum(count for _, count in counts)
        drawn = [(at, count, f"{number(count)} · {share(count / whole)}") for at, count in counts if whole]
        body = bars(drawn, colour=colour) if whole else '<p class="soft">none</p>'
        return f"<div><h3>{heading}</h3>{body}</div>"

    groups = [
        group("Delivered for the … time", "blue", "delivered"),
        group("Succeeded at the … delivery", "green", "succeeded"),
        group("Failed at the … delivery", "amber", "failed", "dead_lettered"),
    ]
    note = f"{share(flow['retry_rate'])} of the deliveries were not the first of their message"
    return card("Attempts", note, f'<div class="three">{"".join(groups)}</div>')


def _nth(attempt: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(attempt, f"{attempt}th")
