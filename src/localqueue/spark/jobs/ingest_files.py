"""The files at a path that `ingest` puts: those that are complete, each once, and none passed over in silence."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from localqueue.spark.jobs.file_ledger import File
from localqueue.spark.jobs.files import Folder, files_in, folder_at, from_here
from localqueue.spark.jobs.hadoop import Entry
from localqueue.spark.jobs.table_files import find_format, format_of, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Endings of files that are still written, by browsers, copies and transfers. They are renamed when they are complete.
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".filepart", "._COPYING_", ".inprogress")
#: Options that say, in small letters, which files are read and what their texts are. Others say what is in a text.
OF_FILES = (
    "basepath", "charset", "encoding", "ignorecorruptfiles", "ignoremissingfiles", "linesep", "modifiedafter",
    "modifiedbefore", "multiline", "pathglobfilter", "recursivefilelookup", "wholetext",
)  # fmt: skip
_NO_HOST = re.compile(r"^(\w+):///")
_ONE_SLASH = re.compile(r"^(\w+):/(?!/)")  # which Sail finds nothing by
_GLOB = re.compile(r"[\[\]{}*?\\]")
#: What stands for itself in the path of a URI as Java writes it, beside what is not ASCII.
_PLAIN = "_-!.~'()*,;:$&+=@/"


@dataclass(frozen=True, kw_only=True)
class Landed:
    """Files to be put, and their lines in the column `value`. `paths` has them when they are not all that is there."""

    name: str
    texts: DataFrame
    files: tuple[File, ...]
    paths: tuple[str, ...] | None = None


def landed(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    *,
    whole: bool = False,
    only: Collection[File] | None = None,
) -> Landed:
    """The files at a path, or `only` these of them; ValueError when some would not be read that seem to be meant, or
    none is complete.

    With `whole`, a text is all of a file, and not a line.
    """
    name = from_here(spark, name)
    how = {"wholetext": "true"} if whole else {}
    is_glob = _GLOB.search(name) is not None
    recursive = given(options, "recursiveFileLookup") == "true"
    if not is_glob and not recursive:
        _refuse_unread(folder_at(spark, name))
    unread = ("charset", "encoding", "multiline")
    chosen = {name: text for name, text in options.items() if name.lower() in OF_FILES and name.lower() not in unread}
    texts = read_table(spark, name, "text", {**chosen, **how})
    listed = files_of(spark, texts)
    if is_glob and not recursive:
        for root in _globbed_folders(name, listed):
            _refuse_unread(folder_at(spark, root))
    wanted = None if only is None else {file.uri for file in only}
    complete = [file for file in listed if not file.uri.endswith(UNFINISHED) and (wanted is None or file.uri in wanted)]
    kept = tuple({file.address: file for file in reversed(complete)}.values())[::-1]
    if len(kept) == len(listed):
        return Landed(name=name, texts=texts, files=listed)
    if not kept:
        raise ValueError(
            f"{unquote(listed[0].uri)} is not complete, by its name, and nothing else is there: it is put when it is "
            "renamed"
        )
    paths = tuple(_GLOB.sub(r"\\\g<0>", unquote(_ONE_SLASH.sub(r"\1:///", file.uri))) for file in kept)
    found = Landed(name=name, texts=texts, files=kept, paths=paths)
    fewer = read(spark, found, "text", {**chosen, **how})
    if fewer.columns != texts.columns:  # files by their names have no folders that a pattern has matched
        raise ValueError(
            f"of {name!r} some files are not complete, or are there twice, and can not be left out, as folders tell "
            "values: give the folder without a pattern"
        )
    return Landed(name=name, texts=fewer, files=kept, paths=paths)


def read(
    spark: SparkSession,
    files: Landed,
    format: str,
    options: Mapping[str, str],
    schema: StructType | str | None = None,
) -> DataFrame:
    """These files, in their format."""
    from localqueue.spark.jobs.arguments import known_schema

    if files.paths is None:
        return read_table(spark, files.name, format, options, schema)
    recursive = given(options, "recursiveFileLookup") == "true"
    base = {} if _GLOB.search(files.name) or recursive else {"basePath": files.name}
    reader = spark.read.options(**{**base, **options}).format(format)
    return (reader if schema is None else reader.schema(known_schema(schema))).load(list(files.paths))


def format_there(spark: SparkSession, name: str, format: str | None) -> str:
    """The format to read a path in. Files that are not complete do not count."""
    try:
        return find_format(spark, name, format)
    except ValueError:
        if format is not None or _GLOB.search(name):
            raise
        names = [file for file, _ in files_in(folder_at(spark, name)) if not file.endswith(UNFINISHED)]
        formats = {format_of(file) for file in names}
        found = formats.pop() if len(formats) == 1 else None
        if found is None:
            raise
        return found


def files_of(spark: SparkSession, rows: DataFrame) -> tuple[File, ...]:
    """The files that rows are read from, with their marks."""
    folders: dict[str, dict[str, Entry]] = {}
    found = []
    for listed in sorted(rows.inputFiles()):
        uri = _NO_HOST.sub(r"\1:/", listed)  # as `_metadata` has it
        parent, _, own = uri.rpartition("/")
        if parent not in folders:
            folders[parent] = {entry.name: entry for entry in folder_at(spark, unquote(parent)).entries()}
        entry = folders[parent].get(unquote(own))
        mark = "" if entry is None else f"{entry.size}@{entry.modified}"
        found.append(File(uri, mark, resolved(uri)))
    return tuple(found)


def resolved(uri: str) -> str:
    """The address of a file without links; that of a file elsewhere as it is."""
    if not uri.startswith("file:/"):
        return uri
    path = unquote(uri.removeprefix("file:"))
    real = os.path.realpath(path)
    return uri if real == path else "file:" + "".join(one if ord(one) > 127 else quote(one, _PLAIN) for one in real)


def given(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option of a reader, in small letters: Spark knows them in any case."""
    return next((str(text).lower() for option, text in options.items() if option.lower() == name.lower()), None)


def _globbed_folders(pattern: str, files: Iterable[File]) -> set[str]:
    """The folders that a pattern has matched itself, of which Spark reads what is in them."""
    plain = pattern.partition(":")[2] if ":" in pattern else os.path.abspath(pattern)
    depth = _NO_HOST.sub(r"\1:/", f"x:{plain}").rstrip("/").count("/")
    paths = (unquote(file.uri).split("/") for file in files)
    return {"/".join(path[: depth + 1]) for path in paths if len(path) > depth + 1} if "{" not in pattern else set()


def _refuse_unread(folder: Folder, name: str = "") -> None:
    """Refuse a folder with files in it that Spark would pass over: its name is no value of a column."""
    for entry in folder.entries(name):
        if not entry.is_folder or entry.name.startswith(("_", ".")):
            continue
        inner = f"{name}/{entry.name}" if name else entry.name
        if "=" in entry.name:
            _refuse_unread(folder, inner)
        elif any(not file.endswith(UNFINISHED) for file, _ in files_in(folder, inner)):
            raise ValueError(
                f"{folder.at(inner)} is a folder with files that would not be read, as its name is not column=value: "
                'give options={"recursiveFileLookup": "true"} (--option recursiveFileLookup=true) to put them too, or '
                "a pattern such as *.json for the files beside it"
            )
