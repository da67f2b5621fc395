"""What proves that a webhook comes from one who knows the secret, and when it was sent."""

from __future__ import annotations

import hashlib
import hmac
import re
import time

HEADER = "X-Localqueue-Signature"

_PARTS = re.compile(r"t=([0-9]{1,15})((?:,v1=[0-9a-f]{64}){1,8})")


def sign(secret: str | bytes, body: bytes, at: float | None = None) -> str:
    """The value of the header `X-Localqueue-Signature` for a body that is sent at a time, now unless given."""
    sent = int(time.time() if at is None else at)
    return f"t={sent},v1={_digest(key_of(secret), sent, body)}"


def verify(
    secret: str | bytes, header: str | None, body: bytes, tolerance: float = 300.0, *, now: float | None = None
) -> bool:
    """Whether a header was made with the secret for exactly this body, at most `tolerance` seconds ago or ahead.

    A header may carry several signatures, as while a secret is exchanged; one of them has to fit. That the same body
    has not come before is for you to check, by its `event_id`; `WebhookReceiver` does.
    """
    key = key_of(secret)
    found = _PARTS.fullmatch(header or "")
    if found is None:
        return False
    sent = int(found[1])
    if abs((time.time() if now is None else now) - sent) > tolerance:
        return False
    expected = _digest(key, sent, body)
    fits = [hmac.compare_digest(expected, given.removeprefix("v1=")) for given in found[2][1:].split(",")]
    return any(fits)


def key_of(secret: str | bytes) -> bytes:
    """The secret as bytes. An empty one proves nothing, so it is refused."""
    if not isinstance(secret, (str, bytes)):
        raise TypeError(f"secret must be a text or bytes, got {type(secret).__name__}")
    if not secret:
        raise ValueError("secret cannot be empty")
    return secret.encode() if isinstance(secret, str) else secret


def _digest(key: bytes, sent: int, body: bytes) -> str:
    return hmac.new(key, b"%d.%s" % (sent, body), hashlib.sha256).hexdigest()
