"""Resolving the constructor's arguments into one configuration, or refusing them with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from localqueue._dataclass import field_names
from localqueue._named_tuple import NamedTuple
from localqueue.errors import IncompatiblePolicies
from localqueue.guarantees.refusals import check as check_combination
from localqueue.policies import (
    BackpressureStrategy,
    BoundedBackpressure,
    Codec,
    Configuration,
    FixedLeaseTimeout,
    LeasePolicy,
    QueuePolicySet,
    QueueSemantics,
    check_semantics,
    derive_semantics,
)
from localqueue.policies.codec import JSON_CODEC
from localqueue.queue.drafts import check_seconds
from localqueue.stores.port import Limit, QueueStore

if TYPE_CHECKING:
    from localqueue.brokers.capabilities import BrokerCapabilities
    from localqueue.spec import QueueSpec

DEFAULT_LEASE_TIMEOUT = 30.0
_LONGEST_NAME = 512
_MOST_ATTEMPTS = 2**31 - 1
_UNREACHED = 2**53  # messages: a limit that no queue comes to
_POLICIES = field_names(QueuePolicySet)


class Setup(NamedTuple):
    configuration: Configuration
    semantics: QueueSemantics
    retry_defaults: dict[str, Any]


def resolve(
    *,
    name: str | None,
    spec: QueueSpec | None,
    policy_set: QueuePolicySet | None,
    policies: dict[str, Any],
    broker: BrokerCapabilities | None,
    lease_timeout: float,
    maxsize: int,
    retry_defaults: Mapping[str, Any] | None,
    max_attempts: int | None,
    codec: Codec | None,
) -> Setup:
    if spec is not None:
        name = spec.name if name is None else name
        policy_set = spec.policy_set if policy_set is None else policy_set
        retry_defaults = spec.retry_kwargs if retry_defaults is None else retry_defaults
    if name is None:
        raise ValueError("pass either name= or spec=")
    chosen = _merge(policy_set, policies)
    semantics = chosen.pop("semantics", None)
    if broker is not None:
        _fit(chosen, broker)
    _check_capacity_conflict(policy_set, chosen.get("backpressure"), maxsize)
    chosen["lease_policy"] = _lease_policy(chosen.get("lease_policy"), lease_timeout)
    if chosen["backpressure"] is None:
        chosen["backpressure"] = BoundedBackpressure(maxsize)
    configuration = Configuration(
        name=check_name(name),
        codec=_check_codec(codec),
        max_attempts=_check_max_attempts(max_attempts),
        **{key: policy for key, policy in chosen.items() if policy is not None},
    )
    retry = {} if retry_defaults is None else _check_retry_defaults(retry_defaults)
    if semantics is None:
        semantics = derive_semantics(configuration)
    else:
        check_semantics(semantics, configuration)
    check_combination(configuration)
    return Setup(configuration, semantics, retry)


def as_store(place: Any) -> tuple[QueueStore | None, BrokerCapabilities | None]:
    """The store of a queue that was given a store or a broker, and what the broker can do if it is one."""
    if isinstance(place, str):
        from localqueue.stores.address import shown

        raise TypeError(f"store= takes an open store, not {shown(place)!r}; pass open_store(...) or open_broker(...)")
    if place is None or not hasattr(place, "as_store"):
        return place, getattr(place, "capabilities", None)
    store = place.as_store()
    return store, getattr(store, "capabilities", None)


def _fit(chosen: dict[str, Any], broker: BrokerCapabilities) -> None:
    """Have a queue on a broker promise no more than the broker does, where nothing else was chosen."""
    from localqueue.brokers import fit

    for name, policy in fit.defaults(broker).items():
        if chosen.get(name) is None:
            chosen[name] = policy


def check_broker(broker: BrokerCapabilities, configuration: Configuration, keep_results: float | None) -> None:
    """Refuse what the broker can not do."""
    from localqueue.brokers import fit

    fit.check(broker, configuration, keep_results)


def check_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"queue name must be a string, not {name!r}")
    if not name:
        raise ValueError("queue name cannot be empty")
    if ":" in name:
        raise ValueError("queue name cannot contain ':'")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"queue name cannot be longer than {_LONGEST_NAME} characters, this one has {len(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"queue name {name!r} is not valid Unicode") from None
    if "\0" in name:
        raise ValueError("queue name cannot contain a NUL character")
    return name


def _merge(policy_set: QueuePolicySet | None, policies: dict[str, Any]) -> dict[str, Any]:
    chosen = {}
    for name in _POLICIES:
        bundled = None if policy_set is None else getattr(policy_set, name)
        if bundled is not None and policies.get(name) is not None:
            raise ValueError(f"pass either {name}= or policy_set.{name}, not both")
        chosen[name] = bundled if bundled is not None else policies.get(name)
    return chosen


def _check_capacity_conflict(
    policy_set: QueuePolicySet | None, chosen: BackpressureStrategy | None, maxsize: int
) -> None:
    if chosen is not None and maxsize != 0:
        source = "policy_set.backpressure" if policy_set and policy_set.backpressure is not None else "backpressure="
        raise ValueError(f"pass either maxsize= or {source}, not both")


def _lease_policy(chosen: LeasePolicy | None, lease_timeout: float) -> LeasePolicy:
    if chosen is not None:
        if lease_timeout != DEFAULT_LEASE_TIMEOUT:
            raise ValueError("pass either lease_timeout= or lease_policy=, not both")
        return chosen
    if isinstance(lease_timeout, bool) or not isinstance(lease_timeout, int | float):
        raise TypeError(f"lease_timeout must be a number of seconds, not {lease_timeout!r}")
    if not lease_timeout > 0:
        raise ValueError("lease_timeout must be greater than zero")
    return FixedLeaseTimeout(lease_timeout)


def _check_retry_defaults(retry_defaults: Mapping[str, Any]) -> dict[str, Any]:
    from localqueue.retry_defaults import validate_retry_defaults

    return validate_retry_defaults(retry_defaults)


def _check_codec(codec: Codec | None) -> Codec:
    if codec is None:
        return JSON_CODEC
    if not all(hasattr(codec, name) for name in ("name", "encode", "decode")):
        raise TypeError(f"codec must have a name, encode and decode, such as MsgpackCodec(), not {codec!r}")
    return codec


def _check_max_attempts(max_attempts: int | None) -> int | None:
    if max_attempts is None:
        return None
    if isinstance(max_attempts, bool) or not isinstance(max_attempts, int):
        raise TypeError(f"max_attempts must be an integer, not {max_attempts!r}")
    if max_attempts < 1:
        raise ValueError(f"max_attempts must be at least 1, not {max_attempts}; leave it out for no limit")
    if max_attempts > _MOST_ATTEMPTS:
        raise ValueError(f"max_attempts can be {_MOST_ATTEMPTS} at most, not {max_attempts}; leave it out for no limit")
    return max_attempts


def check_keep_results(seconds: float | None, configuration: Configuration) -> float | None:
    if seconds is None:
        return None
    if not check_seconds("keep_results", seconds) > 0:
        raise ValueError(f"keep_results must be greater than zero, not {seconds!r}; leave it out to keep none")
    if configuration.delivery_policy.ack_timing == "before-delivery":
        raise IncompatiblePolicies(
            f"queue {configuration.name!r} delivers at most once: a message is gone when it is delivered, so nobody "
            "could tell one that runs from one that was lost; leave out keep_results="
        )
    return float(seconds)


def limit_of(backpressure: BackpressureStrategy) -> Limit | None:
    """What the store has to check when it inserts; a throttled queue is slowed, never limited."""
    if not 0 < backpressure.maxsize < _UNREACHED or backpressure.overflow == "throttle":
        return None
    match backpressure.overflow:
        case "drop-newest":
            return Limit(backpressure.maxsize, "drop-newest")
        case "drop-oldest":
            return Limit(backpressure.maxsize, "drop-oldest")
        case "overflow-queue":
            return Limit(backpressure.maxsize, "overflow-queue", getattr(backpressure, "queue", None))
        case _:
            return Limit(backpressure.maxsize, "reject")
