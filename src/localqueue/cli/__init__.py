"""The `localqueue` command. Install it with `pip install 'localqueue[cli]'`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NoReturn

_NEEDED = ("typer", "rich", "yaml")


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command and exit: 0 done, 1 a negative outcome or a failing store, 2 a mistake of the caller."""
    if not all(map(find_spec, _NEEDED)):
        raise SystemExit(
            "The localqueue CLI requires optional dependencies. Install with: pip install 'localqueue[cli]'"
        )
    args = sys.argv[1:] if args is None else args
    if args == ["--version"]:  # without the fifth of a second that the option parser takes to load
        from localqueue._version import __version__

        print(__version__)
        raise SystemExit(0)
    from localqueue.cli.app import run

    raise SystemExit(run(args))
