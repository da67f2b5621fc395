"""The handler of a signal in this process: one for all policies that use it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from localqueue.notifications.signals import SignalNotification


class Trap:
    """Tells each of its policies of every signal, then calls the handler that was there before."""

    _set: ClassVar[dict[int, Trap]] = {}

    def __init__(self, signum: int) -> None:
        self._signum = signum
        self._policies: tuple[SignalNotification, ...] = ()
        self._before: Any = signal.getsignal(signum)
        if self._before is None:
            raise RuntimeError(
                f"{name_of(signum)} has a handler that was not installed from Python, which could not be "
                "called any more; use another signal"
            )
        signal.signal(signum, self._caught)

    @classmethod
    def join(cls, signum: int, policy: SignalNotification) -> Trap:
        """Have a policy told of a signal; the first to join installs the handler, and must be in the main thread."""
        found = cls._set.get(signum)
        if found is None:
            _require_main_thread(signum)
            found = cls._set[signum] = cls(signum)
        found._policies = (*found._policies, policy)
        return found

    def leave(self, policy: SignalNotification) -> None:
        """Stop telling a policy. The last to leave puts the earlier handler back, unless it is not in the main thread:
        then this one stays, and only calls it."""
        self._policies = tuple(one for one in self._policies if one is not policy)
        if not self._policies and threading.current_thread() is threading.main_thread():
            self._set.pop(self._signum, None)
            if self.is_set:  # if not, somebody has put another in front, who may call this one
                signal.signal(self._signum, self._before)

    @property
    def is_set(self) -> bool:
        """Whether it is this handler that the signal calls."""
        return signal.getsignal(self._signum) == self._caught

    def tell_others(self, policy: SignalNotification, queue: str | None) -> None:
        """Tell the other policies of this process, which need no signal for that."""
        for one in self._policies:
            if one is not policy and one.channel == policy.channel:
                one.tell(queue)

    def _caught(self, signum: int, frame: FrameType | None) -> None:
        for policy in self._policies:
            policy.tell(None)
        if callable(self._before):
            self._before(signum, frame)


def name_of(signum: object) -> str:
    """SIGUSR1 and the like; those between SIGRTMIN and SIGRTMAX have only numbers."""
    known = {one.value: one.name for one in signal.Signals}
    return known.get(signum, f"signal {signum!r}") if isinstance(signum, int) else f"signal {signum!r}"


def _require_main_thread(signum: int) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            f"only the main thread can install a handler for {name_of(signum)}: call "
            "SignalNotification.install() there before another thread listens, or use SocketNotification"
        )
