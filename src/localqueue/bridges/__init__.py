"""Bridges: the messages of a queue go on to a queue elsewhere, continuously, and arrive."""

from localqueue.bridges.bridge import Bridge
from localqueue.bridges.counts import BridgeCounts

__all__ = ["Bridge", "BridgeCounts"]
