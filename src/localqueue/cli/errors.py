"""What can go wrong on a command line, as one line of text and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from localqueue.errors import IncompatiblePolicies, PayloadError, QueueError, QueueStoreError
from localqueue.stores.address import conceal

OK = 0
NEGATIVE = 1
MISTAKE = 2
NOTHING = 3  # of a job that may be run again and again: it had nothing to do
CLOSED_PIPE = 141  # what a shell reports for a program ended by SIGPIPE


class CommandFailed(Exception):
    """Ends the command with a line on stderr. A negative outcome unless `code` says otherwise."""

    def __init__(self, message: str, code: int = NEGATIVE) -> None:
        super().__init__(message)
        self.code = code


class Mistake(CommandFailed):
    """The caller asked for something that can not be meant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, MISTAKE)


class ReaderGone(Exception):
    """Whoever read our output has closed the pipe."""


def report(error: Exception, given: Sequence[str] = ()) -> int:
    """Say on stderr what went wrong, in one line; the exit code. `given` is the command line, which it may repeat."""
    if isinstance(error, ReaderGone):
        _write_no_more()
        return CLOSED_PIPE
    if os.environ.get("LOCALQUEUE_TRACEBACK") and not _is_usage(error):
        import traceback

        say(_concealed("".join(traceback.format_exception(error)).rstrip(), given))
    message, code = describe(error)
    say(" ".join(_concealed(message, given).split()))
    return code


def _concealed(text: str, given: Sequence[str]) -> str:
    for one in given:
        text = conceal(text, one)
    return text


def say(line: str) -> None:
    """One line on stderr; a stderr that nobody reads is no reason to fail."""
    try:
        sys.stderr.write(f"{line}\n")  # in one piece: other processes write here too
        sys.stderr.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise


def describe(error: Exception) -> tuple[str, int]:
    """The text and exit code of an error."""
    if isinstance(error, CommandFailed):
        return str(error), error.code
    if _is_usage(error):
        return _usage(error), MISTAKE
    if isinstance(error, QueueStoreError):
        return str(error), NEGATIVE
    if isinstance(error, IncompatiblePolicies | PayloadError):
        return str(error), MISTAKE
    if isinstance(error, QueueError):
        return str(error), NEGATIVE
    if isinstance(error, OSError):
        return str(error) or type(error).__name__, NEGATIVE
    if isinstance(error, ValueError):
        return str(error) or type(error).__name__, MISTAKE
    return f"{type(error).__name__}: {error}; LOCALQUEUE_TRACEBACK=1 shows where", NEGATIVE


def _is_usage(error: Exception) -> bool:
    """Whether the option parser says so. Where in its code is of no use, and it shows pieces of what was given."""
    return hasattr(error, "format_message")


def _usage(error: Exception) -> str:
    """An error of the option parser, with the command that explains itself."""
    text = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    return f"{context.command_path}: {text.rstrip('.')}; try '{context.command_path} --help'"


def _write_no_more() -> None:
    """Keep the interpreter from complaining, at its end, about output that has no reader."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
