"""A command as a handler: the value goes to its stdin as JSON, exit code 0 means done."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any

_KEPT = 500
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127


# The names are part of what scripts read in `last_error["type"]`.
class _CommandExecutionError(Exception):
    """A command ended with another exit code than 0. The attributes end up in the message's `last_error`."""

    def __init__(self, message: str, command: Sequence[str], exit_code: int, stdout: str, stderr: str) -> None:
        super().__init__(message)
        self.command = list(command)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.command, self.exit_code, self.stdout, self.stderr)


class _CommandNotFoundError(_CommandExecutionError):
    """There is no such command. Trying again would not help, so the message is dead-lettered at once."""


def run_command(command: Sequence[str], value: Any) -> None:
    """Run `command`, without a shell, for one value."""
    shown = shlex.join(command)
    try:
        # A session of its own: Ctrl-C asks us to finish the message, not its command to die.
        done = subprocess.run(
            list(command),
            input=(json.dumps(value) + "\n").encode(),
            capture_output=True,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise _CommandNotFoundError(
            f"command not found: {shown}", command, _NOT_FOUND, "", "command not found"
        ) from None
    except OSError as error:
        raise _CommandExecutionError(
            f"command can not be started: {shown}: {error}", command, _NOT_EXECUTABLE, "", str(error)
        ) from None
    if done.returncode == 0:
        return
    stdout, stderr = _shortened(done.stdout), _shortened(done.stderr)
    message = f"command exited with status {done.returncode}: {shown}"
    raise _CommandExecutionError(
        f"{message}: {stderr}" if stderr else message, command, done.returncode, stdout, stderr
    )


def _shortened(output: bytes) -> str:
    text = output.decode("utf-8", "replace").strip()
    return text if len(text) <= _KEPT else text[: _KEPT - 3] + "..."
