"""The proxy that the tests of broken connections rely on breaks them where it says."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.faults.proxy import PLACES, Proxy, Where

PATIENCE = 30.0


class Shouter:
    """A server that answers each line with the same line in capitals, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.gone = threading.Semaphore(0)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
                self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while data := client.recv(1000):
                self.heard.append(data)
                client.sendall(data.upper())
        self.gone.release()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.fixture
def server() -> Iterator[Shouter]:
    shouter = Shouter()
    yield shouter
    shouter.close()


@pytest.fixture
def proxy(server: Shouter) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def ask(client: socket.socket, text: bytes) -> bytes:
    """The answer to a request, as far as it came."""
    answer = b""
    with suppress(ConnectionError):
        client.sendall(text)
        while len(answer) < len(text) and (more := client.recv(1000)):
            answer += more
    return answer


@pytest.mark.parametrize(
    ("where", "heard", "answer"),
    [("before", [b"one"], b""), ("after", [b"one", b"two!"], b""), ("middle", [b"one", b"two!"], b"TW")],
)
def test_a_cut_ends_the_connection_at_its_place(
    server: Shouter, proxy: Proxy, where: Where, heard: list[bytes], answer: bytes
) -> None:
    with dial(proxy) as client:
        proxy.cut(2, where)
        assert ask(client, b"one") == b"ONE"
        assert not proxy.has_cut
        assert ask(client, b"two!") == answer
        assert proxy.has_cut
        assert server.gone.acquire(timeout=PATIENCE), "the server's side must be cut as well"
    assert server.heard == heard
    with dial(proxy) as client:
        assert ask(client, b"three") == b"THREE"


@pytest.mark.parametrize("where", PLACES)
def test_after_a_cut_for_good_nothing_gets_through_until_it_is_mended(
    server: Shouter, proxy: Proxy, where: Where
) -> None:
    with dial(proxy) as bystander, dial(proxy) as client:
        assert ask(bystander, b"before") == b"BEFORE"
        proxy.cut(1, where, for_good=True)
        ask(client, b"doomed")
        assert ask(bystander, b"after") == b""
        with dial(proxy) as late:
            assert ask(late, b"late") == b""
    proxy.mend()
    with dial(proxy) as client:
        assert ask(client, b"again") == b"AGAIN"
    assert b"after" not in server.heard and b"late" not in server.heard


def test_flapping_cuts_again_and_again_until_it_is_mended(server: Shouter, proxy: Proxy) -> None:
    proxy.flap(random.Random(1), 2, 4)
    answers = []
    for _ in range(4):
        with dial(proxy) as client:
            while (answer := ask(client, b"word")) == b"WORD":
                answers.append(answer)
    assert 4 <= len(answers) <= 12
    proxy.mend()
    with dial(proxy) as client:
        assert [ask(client, b"word") for _ in range(9)] == [b"WORD"] * 9


def test_silence_holds_back_and_mending_delivers_late(server: Shouter, proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert ask(client, b"one") == b"ONE"
        proxy.silence()
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ask(client, b"two")
        assert server.heard == [b"one"]
        client.settimeout(PATIENCE)
        proxy.mend()
        assert client.recv(10) == b"TWO"


def test_silence_falls_at_the_request_it_was_told(server: Shouter, proxy: Proxy) -> None:
    with dial(proxy) as client:
        proxy.silence_at(2)
        assert ask(client, b"one") == b"ONE"
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ask(client, b"two")
        assert server.heard == [b"one"] and proxy.has_cut


def test_only_the_connection_that_said_the_word_is_muted(server: Shouter, proxy: Proxy) -> None:
    with dial(proxy) as listener, dial(proxy) as other:
        assert ask(listener, b"listen") == b"LISTEN"
        assert ask(other, b"speak") == b"SPEAK"
        assert proxy.mute(b"listen") == 1
        listener.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ask(listener, b"more")
        assert ask(other, b"more") == b"MORE"


def test_a_client_that_leaves_in_the_silence_is_not_missed_by_the_server(server: Shouter, proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert ask(client, b"one") == b"ONE"
        proxy.silence()
    assert not server.gone.acquire(timeout=0.05)
    proxy.mend()
    assert server.gone.acquire(timeout=PATIENCE)


def test_blocked_clients_lose_their_connections_and_get_no_new_ones(server: Shouter, proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert ask(client, b"one") == b"ONE"
        proxy.block()
        assert ask(client, b"two") == b""
    with dial(proxy) as client:
        assert ask(client, b"three") == b""
    assert server.heard == [b"one"]
