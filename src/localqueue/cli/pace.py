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
    """How fast messages may start, how waits between tries grow, and what becomes of messages that fail for good."""

    retry_backoff: Annotated[
        float | None, typer.Option(min=1, help="Each wait between tries is so many times the one before.")
    ] = None
    retry_max_delay: Annotated[float | None, typer.Option(min=0, help="Longest wait between tries.")] = None
    retry_jitter: Annotated[float | None, typer.Option(min=0, help="Seconds added to a wait at random, at most.")] = (
        None
    )
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

        settings = asdict(self)
        growth = {name: settings.pop(f"retry_{name}") for name in ("backoff", "max_delay", "jitter")}
        given = {name: value for name, value in growth.items() if value is not None}
        return PersistentWorkerConfig(**settings, **given, **retry)
