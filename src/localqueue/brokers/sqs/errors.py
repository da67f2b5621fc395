"""The `boto3` package, imported when a broker is opened, and its errors turned into ours."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from localqueue.errors import (
    QueueStoreError,
    QueueStoreLockedError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
)
from localqueue.stores import refusals

_MISSING = {"NonExistentQueue", "QueueDoesNotExist"}
_BUSY = {
    "InternalError",
    "InternalFailure",
    "KmsThrottled",
    "OverLimit",
    "RequestThrottled",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "KmsAccessDenied",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_NOT_HELD = {"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight", "InvalidReceiptHandle"}

_session: Any = None
_making = threading.Lock()  # a session may be used by one thread at a time


@cache
def load() -> Any:
    return refusals.load_driver("SQS", "sqs", "botocore.exceptions", "boto3")


def new_client(options: Mapping[str, Any], *, read_timeout: float) -> Any:
    """A client, which any number of threads may use. Clients share what the driver reads from its files."""
    global _session
    boto3 = load()
    from botocore.config import Config

    config = Config(
        connect_timeout=5,
        read_timeout=read_timeout,
        max_pool_connections=64,
        retries={"mode": "standard", "total_max_attempts": 3},
        tcp_keepalive=True,
        user_agent_extra="localqueue",
    )
    with _making:
        if _session is None:
            _session = boto3.session.Session()
        return _session.client("sqs", config=config, **options)


def code_of(error: BaseException) -> str:
    """What the service calls an error, without the name of the service."""
    response = getattr(error, "response", None)
    found = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return short(str(found))


def short(code: str) -> str:
    return code.rpartition(".")[2]


def is_missing(error: BaseException) -> bool:
    return code_of(error) in _MISSING


def is_passing(failure: Mapping[str, Any]) -> bool:
    """Whether an entry of a batch failed so that it may be tried again."""
    return short(str(failure.get("Code", ""))) in _BUSY or failure.get("SenderFault") is False


def is_not_held(failure: Mapping[str, Any]) -> bool:
    """Whether an entry of a batch failed because its message is not held any more."""
    return short(str(failure.get("Code", ""))) in _NOT_HELD


def translate(error: BaseException, where: str, queue: str | None) -> Exception:
    """A driver's error as one that says what happened and the way out."""
    name, code, said = type(error).__name__, code_of(error), " ".join(str(error).split())
    if code in _MISSING:
        return missing(where, queue)
    if code:
        return refusal(code, said, where)
    if name in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"):
        return QueueStoreError(
            f"SQS at {where!r} wants credentials, which boto3 takes from the environment (AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY), a profile or a role ({said})",
            path=where,
        )
    if name == "ParamValidationError":
        return ValueError(f"SQS at {where!r} can not take this: {said}")
    return QueueStoreUnavailableError(f"SQS at {where!r} can not be reached, or went away ({said})", path=where)


def refusal(code: str, said: str, where: str) -> Exception:
    """What the service has refused."""
    if code in _BUSY:
        return QueueStoreUnavailableError(f"SQS at {where!r} is too busy or takes no more now ({said})", path=where)
    if code in _DENIED:
        return QueueStoreError(f"SQS at {where!r} does not let these credentials do that ({said})", path=where)
    if code == "PurgeQueueInProgress":
        return QueueStoreLockedError(
            f"SQS at {where!r} purges a queue once in 60 seconds: try again after that ({said})", path=where
        )
    if code == "QueueDeletedRecently":
        return QueueStoreLockedError(
            f"SQS at {where!r} makes a queue again 60 seconds after it was deleted: try again then ({said})", path=where
        )
    if code in ("InvalidMessageContents", "InvalidParameterValue", "BatchRequestTooLong"):
        return ValueError(f"SQS at {where!r} can not take this: {said}")
    return QueueStoreError(f"SQS at {where!r} failed: {said}", path=where)


def missing(where: str, queue: str | None) -> QueueStoreMissingError:
    return QueueStoreMissingError(f"there is no queue {queue!r} at {where!r}: ensure() makes it", path=where)
