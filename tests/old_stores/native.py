"""The stores in their own form: how a namespace is taken out of its place and put into another."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.old_stores.content import NAMESPACE
from tests.servers import MongoDB, Postgres, Redis, shared
from tests.stores import Place

HERE = Path(__file__).parent / "data"
FILES = {
    "sqlite": HERE / "sqlite.db.gz",
    "lmdb": HERE / "lmdb.mdb.gz",
    "postgres": HERE / "postgres.sql.gz",
    "redis": HERE / "redis.json.gz",
    "mongodb": HERE / "mongodb.json.gz",
}


def empty_place(kind: str, folder: Path) -> Place:
    """A file, a database or a server's keys with nothing in them."""
    if kind == "postgres":
        return Place(kind, _new_database(), NAMESPACE)
    if kind == "mongodb":
        server: MongoDB = shared(MongoDB)
        return Place(kind, server.url.replace("/?", f"/old-{uuid4().hex[:12]}?"), NAMESPACE)
    if kind == "redis":
        redis: Redis = shared(Redis)
        with _client(redis.url) as client:
            client.flushall()
        return Place(kind, redis.url, NAMESPACE)
    return Place(kind, str(folder / f"old.{kind}"), NAMESPACE)


def save(place: Place) -> None:
    """Write what is at a place, whose store was closed, to its file here."""
    HERE.mkdir(exist_ok=True)
    FILES[place.kind].write_bytes(gzip.compress(_SAVE[place.kind](place), mtime=0))


def load(kind: str, folder: Path) -> Place:
    """A place with what the file here holds."""
    place = empty_place(kind, folder)
    _LOAD[kind](place, gzip.decompress(FILES[kind].read_bytes()))
    return place


# files


def _save_sqlite(place: Place) -> bytes:
    connection = sqlite3.connect(place.location)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return Path(place.location).read_bytes()


def _load_sqlite(place: Place, content: bytes) -> None:
    Path(place.location).write_bytes(content)


def _save_lmdb(place: Place) -> bytes:
    return (Path(place.location) / "data.mdb").read_bytes()


def _load_lmdb(place: Place, content: bytes) -> None:
    Path(place.location).mkdir()
    (Path(place.location) / "data.mdb").write_bytes(content)


# PostgreSQL: the schema as pg_dump writes it


def _new_database() -> str:
    import psycopg

    server: Postgres = shared(Postgres)
    name = f"old_{uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.rpartition("/")[0] + f"/{name}"


def _save_postgres(place: Place) -> bytes:
    server: Postgres = shared(Postgres)
    dump = server.bin / "pg_dump"
    program = str(dump) if dump.exists() else shutil.which("pg_dump")
    assert program is not None, "pg_dump is not installed"
    options = ("--schema=localqueue", "--inserts", "--no-owner", "--no-privileges", place.location)
    script = subprocess.run([program, *options], check=True, capture_output=True).stdout.decode()
    lines = (line for line in script.splitlines() if not line.startswith("\\"))  # those are for psql alone
    return "\n".join(lines).encode()


def _load_postgres(place: Place, content: bytes) -> None:
    import psycopg

    with psycopg.connect(place.location, autocommit=True) as connection:
        connection.execute(content)


# Redis: the commands that make the keys. Bytes are written as Latin-1, which has a character for each.


def _client(url: str) -> Any:
    import redis

    return redis.Redis.from_url(url)


def _save_redis(place: Place) -> bytes:
    with _client(place.location) as client:
        made = [command for key in sorted(client.scan_iter()) for command in _commands(client, key)]
    return json.dumps([[_text(part) for part in command] for command in made], indent=0).encode()


def _commands(client: Any, key: bytes) -> list[list[Any]]:
    kind = client.type(key)
    assert client.ttl(key) == -1, f"{key!r} would not be there for long"
    if kind == b"string":
        return [["SET", key, client.get(key)]]
    if kind == b"hash":
        return [["HSET", key, *(part for pair in sorted(client.hgetall(key).items()) for part in pair)]]
    if kind == b"set":
        return [["SADD", key, *sorted(client.smembers(key))]]
    if kind == b"list":
        return [["RPUSH", key, *client.lrange(key, 0, -1)]]
    if kind == b"zset":
        scored = client.zrange(key, 0, -1, withscores=True)
        return [["ZADD", key, *(part for member, score in scored for part in (repr(score), member))]]
    assert kind == b"stream", kind
    entries = [
        ["XADD", key, entry, *(p for pair in fields.items() for p in pair)] for entry, fields in client.xrange(key)
    ]
    return [*entries, ["XSETID", key, client.xinfo_stream(key)["last-generated-id"]]]


def _text(part: Any) -> str:
    return part.decode("latin-1") if isinstance(part, bytes) else str(part)


def _load_redis(place: Place, content: bytes) -> None:
    with _client(place.location) as client:
        for command in json.loads(content):
            client.execute_command(*(part.encode("latin-1") for part in command))


# MongoDB: collections with their options, indexes and documents, as extended JSON


@contextmanager
def _database(place: Place) -> Iterator[Any]:
    import pymongo

    with pymongo.MongoClient(place.location) as client:
        yield client.get_default_database()


def _save_mongodb(place: Place) -> bytes:
    from bson import json_util

    with _database(place) as database:
        held = {
            one["name"]: {
                "options": one["options"],
                "indexes": [index.to_dict() for index in database[one["name"]].list_indexes()],
                "documents": list(database[one["name"]].find().sort("_id")),
            }
            for one in database.list_collections()
        }
    return json_util.dumps(held, json_options=json_util.CANONICAL_JSON_OPTIONS, indent=0).encode()


def _load_mongodb(place: Place, content: bytes) -> None:
    from bson import json_util

    with _database(place) as database:
        for name, held in json_util.loads(content, json_options=json_util.CANONICAL_JSON_OPTIONS).items():
            database.create_collection(name, **held["options"])
            for index in held["indexes"]:
                if index["name"] != "_id_":
                    options = {key: value for key, value in index.items() if key not in ("v", "key")}
                    database[name].create_index(list(index["key"].items()), **options)
            if held["documents"]:
                database[name].insert_many(held["documents"], bypass_document_validation=True)


_SAVE = {
    "sqlite": _save_sqlite,
    "lmdb": _save_lmdb,
    "postgres": _save_postgres,
    "redis": _save_redis,
    "mongodb": _save_mongodb,
}
_LOAD = {
    "sqlite": _load_sqlite,
    "lmdb": _load_lmdb,
    "postgres": _load_postgres,
    "redis": _load_redis,
    "mongodb": _load_mongodb,
}
