"""The options of everything that processes messages: how fast, and what becomes of failures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import shared

if TYPE_CHECKING:
    from localqueue.worker_config import PersistentWorkerConfig


@shared
@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast messages may start, and what becomes of those that fail for good."""

    release_delay: Annotated[float, typer.Option(help="Seconds until a released message is delivered again.")] = 0.0
    min_interval: Annotated[float, typer.Option(help="Least seconds between two starts.")] = 0.0
    circuit_breaker_failures: Annotated[int, typer.Option(help="Pause after so many failures in a row.")] = 0
    circuit_breaker_cooldown: Annotated[float, typer.Option(help="Seconds of that pause.")] = 0.0
    dead_letter_on_exhaustion: Annotated[
        bool,
        typer.Option(
            "--dead-letter-on-exhaustion/--release-on-exhaustion", help="What becomes of it after the last try."
        ),
    ] = True

    def config(self, **retry: Any) -> PersistentWorkerConfig:
        from localqueue.worker_config import PersistentWorkerConfig

        return PersistentWorkerConfig(**asdict(self), **retry)
