"""The contract of a store, as test classes. See the docstring of `localqueue.contracts` for how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from localqueue.contracts.arguments import ArgumentContract
from localqueue.contracts.batches import BatchContract
from localqueue.contracts.capacity import CapacityContract
from localqueue.contracts.commit_order import CommitOrderContract
from localqueue.contracts.copies import BackupContract
from localqueue.contracts.dedupe import DedupeContract
from localqueue.contracts.dependencies import DependencyContract
from localqueue.contracts.edges import EdgeContract
from localqueue.contracts.errors import ErrorContract
from localqueue.contracts.fanout import FanoutContract
from localqueue.contracts.fencing import FencingContract
from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.journal import JournalContract
from localqueue.contracts.journal_options import JournalOptionsContract
from localqueue.contracts.journal_retention import JournalKeepingContract, SharedJournalContract
from localqueue.contracts.journal_span import JournalSpanContract
from localqueue.contracts.leases import LeaseContract
from localqueue.contracts.looks import LookContract
from localqueue.contracts.namespaces import NamespaceContract
from localqueue.contracts.observation import ObserveContract
from localqueue.contracts.operations import OperationsContract
from localqueue.contracts.ordering import OrderingContract
from localqueue.contracts.outcomes import OutcomeContract, SharedOutcomeContract
from localqueue.contracts.pages import PageContract
from localqueue.contracts.payloads import PayloadContract
from localqueue.contracts.persistence import ReopenContract
from localqueue.contracts.process_wake import ProcessWakeContract
from localqueue.contracts.processes import ProcessContract
from localqueue.contracts.ranges import RangeContract
from localqueue.contracts.record_wake import RecordWakeContract
from localqueue.contracts.records import RecordContract
from localqueue.contracts.restoration import RestoreContract
from localqueue.contracts.runs import RunContract
from localqueue.contracts.settlement import SettlingContract
from localqueue.contracts.space import SpaceContract
from localqueue.contracts.stats import StatsContract
from localqueue.contracts.threads import ThreadContract
from localqueue.contracts.timers import TimerContract
from localqueue.contracts.wake import WakeContract
from localqueue.stores.port import QueueStore

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
    PageContract,
    RangeContract,
    OperationsContract,
    StatsContract,
    BackupContract,
    SpaceContract,
    NamespaceContract,
    PayloadContract,
    WakeContract,
    RecordWakeContract,
    ThreadContract,
    JournalContract,
    JournalKeepingContract,
    JournalOptionsContract,
    JournalSpanContract,
    ObserveContract,
    RestoreContract,
    OutcomeContract,
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
    StoreContract,
    ReopenContract,
    LookContract,
    ProcessContract,
    ProcessWakeContract,
    SharedJournalContract,
    SharedOutcomeContract,
):
    """What a store promises that persists and that several processes open at once."""
