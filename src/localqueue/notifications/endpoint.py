"""The address of something that speaks HTTP, taken apart."""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote, urlsplit

from localqueue._dataclass import dataclass, field, replace

_PORTS = {"http": 80, "https": 443}
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`shown` is for everybody: it has neither the user and password nor the query, where tokens often stand."""

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)
    authorization: str | None = field(default=None, repr=False)

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def shown(self) -> str:
        path, question, _ = self.target.partition("?")
        return f"{self.scheme}://{self._authority}{path}{question}{'...' if question else ''}"

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def with_query(self, query: str) -> Endpoint:
        """The same with more of a query."""
        target = f"{self.target}{'&' if '?' in self.target else '?'}{query}"
        return replace(self, target=target)

    def follow(self, location: str) -> Endpoint:
        """Where a redirect leads. Only to the same host, and not from https to http: whoever is told elsewhere has not
        been named by the user, and would see what is meant for this host."""
        if location.startswith("/") and not location.startswith("//"):
            location = f"{self.scheme}://{self._authority}{location}"
        there = parse_endpoint(location)
        if there.host != self.host:
            raise ValueError(f"{self.shown!r} redirects to another host, {there.shown!r}; name that URL instead")
        if self.is_secure and not there.is_secure:
            raise ValueError(f"{self.shown!r} redirects from https to http, {there.shown!r}")
        return replace(there, authorization=self.authorization)


def parse_endpoint(url: str) -> Endpoint:
    """ValueError where it is not the URL of something that speaks HTTP. No error shows a password."""
    if not isinstance(url, str):
        raise TypeError(f"a URL is a text such as 'https://host/path', got {url!r}")
    scheme, colon, _ = url.partition("://")
    beginning = f"{scheme}://..." if colon and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) else "..."
    if _INVISIBLE.search(url):
        raise ValueError(f"the URL {beginning!r} has a space or a letter that must be escaped, as in %20")
    scheme = scheme.lower()
    if not colon or scheme not in _PORTS:
        raise ValueError(f"the URL {beginning!r} must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"the host or port of the URL {beginning!r} can not be read") from None
    host = (host or "").rstrip(".")
    if not host or port == 0:
        raise ValueError(f"the URL {beginning!r} names no host or no port that can be connected to")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Endpoint(
        scheme=scheme,
        host=host,
        port=port or _PORTS[scheme],
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        authorization=authorization,
    )
