"""Workers outlive a restart of their server: they go on by themselves, and every message is settled once."""

from __future__ import annotations

import pytest

from tests.faults.crews import restart
from tests.faults.ways import own_server
from tests.stores import SERVERS, on_server

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("how", ["kill", "shut_down"])
@pytest.mark.parametrize("kind", SERVERS)
def test_workers_go_on_after_a_restart_and_settle_every_message_once(kind: str, how: str) -> None:
    server = own_server(kind)
    place = on_server(server)
    with place.open() as witness, place.open(timeout=1.0) as store:
        seconds = restart(server, store, witness, how)
        print(f"{kind}, {how}: {', '.join(f'{name} {value:.2f} s' for name, value in seconds.items())}")
        assert witness.check().problems == ()
