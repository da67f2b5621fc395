# The names of `__init__.py`, for type checkers.
from localqueue.stores.port import QueueStore as QueueStore
from localqueue.stores.url import open_store as open_store
