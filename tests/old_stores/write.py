"""Writes the old stores anew, and what they show: `python -m tests.old_stores.write`.

Only for a release whose stores later releases must open; those that are here are from before the stores had one engine.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from localqueue.contracts import FakeClock
from localqueue.contracts.picture import differences
from tests.old_stores.content import BEGAN, Ids, fill, seen
from tests.old_stores.native import FILES, HERE, empty_place, save

PICTURE = HERE / "picture.json"


def main() -> None:
    ids: dict[str, Ids] = {}
    pictures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in FILES:
            place = empty_place(kind, Path(folder))
            clock = FakeClock(BEGAN)
            with place.open(clock=clock) as store:
                ids[kind] = fill(store, clock)
                assert store.check().ok, (kind, store.check().problems)
                pictures[kind] = json.loads(json.dumps(seen(store, ids[kind])))
            save(place)
    for kind, shown in pictures.items():
        assert not (found := differences(pictures["sqlite"], shown)), f"{kind} differs from SQLite: {found}"
    text = json.dumps({"ids": ids, "seen": pictures["sqlite"]}, indent=1, sort_keys=True, ensure_ascii=False)
    PICTURE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
