"""What a user of the server must be allowed to do, and how to say what he is not.

The server checks every command of a function, its keys and its channels, when it is called: a function that may not do
all that it does would fail halfway. So a store looks for all of it when it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from localqueue.errors import QueueStoreError
from localqueue.stores.redis.rows import pack
from localqueue.stores.redis.schema import FUNCTIONS

if TYPE_CHECKING:
    from localqueue.stores.redis.connection import Connections

KEYS, CHANNELS = "~lq:*", "&lq:*"

#: The commands of a store that was opened to look, as they may be called: the server may break down over being asked
#: about one that lacks arguments.
LOOKER = (
    *("exists KEY", "fcall_ro name 1 KEY", "hexists KEY a", "hget KEY a", "hgetall KEY", "hkeys KEY", "hlen KEY"),
    *("hmget KEY a", "hvals KEY", "info", "ping", "subscribe CHANNEL", "time", "unsubscribe CHANNEL", "xrange KEY - +"),
    *("zcard KEY", "zcount KEY 0 1", "zrange KEY 0 1", "zrangebylex KEY - +", "zrangebyscore KEY 0 1", "zrank KEY a"),
    "zscore KEY a",
)
#: And of any other.
WRITER = (
    *LOOKER,
    *(
        "fcall name 1 KEY",
        "hdel KEY a",
        "hincrby KEY a 1",
        "hrandfield KEY 1",
        "hset KEY a b",
        "hsetnx KEY a b",
        "publish CHANNEL a",
    ),
    *("set KEY a", "unlink KEY", "xadd KEY 1-0 a b", "xdel KEY 1-0", "zadd KEY 0 a", "zmscore KEY a", "zpopmin KEY"),
    *("zrem KEY a", "zrevrange KEY 0 1"),
)

#: The least that is enough for everything.
LEAST = (
    f"{KEYS} {CHANNELS} +@hash +@sortedset +@stream +exists +set +unlink +time +fcall +fcall_ro +function|load "
    "+publish +subscribe +unsubscribe +info +ping +select +watch +unwatch +multi +exec"
)


def check(server: Connections, root: bytes, *, looking: bool) -> None:
    """Refuse a user who may not do all that the store does."""
    names = {"KEY": root + b":never", "CHANNEL": root}
    calls = [
        [names.get(part) or part.encode() for part in command.split()] for command in (LOOKER if looking else WRITER)
    ]
    refused = server.ask(b"FCALL_RO", FUNCTIONS["privileges"], b"1", root, pack(calls), again=True)
    missing = {word_of(server.refusal(*calls[number - 1])) for number in refused}
    if missing:
        raise denied(server.shown, missing)


def denied(url: str, missing: Iterable[str]) -> QueueStoreError:
    """For the address without a password, and the words that are missing."""
    user = unquote(urlsplit(url).username or "default")
    words = " ".join(sorted(missing, key=lambda word: (word != KEYS, word != CHANNELS, word)))
    return QueueStoreError(
        f"user {user!r} of the Redis server at {url} may not do all that a store does: `ACL SETUSER {user} {words}` "
        f"allows what is missing. All the words that are needed: {LEAST}",
        path=url,
    )


def word_of(refusal: str) -> str:
    """What is missing, in the words of the server's access lists, when it refuses a command like this."""
    command = re.search(r"'([\w|-]+)' command", refusal)
    if command is not None:
        return f"+{command[1]}"
    return CHANNELS if "channel" in refusal else KEYS
