"""What those who wait for a queue or a run are woken by: a few characters that stand for its name.

Two names with the same token cost a look at the store and nothing else.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32


@lru_cache(maxsize=4096)
def queue_token(queue: str) -> str:
    return f"{crc32(queue.encode()):x}"


@lru_cache(maxsize=4096)
def run_token(run_id: str) -> str:
    return f"r{crc32(run_id.encode()):x}"
