"""The queue's second face: what workers, schedules, dispatchers and transactions ask of a queue.

Applications put and get; those who serve a queue claim messages, commit what became of them, and draft, store and
announce new ones. `queue.desk` offers them these verbs, and nobody outside of this package reaches further into a
queue. The queue's own methods go through the same desk, so that hooks, limits and payloads are looked after in one
place.
"""

from __future__ import annotations

from localqueue.queue.desk.arrivals import Arrivals, limits_of, raise_all
from localqueue.queue.desk.departures import Departures, fenced

__all__ = ["Desk", "fenced", "limits_of", "raise_all"]


class Desk(Arrivals, Departures):
    """Does the work of one queue object at its store. Not for applications: they have the queue itself."""
