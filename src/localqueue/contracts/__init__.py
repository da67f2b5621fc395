"""The contract suite: prove that a store keeps every promise of the port.

A store author subclasses `StoreContract` in a test module and says how the store is opened:

    class TestMyStore(SharedStoreContract):
        @pytest.fixture
        def harness(self, tmp_path):
            path = str(tmp_path / "queues")
            return StoreHarness(
                open=lambda **options: MyStore(path, **options),
                open_copy=MyStore,
                opener="my_package.store:MyStore",
                location=path,
            )

- `StoreContract` is what every store promises.
- `ReopenContract` is for stores that keep their messages when they are closed.
- `ProcessContract` and `ProcessWakeContract` are for stores that several processes can open at once; they need
  `opener` and `location`.
- `LookContract` is for stores that can be opened to look, with `read_only=True`.
- `SharedStoreContract` is all of them.
- `AscendingIdsContract` is for stores whose commits wait for each other, `SteadyLineContract` for those that have no
  clock but those of the processes that use them.

Attempt, idempotency and result stores have suites of their own, see `localqueue.contracts.adapters`:
`AttemptStoreContract`, `IdempotencyStoreContract` and `ResultStoreContract` for what their protocols promise,
`ExclusiveIdempotencyStoreContract` and `SharedIdempotencyStoreContract` (several processes) for a ledger with `begin`,
`ListedResultStoreContract` for a result store with `contains`, `find` and `keys`.

`BrokerContract` is for brokers: its `BrokerHarness` opens one, and the broker's capabilities decide what is asserted.

Adapters around the queue have suites of their own: `NotificationContract` (with `wait`: `WaitableNotificationContract`,
with `wait_async`: `AsyncNotificationContract`) asks for a fixture `policy`, `CrossProcessNotificationContract` for a
fixture `make_policy`, `DispatchContract` (for dispatchers that
lease: `LeasingDispatchContract`) for a fixture `make_dispatcher` that takes the handlers. `CommitContract` kills a
worker between any two steps of effectively-once work; its `CommitHarness` says which store, commit policy, ledger and
participants do the work.

`open` must accept `namespace=`, `clock=` (a callable that returns seconds), `durability=` and `read_only=`. Tests that
start processes are marked `multiprocess`, those that take more than a second or two `slow`; register both markers. The
suite needs pytest and nothing else. `localqueue.contracts.machine` drives a store and a small reference model through
the same random steps; it needs Hypothesis. `localqueue.contracts.differ` tells several stores the same random
operations and shows over which they disagree.
"""

import pkgutil

import pytest

for _module in pkgutil.iter_modules(__path__):
    pytest.register_assert_rewrite(f"localqueue.contracts.{_module.name}")

from localqueue.contracts.adapters import AdapterHarness  # noqa: E402
from localqueue.contracts.attempts import AttemptStoreContract  # noqa: E402
from localqueue.contracts.brokers import BrokerContract, BrokerHarness  # noqa: E402
from localqueue.contracts.commit_order import AscendingIdsContract, SteadyLineContract  # noqa: E402
from localqueue.contracts.commits import CommitContract, CommitHarness  # noqa: E402
from localqueue.contracts.contract import SharedStoreContract, StoreContract  # noqa: E402
from localqueue.contracts.dispatchers import DispatchContract, LeasingDispatchContract  # noqa: E402
from localqueue.contracts.harness import FakeClock, StoreHarness  # noqa: E402
from localqueue.contracts.ledgers import (  # noqa: E402
    ExclusiveIdempotencyStoreContract,
    IdempotencyStoreContract,
    SharedIdempotencyStoreContract,
)
from localqueue.contracts.looks import LookContract  # noqa: E402
from localqueue.contracts.notifications import (  # noqa: E402
    AsyncNotificationContract,
    NotificationContract,
    WaitableNotificationContract,
)
from localqueue.contracts.persistence import ReopenContract  # noqa: E402
from localqueue.contracts.process_notifications import CrossProcessNotificationContract  # noqa: E402
from localqueue.contracts.process_wake import ProcessWakeContract  # noqa: E402
from localqueue.contracts.processes import ProcessContract  # noqa: E402
from localqueue.contracts.result_stores import ListedResultStoreContract, ResultStoreContract  # noqa: E402

__all__ = [
    "AdapterHarness",
    "AscendingIdsContract",
    "AsyncNotificationContract",
    "AttemptStoreContract",
    "BrokerContract",
    "BrokerHarness",
    "CommitContract",
    "CommitHarness",
    "CrossProcessNotificationContract",
    "DispatchContract",
    "ExclusiveIdempotencyStoreContract",
    "FakeClock",
    "IdempotencyStoreContract",
    "LeasingDispatchContract",
    "ListedResultStoreContract",
    "LookContract",
    "NotificationContract",
    "ProcessContract",
    "ProcessWakeContract",
    "ReopenContract",
    "ResultStoreContract",
    "SharedIdempotencyStoreContract",
    "SharedStoreContract",
    "SteadyLineContract",
    "StoreContract",
    "StoreHarness",
    "WaitableNotificationContract",
]
