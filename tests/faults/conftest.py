"""What all tests of broken connections and servers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quick_look_at_mongodb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After each break the driver takes up to half a second to look at the server again. Tests break a lot."""
    if "mongodb" in request.node.name:
        import pymongo.common
        import pymongo.network_layer

        monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.02)
        monkeypatch.setattr(pymongo.network_layer, "_POLL_TIMEOUT", 0.02)
    yield
