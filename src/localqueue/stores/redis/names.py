"""Names as parts of keys: digests, so that no name of a user can be taken for anything else, however it is spelled."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b


def digest(name: str) -> bytes:
    """22 characters that stand for a namespace, a queue or a run."""
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest())[:22]


def root(namespace: str) -> bytes:
    """What all keys of a namespace begin with. The braces make them one hash slot of a cluster."""
    return b"lq:{%b}" % digest(namespace)


def keys(root: bytes, *, cluster: bool) -> tuple[bytes, ...]:
    """The keys that a call declares, with their number in front.

    A function uses more of them than it declares, which is right as long as all are on one node. While a slot moves to
    another node they are not. A call that also declares a key that is never there is then not begun: the node asks to
    try again.
    """
    return (b"2", root, root + b":never") if cluster else (b"1", root)
