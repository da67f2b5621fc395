"""The tables on the page of a report, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from localqueue.spark.jobs.charts import bar
from localqueue.spark.jobs.report_text import NOTHING, duration, moment, number

Rows = Sequence[Mapping[str, Any]]

#: Rows of a table on the page. The tables of the report have all.
_MOST = 50


def card(heading: str, note: str, body: str) -> str:
    return f'<section class="card"><h2>{escape(heading)}</h2><p class="soft">{escape(note)}</p>{body}</section>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already. A heading that begins with `#` is above numbers."""
    names = "".join(
        f'<th class="n">{escape(name[1:])}</th>' if name.startswith("#") else f"<th>{escape(name)}</th>"
        for name in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _n(text: str) -> str:
    return f'<td class="n">{escape(text)}</td>'


def _t(text: object) -> str:
    return f"<td>{escape(str(text))}</td>"


def _at(at: datetime | None) -> str:
    return f'<td class="time">{moment(at)}</td>'


def _id(text: str | None) -> str:
    return f"<td><code>{escape(text or NOTHING)}</code></td>"


def _shown(rows: Rows, what: str) -> str:
    return what if len(rows) <= _MOST else f"{what}; the first {_MOST} of {number(len(rows))}"


def dead_letters(rows: Rows) -> str:
    if not rows:
        return card("Dead letters", "None.", "")
    most = rows[0]["count"]
    body = [
        (
            f'<td class="long" title="{escape(row["sample_message"] or "")}"><code>{escape(row["shape"])}</code>'
            f'<span class="track">{bar(row["count"] / most, "red")}</span></td>',
            _n(number(row["count"])),
            _t(", ".join(row["queues"])),
            _at(row["first_seen"]),
            _at(row["last_seen"]),
            _id(row["sample_id"]),
        )
        for row in rows[:_MOST]
    ]
    head = ("error", "#count", "queues", "first seen", "last seen", "last message")
    return card("Dead letters", _shown(rows, "By the shape of their error"), _table(head, body))


def queues(flow: Rows, latencies: Rows) -> str:
    own = [row for row in flow if row["queue"] is not None]
    p95 = {(row["queue"], row["measure"]): row["p95"] for row in latencies}
    body = [
        (
            _t(row["queue"]),
            *(_n(number(row[name])) for name in ("enqueued", "acked", "retried", "dead_lettered", "backlog")),
            *(_n(duration(p95.get((row["queue"], measure)))) for measure in ("wait", "run", "total")),
        )
        for row in own[:_MOST]
    ]
    counts = ("#enqueued", "#acked", "#retried", "#dead", "#backlog")
    head = ("queue", *counts, "#wait p95", "#run p95", "#end to end p95")
    return card("Queues", _shown(own, "Totals by queue"), _table(head, body))


def workers(rows: Rows) -> str:
    if not rows:
        return ""
    most = max(row["processed"] for row in rows) or 1
    body = [
        (
            f'<td class="name">{escape(row["worker"])}'
            f'<span class="track">{bar(row["processed"] / most, "green")}</span></td>',
            _n(number(row["processed"])),
            _n(number(row["failed"])),
            *(_n(duration(row[name])) for name in ("busy", "p50", "p95")),
            _at(row["first_seen"]),
            _at(row["last_seen"]),
        )
        for row in rows[:_MOST]
    ]
    head = ("worker", "#processed", "#failed", "#busy", "#run p50", "#run p95", "first seen", "last seen")
    return card("Workers", _shown(rows, "Busy is the time of all deliveries together"), _table(head, body))


def slowest(rows: Rows) -> str:
    if not rows:
        return ""
    body = [
        (
            _id(row["message_id"]),
            _t(row["queue"]),
            *(_n(duration(row[name])) for name in ("total", "wait", "run")),
            _n(number(row["attempts"])),
            _at(row["enqueued_at"]),
            _t(row["worker"] or NOTHING),
        )
        for row in rows[:_MOST]
    ]
    head = ("message", "queue", "#end to end", "#wait", "#last run", "#attempts", "enqueued", "worker")
    return card("Slowest messages", "Acked messages that took longest from the put to the ack", _table(head, body))


def workflows(rows: Rows) -> str:
    if not rows:
        return ""
    states = ("running", "succeeded", "failed", "cancelled", "compensating", "compensated", "paused")
    counts = ("runs", *(name for name in states if any(row[name] for row in rows)))
    spread = ("p50", "p95", "max")
    body = [
        (
            _t(row["workflow"]),
            _n(str(row["version"])),
            *(_n(number(row[name])) for name in counts),
            *(_n(duration(row[name])) for name in spread),
        )
        for row in rows[:_MOST]
    ]
    head = ("workflow", "#version", *(f"#{name}" for name in (*counts, *spread)))
    note = "Runs by workflow and version, and how long those took that have ended"
    return card("Workflows", _shown(rows, note), _table(head, body))


def workflow_steps(rows: Rows) -> str:
    if not rows:
        return ""
    counts, spread = ("runs", "times", "skipped", "failures", "retries"), ("p50", "p95", "max")
    body = [
        (
            _t(row["workflow"]),
            _n(str(row["version"])),
            _t(row["step"]),
            _t(row["kind"] or NOTHING),
            *(_n(number(row[name])) for name in counts),
            *(_n(duration(row[name])) for name in spread),
        )
        for row in rows[:_MOST]
    ]
    head = ("workflow", "#version", "step", "kind", *(f"#{name}" for name in (*counts, *spread)))
    note = "What is recorded of steps; times counts the items of a fan-out and the calls of a flow one by one"
    return card("Steps of workflows", _shown(rows, note), _table(head, body))


def slowest_steps(rows: Rows) -> str:
    if not rows:
        return ""
    body = [
        (
            _id(row["run_id"]),
            _t(row["workflow"]),
            _t(row["step"] if row["item"] is None else f"{row['step']} [{row['item']}]"),
            _t(row["step_state"]),
            _n(duration(row["seconds"])),
            _n(number(row["attempts"])),
            _at(row["started_at"]),
            _t(row["worker"] or NOTHING),
        )
        for row in rows[:_MOST]
    ]
    head = ("run", "workflow", "step", "state", "#took", "#attempts", "began", "worker")
    return card("Slowest steps", "Steps, items and calls by how long their last try took", _table(head, body))
