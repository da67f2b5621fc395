"""What is wrong with a file that can not be put, as one sentence with the name of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FILE = re.compile(r"\[FAILED_READ_FILE[^\]]*\] .*? file (\S+?)\.\s")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?:\[[\w.]+\] )?(.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_TOLD = re.compile(r"UnreadableFile: (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_HEADER = re.compile(r"CSV header does not conform.*\n Header: (.*)\n.*\nExpected: (.*) but found: (.*)")
_LENGTH = re.compile(r"CSV header is not equal .*\n Header length: (\d+), schema size: (\d+)")
_CHARSET = re.compile(r"INVALID_PARAMETER_VALUE\.CHARSET.* expects one of the (.*), but got (.*?)\.(?: SQLSTATE|$)")
_NANOS = re.compile(r"PARQUET_TYPE_ILLEGAL.*NANOS")
_SHOWN = 80
#: How Spark and its Python tell of something in a file without its name.
_UNNAMED = ("is not JSON", "UnicodeDecodeError", "PARQUET_TYPE", "MALFORMED_RECORD")


class UnreadableFile(ValueError):
    """What a task found in a file, with the name of the file."""


@contextmanager
def files_named(fault: Callable[[], str | None] | None = None) -> Iterator[None]:
    """Turn what Spark raises over a file into a ValueError that names it and says what is wrong there.

    `fault` looks for it in the files, where Spark only tells that there is something.
    """
    try:
        yield
    except Exception as error:
        said = _said(str(error))
        if said is None and fault is not None and any(sign in str(error) for sign in _UNNAMED):
            said = fault()
        if said is None:
            raise
        raise ValueError(said) from None


def shown(text: str) -> str:
    """The beginning of a text, on one line."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def not_decoded(file: str, text: bytes, encoding: str = "UTF-8") -> str:
    """That a file is not in the encoding that it is read in."""
    line = next((one for one in text.splitlines() if not _decodes(one, encoding)), text)
    return (
        f"{file} can not be read: it is not {encoding}, in {shown(line.decode('ascii', 'backslashreplace'))}. Nothing "
        'was put: say what it is, such as options={"encoding": "ISO-8859-1"} (--option encoding=ISO-8859-1)'
    )


def not_json(file: str | None) -> str | None:
    """That a file is none that Spark reads as JSON with the options it has."""
    return file and f"{file} can not be read: it is not JSON, also by these options. Nothing was put: mend the file"


def nanoseconds(file: str | None) -> str | None:
    """That a Parquet file has times that Spark has no type for."""
    return file and (
        f"{file} can not be read: it has times in nanoseconds, which Spark has not. Nothing was put: write it with "
        "microseconds, or set spark.sql.legacy.parquet.nanosAsLong=true to have them as numbers"
    )


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except ValueError:
        return False
    return True


def _said(text: str) -> str | None:
    told, charset = _TOLD.search(text), _CHARSET.search(text)
    if told is not None:
        return told[1]
    if charset is not None:
        return (
            f"Spark reads CSV in {charset[1]}, and not in {charset[2]}: for any other encoding that Java knows set "
            "spark.sql.legacy.javaCharsets=true"
        )
    file = _FILE.search(text)
    if file is None:
        return None
    if _NANOS.search(text):
        return nanoseconds(file[1])
    causes = _CAUSE.findall(text)
    wrong = _of_header(text) or (causes[-1] if causes else "it is damaged, or of another format")
    return (
        f"{file[1]} can not be read: {wrong.rstrip('.')}. Nothing was put: mend the file, give a schema or options "
        "that fit it, or, to have NULL for what does not, the option mode=PERMISSIVE"
    )


def _of_header(text: str) -> str | None:
    """What is wrong with the header of a CSV file."""
    length, header = _LENGTH.search(text), _HEADER.search(text)
    if length is not None:
        return f"its header has {length[1]} columns, and not {length[2]}"
    if header is None:
        return None
    names, expected, found = header[1].split(", "), header[2], header[3]
    if found.strip("\0") == "":
        return f"column {names.index(found) + 1} of its header has no name ({header[1]})".replace("\0", "")
    if names.count(found) > 1:
        return f"its header has the column {found!r} {names.count(found)} times ({header[1]})"
    return f"CSV header does not conform to the schema: it has the column {found!r} in the place of {expected!r}"
