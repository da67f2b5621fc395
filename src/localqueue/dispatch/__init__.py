"""Handlers that are called in background threads of the process, with messages leased from the store."""

from localqueue.dispatch.dispatchers import ThreadedDispatcher, WorkerPoolDispatcher

__all__ = ["ThreadedDispatcher", "WorkerPoolDispatcher"]
