"""Folders that a job writes to: on this machine, or wherever the file systems of Hadoop reach.

Spark writes the data; the driver only lists, renames, removes and leaves small texts, which is what this is for.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from localqueue.spark.jobs.hadoop import Entry, HadoopFolder, file_system
from localqueue.stores.url import backend_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession


class Folder(Protocol):
    """A folder, and what is in it by names relative to it. `uri` is how Spark is told.

    `renames` is whether a folder can be given another name in one step.
    """

    uri: str
    renames: bool

    def at(self, name: str) -> str:
        """What Spark is told to read or write something in the folder."""

    def entries(self, name: str = "") -> list[Entry]:
        """What is in the folder, or in one below it, by name; nothing when there is none."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None:
        """A new file, there whole or not at all; FileExistsError when there is one, whoever made it."""

    def replace(self, name: str, text: str) -> None:
        """A file in the place of the one that is there, in one step."""

    def rename(self, name: str, to: str) -> None:
        """Give a file or folder another name that nothing has yet, in a folder that may have to be made."""

    def remove(self, name: str) -> None: ...
    def remove_empty(self, name: str = "") -> None:
        """Remove the folder, or one below it, if there is one and it has nothing."""


def folder_at(spark: SparkSession, path: str | os.PathLike[str]) -> Folder:
    """The folder at a path, which may not exist yet. A path without a scheme is what it is to Spark."""
    text = _given(os.fspath(path))
    scheme = text.partition(":")[0].lower() if ":" in text else ""
    try:
        backend_of(text)
    except ValueError:
        pass
    else:
        raise ValueError(f"path begins with {scheme}://, which is the address of a store and not a folder")
    if scheme == "file" or (not scheme and _default_scheme(spark) == "file"):
        return LocalFolder(text)
    return HadoopFolder(spark, text)


def from_here(spark: SparkSession, path: str) -> str:
    """A path to read from the directory that this process is in, which that of Java may not be any more."""
    return path if ":" in _given(path) or _default_scheme(spark) != "file" else os.path.abspath(path)


def _given(path: str) -> str:
    if not path.strip():
        raise ValueError("path is empty: give a file or folder, such as archive/jobs")
    return path


def files_in(folder: Folder, *names: str) -> Iterator[tuple[str, Entry]]:
    """All files below, with their names relative to the folder; hidden ones (`_SUCCESS`, `.crc`) are left out."""
    for name in names or ("",):
        yield from _files_below(folder, name)


def _files_below(folder: Folder, name: str) -> Iterator[tuple[str, Entry]]:
    for entry in folder.entries(name):
        if entry.name.startswith(("_", ".")):
            continue
        inner = f"{name}/{entry.name}" if name else entry.name
        if entry.is_folder:
            yield from _files_below(folder, inner)
        else:
            yield inner, entry


def reader_of(spark: SparkSession, folder: Folder, files: Iterable[tuple[str, Entry]]) -> DataFrameReader:
    """Reads Parquet that a job has written into these files, or says that it is damaged.

    Spark passes over a file that is empty, which none of them was, and over the checksums of pages.
    """
    for name, entry in files:
        if not entry.size:
            raise ValueError(f"{folder.at(name)} is damaged: it is empty; bring it back from a copy")
    return spark.read.option("parquet.page.verify-checksum.enabled", "true")


def size_of(folder: Folder, name: str) -> int:
    return sum(entry.size for _, entry in files_in(folder, name))


def _default_scheme(spark: SparkSession) -> str:
    java = getattr(spark, "_jsc", None)  # there is none on Spark Connect: its client sees its own disk
    return "file" if java is None else str(file_system(spark, ".").getScheme())


class LocalFolder:
    """A folder that the driver sees as a path; so must all executors."""

    renames = True

    def __init__(self, path: str) -> None:
        plain = path.partition(":")[2] if path.lower().startswith("file:") else path
        self.path = Path(os.path.abspath("/" + plain.lstrip("/") if plain is not path else plain))
        self.uri = f"file://{self.path}"

    def at(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def entries(self, name: str = "") -> list[Entry]:
        try:
            with os.scandir(self.path / name) as found:
                return sorted(self._entry(entry) for entry in found)
        except (FileNotFoundError, NotADirectoryError):
            return []

    @staticmethod
    def _entry(found: os.DirEntry[str]) -> Entry:
        status = found.stat()
        folder = found.is_dir()
        return Entry(found.name, folder, 0 if folder else status.st_size, status.st_mtime)

    def read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text("utf-8", errors="replace")  # who reads it says what it should be
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        fresh = self._fresh(name, text)
        try:
            os.link(fresh, self.path / name)
        except PermissionError:  # a file system without links
            if (self.path / name).exists():
                raise FileExistsError(f"{self.path / name} is there already") from None
            fresh.rename(self.path / name)
        finally:
            fresh.unlink(missing_ok=True)

    def replace(self, name: str, text: str) -> None:
        self._fresh(name, text).replace(self.path / name)

    def _fresh(self, name: str, text: str) -> Path:
        """A file beside that of this name, with its text on the disk."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"_{uuid.uuid4().hex}")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return fresh

    def rename(self, name: str, to: str) -> None:
        target = self.path / to
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise FileExistsError(f"{target} is there already")
        (self.path / name).rename(target)

    def remove(self, name: str) -> None:
        target = self.path / name
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def remove_empty(self, name: str = "") -> None:
        with suppress(OSError):  # there is none, it has something, or it is a file
            (self.path / name).rmdir()
