"""A process whose clock is wrong, and that does what it is told with a store."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tests.clocks import set_clock
from tests.processes import context
from tests.stores import Place

PATIENCE = 60.0


class Answer(NamedTuple):
    value: Any
    error: str | None


def _serve(connection: Connection, off: float, place: tuple[str, str, str]) -> None:
    set_clock(lambda: off)
    with Place(*place).open() as store:
        while (call := connection.recv()) is not None:
            name, arguments, options = call
            try:
                connection.send(Answer(getattr(store, name)(*arguments, **options), None))
            except Exception as error:
                connection.send(Answer(None, f"{type(error).__name__}: {error}"))


class Host:
    """Another machine, whose clock is off by some seconds: calls of store methods, as if they were here."""

    def __init__(self, place: Any, off: float) -> None:
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, off, tuple(place)), daemon=True)
        self._process.start()
        theirs.close()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self._connection.send((name, arguments, options))
            assert self._connection.poll(PATIENCE), f"{name} does not return"
            answer = self._connection.recv()
            assert answer.error is None, answer.error
            return answer.value

        return call

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.send(None)
        self._process.join(PATIENCE)
        self._connection.close()
        assert self._process.exitcode == 0
