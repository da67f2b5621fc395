"""Message ids: 32 hexadecimal digits, half row key and half check.

The key is a 63-bit number that grows with time, so a store can use it as its primary key and needs no second index
to find a message by id. The check is the key multiplied by an odd secret of the namespace, which is a bijection: an id
with a changed digit, or from another namespace, never verifies. So a store can tell an id it once handed out (and whose
message is gone because it was acked) from one that never existed, without remembering either.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from random import SystemRandom, getrandbits
from time import time_ns
from typing import overload

_EPOCH_US = 1_577_836_800_000_000  # 2020-01-01, keeps keys within 63 bits until 2091
_MASK = (1 << 64) - 1
_LARGEST = 1 << 63


def new_secret() -> int:
    """An odd number that fits a signed 64-bit column."""
    return SystemRandom().getrandbits(62) | 1


class IdRange(Sequence[str]):
    """Ids of consecutive keys, each made when it is looked at."""

    __slots__ = ("_keys", "_mint")

    def __init__(self, mint: Mint, keys: range) -> None:
        self._mint = mint
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return IdRange(self._mint, self._keys[index])
        return self._mint.id_of(self._keys[index])


class Mint:
    """Makes ids that ascend within this process and are unlikely to meet another's."""

    def __init__(self, secret: int) -> None:
        self._secret = secret
        self._last = 0
        self._lock = threading.Lock()

    def take(self, count: int = 1) -> list[str]:
        """`count` new ids in ascending order."""
        start = self.reserve(count)
        return [self.id_of(key) for key in range(start, start + count)]

    def reserve(self, count: int = 1) -> int:
        """The first of `count` consecutive new keys."""
        now = (time_ns() // 1000 - _EPOCH_US) << 12 | getrandbits(12)
        with self._lock:
            start = now if now > self._last else self._last + 1
            self._last = start + count - 1
        return start

    def id_of(self, key: int) -> str:
        return f"{key << 64 | key * self._secret & _MASK:032x}"

    def keys_of(self, message_ids: Sequence[str]) -> Sequence[int | None]:
        """What `key_of` says of each; cheaper than that where all of them are ids of this namespace."""
        try:
            halves = struct.unpack(f">{2 * len(message_ids)}Q", bytes.fromhex("".join(message_ids)))
        except (ValueError, TypeError, struct.error):
            halves = ()
        keys, secret = halves[::2], self._secret
        genuine = all(key * secret & _MASK == check for key, check in zip(keys, halves[1::2], strict=True))
        if keys and genuine and min(keys) > 0 and max(keys) < _LARGEST and {*map(len, message_ids)} == {32}:
            return keys
        return [self.key_of(one) for one in message_ids]

    def key_of(self, message_id: str) -> int | None:
        """The row key inside an id of this namespace, or None for anything else."""
        try:
            number = int(message_id, 16)
        except (ValueError, TypeError):
            return None
        key = number >> 64
        genuine = key * self._secret & _MASK == number & _MASK and 0 < key < _LARGEST
        return key if genuine and len(message_id) == 32 else None
