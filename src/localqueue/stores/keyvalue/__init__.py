"""Records by key: the common ground of attempt, idempotency and result stores.

`port.py` says what a place for records can do; `memory.py`, `sqlite.py`, `lmdb.py` and `queue.py` are such places. A
`Kind` says what one kind of record looks like in each of them, so a store is written once and kept anywhere.
"""
