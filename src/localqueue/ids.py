"""Message ids: 32 hexadecimal digits, half row key and half check.

The key is a 63-bit number that grows with time, so a store can use it as its primary key and needs no second index
to find a message by id. The check is the key multiplied by an odd secret of the namespace, which is a bijection: an id
with a changed digit, or from another namespace, never verifies. So a store can tell an id it once handed out (and whose
message is gone because it was acked) from one that never existed, without remembering either.

A store gives a message a newer id than it was given where its queue has had a newer one already: ids of a queue ascend
in the order of the commits, whatever the clocks of those who minted them say.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from random import SystemRandom, getrandbits
from typing import overload

_EPOCH_US = 1_577_836_800_000_000  # 2020-01-01, keeps keys within 63 bits until 2091
_MASK = (1 << 64) - 1
_LARGEST = 1 << 63
_HALVES = struct.Struct(">QQ")
_SECOND = 1_000_000 << 12


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

    def __init__(self, secret: int, clock: Callable[[], int] | None = None) -> None:
        self._secret = secret
        self._clock = clock or time.time_ns
        self._last = 0
        self._lock = threading.Lock()

    def take(self, count: int = 1) -> list[str]:
        """`count` new ids in ascending order."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"the number of new ids must be a whole number, not {count!r}")
        start = self.reserve(count)
        return [self.id_of(key) for key in range(start, start + count)]

    def reserve(self, count: int = 1, above: int = 0) -> int:
        """The first of `count` consecutive new keys, all of them greater than `above`."""
        now = (self._clock() // 1000 - _EPOCH_US) << 12 | getrandbits(12)
        with self._lock:
            start = now if now > self._last else self._last + 1
            if start <= above:
                start = above + 1 + getrandbits(12)
            self._last = start + count - 1
        return start

    @staticmethod
    def key_at(seconds: float) -> int:
        """No key that was minted at this time of the epoch, or later, is smaller."""
        return max(int(seconds * 1_000_000) - _EPOCH_US, 0) << 12

    def overtake(self, newest: int) -> None:
        """Have the next keys be a second ahead of `newest`: so long has who must keep them until others get there."""
        self.reserve(above=newest + _SECOND)

    def id_of(self, key: int) -> str:
        return f"{key << 64 | key * self._secret & _MASK:032x}"

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """What `id_of` says of each."""
        secret, halves = self._secret, [0] * (2 * len(keys))
        halves[::2], halves[1::2] = keys, [key * secret & _MASK for key in keys]
        text = struct.pack(f">{len(halves)}Q", *halves).hex()
        return [text[at : at + 32] for at in range(0, len(text), 32)]

    def keys_of(self, message_ids: Sequence[str]) -> Sequence[int | None]:
        """What `key_of` says of each; cheaper than that where all of them are ids of this namespace."""
        try:
            raw = bytes.fromhex("".join(message_ids))
            halves = struct.unpack(f">{2 * len(message_ids)}Q", raw)
        except (ValueError, TypeError, struct.error):
            raw, halves = b"", ()
        keys, secret = halves[::2], self._secret
        genuine = all(key * secret & _MASK == check for key, check in zip(keys, halves[1::2], strict=True))
        in_range = bool(keys) and min(keys) > 0 and max(keys) < _LARGEST
        if in_range and genuine and {*map(len, message_ids)} == {32} and raw.hex() == "".join(message_ids):
            return keys
        return [self.key_of(one) for one in message_ids]

    def key_of(self, message_id: str) -> int | None:
        """The row key inside an id of this namespace, or None for anything else, also for an id in other letters."""
        try:
            raw = bytes.fromhex(message_id)
            key, check = _HALVES.unpack(raw)
        except (ValueError, TypeError, struct.error):
            return None
        genuine = key * self._secret & _MASK == check and 0 < key < _LARGEST
        return key if genuine and raw.hex() == message_id else None
