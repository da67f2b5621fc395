"""The benchmarks that need a server: PostgreSQL, Redis, MongoDB. Run by `servers.py`."""
