"""Bridges: the messages of a queue go on to a queue elsewhere, continuously, and arrive."""

from localqueue.bridges.bridge import Bridge
from localqueue.bridges.counts import BridgeCounts
from localqueue.bridges.outbox_table import OutboxTable

__all__ = ["Bridge", "BridgeCounts", "OutboxTable"]
