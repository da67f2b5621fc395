"""What Spark says of a file that it can not read, as one sentence with the name of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_FILE = re.compile(r"\[FAILED_READ_FILE[^\]]*\] .*? file (\S+?)\.\s")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?:\[[\w.]+\] )?(.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


@contextmanager
def files_named() -> Iterator[None]:
    """Turn what Spark raises over a file into a ValueError that names it and says what is wrong there."""
    try:
        yield
    except Exception as error:
        text = str(error)
        file = _FILE.search(text)
        if file is None:
            raise
        causes = _CAUSE.findall(text)
        wrong = causes[-1] if causes else "it is damaged, or of another format"
        raise ValueError(
            f"{file[1]} can not be read: {wrong}. Nothing was put: mend the file, give a schema or options that "
            "fit it, or, to have NULL for what does not, the option mode=PERMISSIVE"
        ) from None
