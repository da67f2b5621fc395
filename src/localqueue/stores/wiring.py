"""How the messages of one commit refer to each other."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import CircularDependency, IdTaken
from localqueue.stores.port import NewMessage, StoredMessage


class Wiring:
    """How the messages of one commit refer to each other, and what became of those that were not stored."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}  # a duplicate stands for the message that was there
        self.existing: dict[str, StoredMessage] = {}  # that message, as it was when the duplicate came
        self.dropped: set[str] = set()

    def in_order(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """The messages, each behind those of the same commit that it comes after."""
        if not any(message.after for message in messages):
            return list(messages)
        from graphlib import CycleError, TopologicalSorter

        by_id = {message.id: message for message in messages}
        if len(by_id) < len(messages):
            raise IdTaken("a message id is used twice in one commit")
        graph = {message.id: [one for one in message.after if one in by_id] for message in messages}
        try:
            return [by_id[one] for one in TopologicalSorter(graph).static_order()]
        except CycleError as error:
            raise CircularDependency(
                f"messages of one commit wait for each other in a circle: {', '.join(error.args[1])}"
            ) from error
