"""When the steps of a run ran, as text: a line for each, with a bar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from localqueue.workflows.label import cells_of, in_one_line, padded, shortened
from localqueue.workflows.status import RunStatus, StepStatus

_MANY = 12
_LONGEST = 32
_LONGEST_ERROR = 100
_LEAST = 10

_DONE = "█"
_UNDER_WAY = "▒"
_EMPTY = "·"


class _Line(NamedTuple):
    name: str
    began: float | None
    ended: float | None
    tries: str
    said: str
    open: bool  # whether it has not ended yet


def timeline_of(status: RunStatus, *, width: int, now: float) -> str:
    """A line for each step of a run, in the order in which they began: a bar of `width` columns from the start of the
    run to its end or to `now`, how often the step was tried, how long it took, and how it stands.

    The items of a fan-out are lines below it, or one that counts them where there are many.
    """
    if width < _LEAST:
        raise ValueError(f"a timeline needs at least {_LEAST} columns for its bars, not {width}")
    steps = [_taken_over(step) if _is_older(step, status) else step for step in status.steps]
    lines = [line for step in sorted(steps, key=_begin) for line in _lines_of(step, now)]
    times = [one for line in lines for one in (line.began, line.ended) if one is not None]
    begin = min([status.created_at, *times])
    end = max([now if status.finished_at is None else status.finished_at, *times])
    named = max((cells_of(line.name) for line in lines), default=0)
    tried = max((len(line.tries) for line in lines), default=0)
    text = [_headline(status, end - begin)]
    for line in lines:
        bar = _bar(line, begin, end, width)
        took = "" if line.began is None or line.ended is None else seconds_of(line.ended - line.began)
        text.append(f"{padded(line.name, named)}  {bar}  {line.tries:>{tried}}  {took:>8}  {line.said}".rstrip())
    return "\n".join(text) + "\n"


def seconds_of(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 0.9995:
        return f"{max(seconds, 0.0) * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d} min"


def _begin(step: StepStatus) -> float:
    return next((one for one in (step.started_at, step.finished_at) if one is not None), float("inf"))


def _is_older(step: StepStatus, run: RunStatus) -> bool:
    """Whether a step was done by the run that this one was forked from."""
    return run.forked_from is not None and step.started_at is not None and step.started_at < run.created_at


def _taken_over(step: StepStatus) -> StepStatus:
    return replace(step, state=f"{step.state} before", started_at=None, finished_at=None, items=())


def _headline(status: RunStatus, seconds: float) -> str:
    how = "in" if status.ended else "for"
    paused = ", paused" if status.paused else ""
    return f"{status.workflow} version {status.version}, run {status.run_id}: {status.state} {how} " + (
        f"{seconds_of(seconds)}{paused}"
    )


def _lines_of(step: StepStatus, now: float) -> Iterator[_Line]:
    own = _line(step, now)
    if not step.items:
        yield own
        return
    times = [one for item in step.items for one in (item.started_at, item.finished_at) if one is not None]
    if own.began is None and times:
        own = own._replace(began=min(times), ended=now if own.open else max(times))
    if len(step.items) <= _MANY:
        yield own
        yield from (_line(item, now, "  ") for item in step.items)
    else:
        yield own._replace(said=f"{own.said} ({_counted(step.items)})")


def _line(step: StepStatus, now: float, indent: str = "") -> _Line:
    name = step.name.lstrip("0") or "0" if step.kind == "item" else step.name
    is_open = step.started_at is not None and step.finished_at is None and step.state == "running"
    ended = step.finished_at if not is_open else now
    began = None if step.state == "skipped" else step.started_at
    tries = "" if not step.attempts else "1 try" if step.attempts == 1 else f"{step.attempts} tries"
    said = step.state
    if step.error and step.state != "succeeded":
        error = ": ".join(str(step.error[key]) for key in ("type", "message") if step.error.get(key))
        said = shortened(in_one_line(f"{said}: {error}"), _LONGEST_ERROR)
    return _Line(shortened(indent + name, _LONGEST), began, ended, tries, said, is_open)


def _counted(items: Sequence[StepStatus]) -> str:
    counts = Counter(item.state for item in items)
    said = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    took = [item.seconds for item in items if item.seconds is not None]
    spread = f", {seconds_of(min(took))} to {seconds_of(max(took))} each" if took else ""
    return f"{len(items):,} items: {said}{spread}"


def _bar(line: _Line, begin: float, end: float, width: int) -> str:
    """At least one column for whatever has begun, however short it was."""
    if line.began is None:
        return _EMPTY * width
    scale = width / (end - begin) if end > begin else 0.0
    first = min(int((line.began - begin) * scale), width - 1)
    last = first if line.ended is None else min(max(int((line.ended - begin) * scale), first), width - 1)
    filled = _UNDER_WAY if line.open else _DONE
    return _EMPTY * first + filled * (last - first + 1) + _EMPTY * (width - 1 - last)
