"""Records by key: the common ground of attempt, idempotency and result stores.

`port.py` says what a kind of record looks like and what a place for records can do; `memory.py`, `sqlite.py`,
`lmdb.py`, `queue.py` and `remote.py` are such places. `store.py` is the store in front of a place.
"""
