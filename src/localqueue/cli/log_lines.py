"""The log of the library on stderr, where nobody else has set up logging."""

from __future__ import annotations

import logging


class LogLine(logging.Formatter):
    """What a worker has to say in a line, and below it the traceback of a handler."""

    def format(self, record: logging.LogRecord) -> str:
        text, newline, trace = record.getMessage().partition("\n")
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        return " ".join(text.split()) + newline + trace


def show_log(level: int) -> None:
    """Show what the library has to say on stderr, unless the handler's module has set up logging."""
    if not logging.getLogger().handlers and not logging.getLogger("localqueue").handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(LogLine())
        handler.setLevel(level)
        logging.getLogger("localqueue").addHandler(handler)
