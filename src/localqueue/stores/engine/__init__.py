"""The rules of a queue, decided once: rows in, write set out.

A store gives the engine the rows that a commit touches (`Rows`, in `port.py`), the engine decides what becomes of them,
and the store writes that down in as few statements as it can. Nothing here knows a driver. SQLite, LMDB, PostgreSQL and
MongoDB stand on it; Redis has the same rules in Lua, because there the decision must run inside the server.
"""
