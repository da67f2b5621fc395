"""Folders on any file system that Spark has a driver for: HDFS, object stores."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What a file system says of itself that creates a file only where there is none, by one request: S3.
_CONDITIONAL = "fs.option.create.conditional.overwrite"
#: What to do about an error of a file system, by a part of the name of its class or of its text.
_WAYS = (
    (
        "S3AFileSystem not found",
        "Spark has no driver for it: add hadoop-aws of the same version as Spark's Hadoop, such as "
        "spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0",
    ),
    ("No FileSystem for scheme", "Spark has no driver for that scheme: add its package to spark.jars.packages"),
    ("FileSystem not found", "Spark has no driver for that scheme: add its package to spark.jars.packages"),
    ("UnknownStoreException", "there is no such bucket: make it, or check the name"),
    (
        "NoAwsCredentials",
        "there are no credentials: set spark.hadoop.fs.s3a.access.key and secret.key, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY in the environment of driver and executors",
    ),
    ("AccessDenied", "access is denied: check the credentials and what they may do"),
    ("UnknownHost", "its host is not known: check the address, or spark.hadoop.fs.s3a.endpoint"),
    ("Connect", "nothing answers there: check the address, or spark.hadoop.fs.s3a.endpoint"),
)
_EXISTS = ("FileAlreadyExistsException", "RemoteFileChangedException")


class Entry(NamedTuple):
    """A file or folder. `modified` is in seconds since the epoch; the size of a folder is 0."""

    name: str
    is_folder: bool
    size: int
    modified: float


class Unreachable(OSError, ValueError):
    """A path that Hadoop can not get to."""


@contextmanager
def reached(path: str) -> Iterator[None]:
    """An error of Hadoop in this block as one line that names the path and says what to do."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import IllegalArgumentException

    try:
        yield
    except Py4JJavaError as error:
        raise unreachable(path, f"{error.java_exception}") from error
    except IllegalArgumentException as error:  # how PySpark hands on that a host is not known, among others
        raise unreachable(path, str(error)) from error


def unreachable(path: str, said: str) -> OSError:
    """The error that stands for what Hadoop says of a path."""
    if any(name in said for name in _EXISTS):
        return FileExistsError(f"{path} is there already")
    way = next((way for sign, way in _WAYS if sign in said), None)
    first = " ".join(said.splitlines()[0].split())
    return Unreachable(f"{path} can not be reached: {way}" if way else f"{path} can not be reached: {first}")


def file_system(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm
    with reached(path):
        return jvm.org.apache.hadoop.fs.Path(path).getFileSystem(spark._jsc.hadoopConfiguration())


class HadoopFolder:
    """A folder on any file system that Spark has a driver for.

    None is trusted to rename a folder in one step. A file that only one writer can make is one request on an object
    store that knows conditions, and elsewhere a rename to a name that nothing has.
    """

    renames = False

    def __init__(self, spark: SparkSession, path: str) -> None:
        if getattr(spark, "_jsc", None) is None:
            raise ValueError(f"path {path!r} can not be reached from a Spark Connect client: give a local folder")
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._io = jvm.org.apache.commons.io.IOUtils
        self._fs = file_system(spark, path)
        self._conf = spark._jsc.hadoopConfiguration()
        self._root = self._fs.makeQualified(self._path(path))
        self.uri = str(self._root.toString())
        with reached(path):
            self._fs.exists(self._root)
            self._puts_if_absent = bool(self._fs.hasPathCapability(self._root, _CONDITIONAL))

    def at(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def setting(self, name: str) -> str | None:
        """What Hadoop is told of this bucket, or of all, such as `access.key`."""
        scheme, bucket = self._root.toUri().getScheme(), self._root.toUri().getHost()
        for key in (f"fs.{scheme}.bucket.{bucket}.{name}", f"fs.{scheme}.{name}"):
            secret = self._conf.getPassword(key)
            if secret is not None:
                return "".join(secret)
        return None

    def _of(self, name: str) -> Any:
        return self._path(self._root, name) if name else self._root

    def entries(self, name: str = "") -> list[Entry]:
        if not self._fs.exists(self._of(name)):
            return []
        found = [self._entry(status) for status in self._fs.listStatus(self._of(name))]
        return sorted(found)

    @staticmethod
    def _entry(status: Any) -> Entry:
        folder = bool(status.isDirectory())
        name = str(status.getPath().getName())
        return Entry(name, folder, 0 if folder else int(status.getLen()), status.getModificationTime() / 1000.0)

    def read(self, name: str) -> str | None:
        if not self._fs.exists(self._of(name)):
            return None
        stream = self._fs.open(self._of(name))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        if not self._puts_if_absent:
            fresh = f"_{uuid.uuid4().hex}"
            self._put(self._fs.create(self._of(fresh), False), text)
            try:
                self.rename(fresh, name)
            except OSError:
                self.remove(fresh)
                raise
            return
        with reached(self.at(name)):
            builder = self._fs.createFile(self._of(name)).overwrite(False).recursive()
            self._put(builder.must(_CONDITIONAL, True).build(), text)

    def replace(self, name: str, text: str) -> None:
        if self._puts_if_absent:  # an object is replaced by one request
            self._put(self._fs.create(self._of(name), True), text)
            return
        fresh = f"_{uuid.uuid4().hex}"
        self._put(self._fs.create(self._of(fresh), False), text)
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        how = self._jvm.java.lang.reflect.Array.newInstance(rename.OVERWRITE.getClass(), 1)
        how[0] = rename.OVERWRITE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), self._conf)
        context.rename(self._of(fresh), self._of(name), how)

    @staticmethod
    def _put(stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def rename(self, name: str, to: str) -> None:
        target = self._of(to)
        self._fs.mkdirs(target.getParent())
        # Hadoop would move it into a folder of that name.
        if self._fs.exists(target):
            raise FileExistsError(f"{self.at(to)} is there already")
        if not self._fs.rename(self._of(name), target):
            raise OSError(f"{self.at(name)} could not be renamed to {self.at(to)}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._of(name), True)

    def remove_empty(self, name: str = "") -> None:
        folder = self._of(name)
        is_there = self._fs.exists(folder) and self._fs.getFileStatus(folder).isDirectory()
        if is_there and not len(self._fs.listStatus(folder)):
            self._fs.delete(folder, False)
