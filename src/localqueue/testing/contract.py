"""The contract of a store, as test classes. See the docstring of `localqueue.testing` for how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from localqueue.stores.port import QueueStore
from localqueue.testing.arguments import ArgumentContract
from localqueue.testing.batches import BatchContract
from localqueue.testing.capacity import CapacityContract
from localqueue.testing.commit_order import CommitOrderContract
from localqueue.testing.copies import BackupContract
from localqueue.testing.dedupe import DedupeContract
from localqueue.testing.dependencies import DependencyContract
from localqueue.testing.edges import EdgeContract
from localqueue.testing.errors import ErrorContract
from localqueue.testing.fanout import FanoutContract
from localqueue.testing.fencing import FencingContract
from localqueue.testing.harness import FakeClock, StoreHarness
from localqueue.testing.journal import JournalContract
from localqueue.testing.journal_options import JournalOptionsContract
from localqueue.testing.journal_retention import JournalKeepingContract, SharedJournalContract
from localqueue.testing.journal_span import JournalSpanContract
from localqueue.testing.leases import LeaseContract
from localqueue.testing.looks import LookContract
from localqueue.testing.namespaces import NamespaceContract
from localqueue.testing.observation import ObserveContract
from localqueue.testing.operations import OperationsContract
from localqueue.testing.ordering import OrderingContract
from localqueue.testing.payloads import PayloadContract
from localqueue.testing.persistence import ReopenContract
from localqueue.testing.process_wake import ProcessWakeContract
from localqueue.testing.processes import ProcessContract
from localqueue.testing.ranges import RangeContract
from localqueue.testing.records import RecordContract
from localqueue.testing.restoration import RestoreContract
from localqueue.testing.runs import RunContract
from localqueue.testing.settlement import SettlingContract
from localqueue.testing.space import SpaceContract
from localqueue.testing.stats import StatsContract
from localqueue.testing.threads import ThreadContract
from localqueue.testing.timers import TimerContract
from localqueue.testing.wake import WakeContract

OpenStore = Callable[..., QueueStore]


class StoreContract(
    ArgumentContract,
    LeaseContract,
    FencingContract,
    SettlingContract,
    ErrorContract,
    OrderingContract,
    CommitOrderContract,
    CapacityContract,
    DedupeContract,
    DependencyContract,
    EdgeContract,
    RunContract,
    TimerContract,
    FanoutContract,
    RecordContract,
    BatchContract,
    RangeContract,
    OperationsContract,
    StatsContract,
    BackupContract,
    SpaceContract,
    NamespaceContract,
    PayloadContract,
    WakeContract,
    ThreadContract,
    JournalContract,
    JournalKeepingContract,
    JournalOptionsContract,
    JournalSpanContract,
    ObserveContract,
    RestoreContract,
):
    """What every store promises. Subclass it as `Test...` and provide the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> StoreHarness:
        raise NotImplementedError("a subclass of StoreContract provides the fixture `harness`")

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def open_store(self, harness: StoreHarness) -> Iterator[OpenStore]:
        """Opens the store as often as a test wants, and closes what it opened."""
        opened: list[QueueStore] = []

        def open_store(**options: object) -> QueueStore:
            opened.append(harness.open(**options))
            return opened[-1]

        yield open_store
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, open_store: OpenStore, clock: FakeClock) -> QueueStore:
        """A store on the frozen clock."""
        return open_store(clock=clock)

    @pytest.fixture
    def live(self, open_store: OpenStore) -> QueueStore:
        """A store on the real clock."""
        return open_store()


class SharedStoreContract(
    StoreContract, ReopenContract, LookContract, ProcessContract, ProcessWakeContract, SharedJournalContract
):
    """What a store promises that persists and that several processes open at once."""
