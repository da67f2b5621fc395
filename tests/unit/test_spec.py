"""A spec is built step by step, checked at each step, and never changes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from localqueue.policies import (
    AtLeastOnceDelivery,
    AtMostOnceDelivery,
    DeadLetterQueue,
    EffectivelyOnceDelivery,
    QueuePolicySet,
    ReturnStoredResult,
    SagaCommit,
)
from localqueue.retry_defaults import validate_retry_defaults
from localqueue.spec import QoS, QueueSpec


class RecordingQueue:
    """Stands for PersistentQueue: keeps the options it was constructed with."""

    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.fixture
def queue_type(monkeypatch: pytest.MonkeyPatch) -> type[RecordingQueue]:
    module = ModuleType("localqueue.queue")
    module.PersistentQueue = RecordingQueue  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "localqueue.queue", module)
    return RecordingQueue


def test_qos_values_are_strings() -> None:
    assert [str(qos) for qos in QoS] == ["at-least-once", "at-most-once", "effectively-once"]


@pytest.mark.parametrize(
    ("qos", "delivery"),
    [
        (QoS.AT_LEAST_ONCE, AtLeastOnceDelivery()),
        ("at-most-once", AtMostOnceDelivery()),
        (QoS.EFFECTIVELY_ONCE, EffectivelyOnceDelivery()),
    ],
)
def test_qos_chooses_the_delivery_policy(qos: Any, delivery: Any) -> None:
    base = QueueSpec("jobs")
    assert base.with_qos(qos).delivery_policy == delivery
    assert base.delivery_policy is None


def test_effectively_once_takes_its_parts() -> None:
    ledger = object()
    spec = QueueSpec("jobs").with_qos(
        QoS.EFFECTIVELY_ONCE,
        idempotency_store=ledger,
        result_policy=ReturnStoredResult(),
        commit_policy=SagaCommit(),
    )
    assert spec.delivery_policy == EffectivelyOnceDelivery(
        idempotency_store=ledger, result_policy=ReturnStoredResult(), commit_policy=SagaCommit()
    )


def test_an_unknown_qos_is_refused() -> None:
    with pytest.raises(ValueError, match="'nope' is not a valid QoS"):
        QueueSpec("jobs").with_qos("nope")


def test_a_spec_is_renamed_without_losing_the_rest() -> None:
    spec = QueueSpec("jobs").with_retry(max_retries=3).with_name("mail")
    assert (spec.name, spec.retry_kwargs) == ("mail", {"max_tries": 3})


def test_the_policy_set_holds_only_what_was_decided() -> None:
    assert QueueSpec("jobs").policy_set is None
    spec = QueueSpec("jobs").with_dead_letter_queue().with_qos("at-most-once")
    assert spec.policy_set == QueuePolicySet(delivery_policy=AtMostOnceDelivery(), dead_letter_policy=DeadLetterQueue())


def test_retry_settings_add_up_and_are_copied_out() -> None:
    spec = QueueSpec("jobs").with_retry(max_retries=3).with_retry(wait=0.5, max_tries=4)
    assert spec.retry_kwargs == {"max_tries": 4, "wait": 0.5}
    spec.retry_kwargs["wait"] = 9
    assert spec.retry_kwargs["wait"] == 0.5
    assert spec == QueueSpec("jobs").with_retry(wait=0.5).with_retry(max_retries=4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_retries": 1, "max_tries": 2}, "pass either max_retries= or max_tries=, not both"),
        ({"max_retries": 1, "stop": "s"}, "retry_defaults cannot set both max_tries and stop"),
        ({"max_retries": 0}, "retry_defaults max_tries must be a positive integer, not 0"),
        ({"max_tries": True}, "retry_defaults max_tries must be a positive integer, not True"),
        ({"max_tries": 1.0}, "retry_defaults max_tries must be a positive integer, not 1.0"),
        ({"wait": -1}, "retry_defaults wait must be 0 or more seconds, not -1"),
    ],
)
def test_contradicting_retry_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        QueueSpec("jobs").with_retry(**settings)
    assert str(caught.value) == message


def test_retry_defaults_are_a_mapping_and_are_copied() -> None:
    given = {"max_tries": 3}
    checked = validate_retry_defaults(given)
    assert checked == given and checked is not given
    with pytest.raises(TypeError, match=r"^retry_defaults must be a mapping$"):
        validate_retry_defaults([("max_tries", 3)])  # type: ignore[arg-type]


@pytest.mark.parametrize(("threshold", "cooldown", "expected"), [(3, None, 30.0), (3, 5.0, 5.0), (0, None, 0.0)])
def test_a_circuit_breaker_has_a_cooldown_unless_it_is_off(
    threshold: int, cooldown: float | None, expected: float
) -> None:
    spec = QueueSpec("jobs").with_circuit_breaker(threshold=threshold, cooldown=cooldown)
    assert (spec.circuit_breaker_failures, spec.circuit_breaker_cooldown) == (threshold, expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.with_release_delay(-1), "release_delay must be greater than or equal to zero"),
        (lambda s: s.with_min_interval(-1), "min_interval must be greater than or equal to zero"),
        (
            lambda s: s.with_circuit_breaker(threshold=-1),
            "circuit_breaker_failures must be greater than or equal to zero",
        ),
        (
            lambda s: s.with_circuit_breaker(threshold=0, cooldown=5),
            "circuit breaker requires circuit_breaker_failures > 0 when circuit_breaker_cooldown is set",
        ),
    ],
)
def test_pacing_is_checked_at_once(build: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        build(QueueSpec("jobs"))
    assert str(caught.value) == message


def test_a_queue_is_built_from_the_spec(queue_type: type[RecordingQueue]) -> None:
    spec = QueueSpec("jobs").with_qos("at-most-once")
    built: Any = spec.build_queue(name="mail", store="s")
    assert isinstance(built, queue_type)
    assert built.options == {"spec": spec, "name": "mail", "store": "s"}


def test_policies_come_from_one_place(queue_type: type[RecordingQueue]) -> None:
    with pytest.raises(ValueError) as caught:
        QueueSpec("jobs").with_dead_letter_queue().build_queue(policy_set=QueuePolicySet())
    assert str(caught.value) == ("pass queue policies via QueueSpec or build_queue(policy_set=), not both")
    QueueSpec("jobs").build_queue(policy_set=QueuePolicySet())


def test_retry_settings_come_from_one_place(queue_type: type[RecordingQueue]) -> None:
    with pytest.raises(ValueError) as caught:
        QueueSpec("jobs").with_retry(max_retries=1).build_queue(retry_defaults={"max_tries": 2})
    assert str(caught.value) == (
        "pass retry settings via QueueSpec.with_retry() or build_queue(retry_defaults=), not both"
    )
    QueueSpec("jobs").build_queue(retry_defaults={"max_tries": 2})


def test_worker_settings_are_built_from_the_spec_and_overridden() -> None:
    spec = (
        QueueSpec("jobs")
        .with_retry(max_retries=3)
        .with_release_delay(2)
        .with_min_interval(0.5)
        .with_circuit_breaker(threshold=4)
        .with_dead_letter_on_failure(False)
    )
    config = spec.build_worker_config()
    assert (config.release_delay, config.min_interval) == (2, 0.5)
    assert (config.circuit_breaker_failures, config.circuit_breaker_cooldown) == (4, 30.0)
    assert config.dead_letter_on_failure is False
    assert config.retry_kwargs == {"max_tries": 3}
    changed = spec.build_worker_config(release_delay=9, max_tries=1, dead_letter_on_failure=True)
    assert (changed.release_delay, changed.retry_kwargs) == (9, {"max_tries": 1})
    assert changed.dead_letter_on_failure is True


def test_specs_are_values() -> None:
    assert QueueSpec("jobs") == QueueSpec("jobs") != QueueSpec("mail")
    assert hash(QueueSpec("jobs").with_retry(max_retries=1)) == hash(QueueSpec("jobs").with_retry(max_retries=1))
    assert repr(QueueSpec("jobs")).startswith("QueueSpec(name='jobs'")
