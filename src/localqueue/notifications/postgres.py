"""Waking over NOTIFY of a PostgreSQL database, wherever the messages are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from localqueue.notifications.port import CATCH_UP
from localqueue.notifications.server import CHANNEL, ServerNotification
from localqueue.stores.listener import Listener
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.connection import Pool, connect, conninfo
from localqueue.stores.postgres.notify import PostgresListener

_CONNECTIONS = 4
_NOTIFY = "SELECT pg_catalog.pg_notify($1, $2)"
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:-]{1,63}")


class PostgresNotification(ServerNotification[Pool]):
    """Wakes the listeners of a queue in all processes that use the same PostgreSQL database and `channel`.

    `notify` sends the name of the message's queue by `pg_notify`, `put_many` those of all its messages at once; no
    table is made. A notification has at most 7999 bytes: names that would be longer are left out, and then those who
    wait look at all their queues. A channel that is longer than the 63 bytes of an identifier, or has unusual letters,
    is replaced by a digest of it, on both sides.

    A process has one connection that listens. Behind a pooler in transaction mode say `pooled=True`, and give the
    server's own address as `listen_url`, because LISTEN does not work there; without it this process wakes others and
    is not woken itself. Nothing is connected to before the first use. `timeout` bounds the wait for the server, whose
    failure `notify` raises as `NotificationFailed`.
    """

    kind = "postgres"
    schemes = ("postgresql", "postgres")

    def __init__(
        self,
        url: str,
        queue: str | None = None,
        *,
        channel: str = CHANNEL,
        pooled: bool = False,
        listen_url: str | None = None,
        timeout: float = 5.0,
        catch_up: float = CATCH_UP,
    ) -> None:
        super().__init__(url, queue, channel=channel, timeout=timeout, catch_up=catch_up)
        self._info = conninfo(url, timeout=timeout, pooled=pooled)
        self._pooled = pooled
        self._listen_info: str | None = self._info
        if listen_url is not None:
            self._listen_info = conninfo(listen_url, timeout=timeout, pooled=False)
        elif pooled:
            self._listen_info = None

    @staticmethod
    def name_channel(channel: str) -> str:
        if _IDENTIFIER.fullmatch(channel):
            return channel
        return f"localqueue_{hashlib.sha256(channel.encode()).hexdigest()[:40]}"

    def open_sender(self) -> Pool:
        info, pooled, timeout = self._info, self._pooled, self._timeout
        return Pool(
            lambda: connect(info, pooled=pooled, timeout=timeout), self._address.shown, _CONNECTIONS, self._timeout
        )

    def close_sender(self, sender: Pool) -> None:
        sender.close()

    def abandon_sender(self, sender: Pool) -> None:
        sender.abandon()

    def say(self, sender: Pool, words: Sequence[str], *, again: bool = True) -> None:
        try:
            with sender.connection() as connection:
                connection.execute(_NOTIFY, (self.channel, ",".join(words)))
        except errors.load().Error as error:
            if not (again and errors.is_lost(error)):
                raise errors.translate(error, self._address.shown) from error
            self.say(sender, words, again=False)

    def listen(self, queues: frozenset[str | None]) -> None:
        if self._listen_info is not None:
            super().listen(queues)

    def join(self, sender: Pool) -> Listener:
        info = self._listen_info
        assert info is not None
        return PostgresListener.share(("postgres", info), lambda: PostgresListener(info))
