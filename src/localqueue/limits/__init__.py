"""Limits that are held in the store: how many messages start in a time, and how many run at once, wherever they run."""

from localqueue.limits.limits import Limited, Limits
from localqueue.limits.rate import Rate

__all__ = ["Limited", "Limits", "Rate"]
