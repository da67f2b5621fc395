"""Which hosts may be connected to, and connecting to exactly the address that was checked.

A name is resolved once for each connection, all its addresses are checked, and one of those is connected to. So a name
that resolves to something else a moment later gains nothing by it.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence

from localqueue.notifications.endpoint import Endpoint

Resolve = Callable[[str, int], Sequence[str]]

_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
#: What Python takes for public, but is not: where clouds serve their secrets, and relays into other networks.
_REFUSED = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))


class AddressRefused(ValueError):
    """A host is not on the public internet, and nobody has allowed to connect to such ones."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet: not private, loopback, link-local, multicast, reserved or
    known to serve the secrets of a cloud, also where it is written as an IPv6 address that leads to such a one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and any(found in network for network in _EMBEDDING):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found.is_site_local:
            return False
    if any(found in network for network in _REFUSED):
        return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, in the order in which the system would try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Dialer:
    """Connects to hosts; to those of the public internet only unless `allow_private`."""

    def __init__(
        self, *, allow_private: bool, resolve: Resolve = resolve, context: ssl.SSLContext | None = None
    ) -> None:
        self.allow_private = allow_private
        self._resolve = resolve
        self._context = context

    def check(self, endpoint: Endpoint) -> None:
        """Refuse what can be refused without resolving a name."""
        host = endpoint.host
        if self.allow_private:
            return
        if host == "localhost" or host.endswith(".localhost"):
            raise _refusal(endpoint, host)
        try:
            public = is_public(host)
        except ValueError:
            return  # a name
        if not public:
            raise _refusal(endpoint, host)

    def addresses(self, endpoint: Endpoint) -> Sequence[str]:
        """The addresses of the host, all of them checked. OSError when it has none."""
        found = self._resolve(endpoint.host, endpoint.port)
        if not found:
            raise OSError(f"the host of {endpoint.shown!r} has no address")
        for address in found:
            if not self.allow_private and not is_public(address):
                raise _refusal(endpoint, address)
        return found

    def open(self, address: str, port: int, timeout: float) -> socket.socket:
        return socket.create_connection((address, port), timeout)

    def dial(self, endpoint: Endpoint, timeout: float) -> http.client.HTTPConnection:
        """A connection to a checked address. With TLS the certificate must be that of the host's name."""
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)
        if endpoint.is_secure:
            connection.default_port = 443
        connection.sock = self._socket(endpoint, timeout)
        connection.auto_open = 0  # it would resolve the name again
        return connection

    def _socket(self, endpoint: Endpoint, timeout: float) -> socket.socket:
        failure: OSError | None = None
        for address in self.addresses(endpoint):
            try:
                opened = self.open(address, endpoint.port, timeout)
            except OSError as error:
                failure = failure or error
                continue
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not endpoint.is_secure:
                return opened
            try:
                self._context = self._context or ssl.create_default_context()
                return self._context.wrap_socket(opened, server_hostname=endpoint.host)
            except BaseException:
                opened.close()
                raise
        assert failure is not None
        raise failure


def _refusal(endpoint: Endpoint, address: str) -> AddressRefused:
    where = "" if address == endpoint.host else f" leads to {address}, which"
    return AddressRefused(
        f"{endpoint.shown!r}{where} is not on the public internet; allow_private=True connects to such hosts too"
    )
