"""LMDB files that are damaged or not ours. LMDB maps them, so each is opened in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.errors import QueueStoreCorruptError, QueueStoreError, QueueStoreMissingError, QueueStoreVersionError
from localqueue.idempotency import LMDBIdempotencyStore
from localqueue.results import LMDBResultStore
from localqueue.retry import LMDBAttemptStore
from localqueue.stores.lmdb import LMDBQueueStore, pages
from tests.fuzz.contents import READS, WRITES, ask, make
from tests.fuzz.damage import STRANGERS, Damage, places
from tests.fuzz.effort import examples
from tests.fuzz.test_sqlite_files import picture

pytestmark = pytest.mark.multiprocess

PAGE = 4096
KEYED = [LMDBAttemptStore, LMDBIdempotencyStore, LMDBResultStore]

#: How long a meta page is, with the parts that LMDB reads.
META = 152


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "store"
    make(partial(LMDBQueueStore, path))
    return (path / "data.mdb").read_bytes()


def in_a_process(work: Callable[[], None]) -> int:
    """How a process ended that did this: 0, or what killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def look(path: Path, read_only: bool) -> None:
    try:
        with LMDBQueueStore(path, read_only=read_only) as store:
            ask(store, sorted(READS if read_only else READS | WRITES))
    except (QueueStoreCorruptError, QueueStoreVersionError, QueueStoreMissingError) as error:
        assert str(path) in str(error)


def _change(page: int, offset: int, value: bytes) -> Damage:
    at = page * PAGE + offset
    return lambda content: content[:at] + value + content[at + len(value) :]


numbers = st.sampled_from([0, 1, 2, 255, 2**16, 2**32, 2**63, 2**64 - 2, 2**64 - 1]).map(
    lambda n: n.to_bytes(8, "little")
)
damages: st.SearchStrategy[Damage] = st.one_of(
    st.builds(lambda length: lambda content: content[: int(len(content) * length)], places),
    st.builds(lambda length: lambda content: content[:length], st.integers(0, 3 * PAGE)),
    st.builds(_change, st.integers(0, 1), st.sampled_from([0, 10, 16, 20]), st.binary(min_size=1, max_size=4)),
    st.builds(_change, st.integers(0, 1), st.sampled_from([40, 44, 46, 80, 88, 94, 128]), numbers),
    st.sampled_from([_change(0, 0, bytes(META)), _change(1, 0, bytes(META)), _change(0, 0, bytes(2 * PAGE))]),
)


@given(damage=damages, read_only=st.booleans())
@example(damage=lambda content: content[:-PAGE], read_only=True)
@example(damage=lambda content: content[: 2 * PAGE], read_only=False)
@example(damage=_change(0, 40, (4097).to_bytes(4, "little")), read_only=True)
@example(damage=_change(1, 136, (2**62).to_bytes(8, "little")), read_only=False)
@examples(20)
def test_what_was_cut_or_has_other_meta_pages_is_refused(sound: bytes, damage: Damage, read_only: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.mkdir()
        (path / "data.mdb").write_bytes(damage(sound))
        before = picture(path)
        assert in_a_process(lambda: look(path, read_only)) == 0
        if read_only:
            assert picture(path) == before


@given(length=st.integers(1, 200))
@examples(10)
def test_a_file_that_lacks_a_page_is_refused_unless_the_page_was_free(sound: bytes, length: int) -> None:
    """The store is sound, whatever is cut off, or it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.mkdir()
        data = path / "data.mdb"
        data.write_bytes(sound[: max(len(sound) - length * PAGE, 1)])
        with pytest.raises(QueueStoreCorruptError, match=r"cut|meta page"):
            pages.require_whole(str(data))


def _another_programs(path: Path) -> None:
    with lmdb.open(str(path)) as environment, environment.begin(write=True) as txn:
        txn.put(b"note", b"mine")


FOREIGN: dict[str, Callable[[Path], object]] = {
    **{
        f"a directory with {name} as its data": lambda path, make=make: (path.mkdir(), make(path / "data.mdb"))
        for name, make in STRANGERS.items()
        if name not in ("an empty file", "a link to nowhere")
    },
    "an environment of another program": _another_programs,
    "a file": lambda path: path.write_text("hello"),
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("stranger", FOREIGN)
@pytest.mark.parametrize("opening", [LMDBQueueStore, partial(LMDBQueueStore, read_only=True), KEYED[0]])
def test_what_is_not_ours_is_refused_and_left_alone(
    stranger: str, opening: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    FOREIGN[stranger](path)
    before = {name: content for name, content in picture(tmp_path).items() if not name.endswith((".lock", "lock.mdb"))}

    def work() -> None:
        with pytest.raises(QueueStoreError, match="store"), opening(path, timeout=1.0) as store:  # type: ignore[attr-defined]
            store.load("x")

    assert in_a_process(work) == 0
    after = {name: content for name, content in picture(tmp_path).items() if not name.endswith((".lock", "lock.mdb"))}
    assert after == before
