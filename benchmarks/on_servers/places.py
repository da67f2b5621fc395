"""A private server of one kind with its durable defaults, and an empty place on it for each system.

A place is what a fresh file is to the other benchmarks: a database of its own (PostgreSQL, MongoDB) or a database
number (Redis). Systems that are measured side by side share the server and nothing else.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import psycopg
import pymongo
import redis

from systems import HERE

sys.path.insert(0, str(HERE.parent))

from tests.servers import MongoDB, Postgres, Redis, Server, _mongod


class Places(ABC):
    """Hands out places on one running server."""

    settings: ClassVar[str]

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.server = self.make_server()
        self.server.start()

    @abstractmethod
    def make_server(self) -> Server: ...

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def make(self, number: int) -> str:
        """An address where nothing is yet."""

    @abstractmethod
    def drop(self, number: int) -> None: ...

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The address of an empty place, which is emptied again at the end."""
        number = next(self.numbers)
        url = self.make(number)
        try:
            yield url
        finally:
            self.drop(number)

    def stop(self) -> None:
        self.server.stop()


class PostgresPlaces(Places):
    settings = "defaults: fsync on, synchronous_commit on, every commit is on disk before it is confirmed"

    def make_server(self) -> Server:
        return Postgres()

    def version(self) -> str:
        with psycopg.connect(self.server.url) as connection:
            return f"PostgreSQL {connection.info.server_version // 10000}.{connection.info.server_version % 10000}"

    def make(self, number: int) -> str:
        self._execute(f"CREATE DATABASE bench_{number}")
        return f"postgresql://test@127.0.0.1:{self.server.port}/bench_{number}"

    def drop(self, number: int) -> None:
        self._execute(f"DROP DATABASE bench_{number} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(statement.encode())


class RedisPlaces(Places):
    settings = "appendonly yes, appendfsync everysec: a crash of the machine may lose the last second"
    databases = 64

    def make_server(self) -> Server:
        return Redis("--appendonly", "yes", "--appendfsync", "everysec", "--databases", str(self.databases))

    def version(self) -> str:
        with self._client() as client:
            return f"Redis {client.info('server')['redis_version']}"

    def make(self, number: int) -> str:
        return f"redis://127.0.0.1:{self.server.port}/{number % self.databases}"

    def drop(self, number: int) -> None:
        with self._client(number % self.databases) as client:
            client.flushdb()

    def _client(self, database: int = 0) -> redis.Redis:
        return redis.Redis(port=self.server.port, db=database, socket_timeout=60)


class RoomyMongoDB(MongoDB):
    """With the cache and oplog that mongod chooses by itself; the tests give it small ones."""

    def launch(self) -> subprocess.Popen[bytes]:
        return self.run(
            *(str(_mongod()), "--dbpath", str(self.folder / "data"), "--port", str(self.port)),
            *("--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "rs0"),
        )


class MongoDBPlaces(Places):
    settings = "a replica set of one, majority writes with j: confirmed when they are in the journal"

    def make_server(self) -> Server:
        return RoomyMongoDB()

    def version(self) -> str:
        with self._client() as client:
            return f"MongoDB {client.server_info()['version']}"

    def make(self, number: int) -> str:
        return f"mongodb://127.0.0.1:{self.server.port}/bench_{number}?replicaSet=rs0"

    def drop(self, number: int) -> None:
        with self._client() as client:
            client.drop_database(f"bench_{number}")

    def _client(self) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(self.server.url)


PLACES: dict[str, type[Places]] = {"postgres": PostgresPlaces, "redis": RedisPlaces, "mongodb": MongoDBPlaces}
