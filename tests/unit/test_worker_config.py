"""Worker settings are checked when they are written down."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import stop_never, wait_fixed

from localqueue.workers import PersistentWorkerConfig


def test_the_defaults_dead_letter_and_never_pause() -> None:
    config = PersistentWorkerConfig()
    assert config.dead_letter_on_failure is True
    assert config.dead_letter_on_exhaustion is True
    assert (config.release_delay, config.min_interval) == (0.0, 0.0)
    assert (config.circuit_breaker_failures, config.circuit_breaker_cooldown) == (0, 0.0)
    assert config.retry_kwargs == {}


@pytest.mark.parametrize("name", ["dead_letter_on_failure", "dead_letter_on_exhaustion"])
def test_either_name_sets_both(name: str) -> None:
    options: dict[str, Any] = {name: False}
    config = PersistentWorkerConfig(**options)
    assert config.dead_letter_on_failure is False
    assert config.dead_letter_on_exhaustion is False


def test_both_names_may_agree_but_not_differ() -> None:
    PersistentWorkerConfig(dead_letter_on_failure=False, dead_letter_on_exhaustion=False)
    with pytest.raises(ValueError) as caught:
        PersistentWorkerConfig(dead_letter_on_failure=True, dead_letter_on_exhaustion=False)
    assert str(caught.value) == (
        "pass either dead_letter_on_failure= or dead_letter_on_exhaustion=, not conflicting values"
    )


def test_other_options_are_retry_settings() -> None:
    assert PersistentWorkerConfig(max_tries=3, wait=0.5).retry_kwargs == {
        "max_tries": 3,
        "wait": 0.5,
    }


@pytest.mark.parametrize(
    "name",
    ["release_delay", "min_interval", "circuit_breaker_failures", "circuit_breaker_cooldown"],
)
def test_no_setting_is_negative(name: str) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=f"^{name} must be greater than or equal to zero$"):
        PersistentWorkerConfig(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"release_delay": float("nan")}, ValueError, "release_delay must be finite, got nan"),
        ({"min_interval": True}, TypeError, "min_interval must be a number of seconds, got True"),
        (
            {"max_trys": 3},
            TypeError,
            "PersistentWorkerConfig() got an unexpected keyword argument 'max_trys'; did you mean 'max_tries'?",
        ),
        (
            {"min_intervall": 3},
            TypeError,
            "PersistentWorkerConfig() got an unexpected keyword argument 'min_intervall'; did you mean 'min_interval'?",
        ),
        (
            {"backoff": "2"},
            TypeError,
            "backoff must be a number that each wait is multiplied by, such as 2, not '2'",
        ),
        (
            {"circuit_breaker_failures": 1.5},
            TypeError,
            "circuit_breaker_failures must be an integer, got 1.5",
        ),
        (
            {"circuit_breaker_cooldown": 1},
            ValueError,
            "circuit breaker requires circuit_breaker_failures > 0 when circuit_breaker_cooldown is set",
        ),
        (
            {"circuit_breaker_failures": 1},
            ValueError,
            "circuit breaker requires circuit_breaker_cooldown > 0 when circuit_breaker_failures is set",
        ),
    ],
)
def test_settings_no_worker_could_follow_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        PersistentWorkerConfig(**options)
    assert str(caught.value) == message


def test_overrides_win_and_leave_the_original_alone() -> None:
    base = PersistentWorkerConfig(release_delay=1, min_interval=2, max_tries=3, wait=0.5)
    changed = base.with_overrides(release_delay=5, max_tries=4, dead_letter_on_exhaustion=False)
    assert (changed.release_delay, changed.min_interval) == (5, 2)
    assert changed.retry_kwargs == {"max_tries": 4, "wait": 0.5}
    assert changed.dead_letter_on_failure is False
    assert (base.release_delay, base.retry_kwargs["max_tries"]) == (1, 3)
    assert base.with_overrides() == base


def test_overriding_when_to_stop_replaces_the_other_spelling() -> None:
    base = PersistentWorkerConfig(max_tries=3, wait=0.5)
    assert base.with_overrides(stop=stop_never).retry_kwargs == {"wait": 0.5, "stop": stop_never}


def test_overriding_the_wait_replaces_the_other_spelling() -> None:
    strategy = wait_fixed(3)
    base = PersistentWorkerConfig(wait=0.5, backoff=2, max_delay=9, max_tries=3)
    assert base.with_overrides(wait=strategy).retry_kwargs == {"wait": strategy, "max_tries": 3}
    assert base.with_overrides(wait=0.1).retry_kwargs == {"wait": 0.1, "backoff": 2, "max_delay": 9, "max_tries": 3}
    assert PersistentWorkerConfig(wait=strategy).with_overrides(backoff=2).retry_kwargs == {"backoff": 2}


def test_configs_are_values() -> None:
    assert PersistentWorkerConfig(max_tries=3) == PersistentWorkerConfig(max_tries=3)
    assert PersistentWorkerConfig(max_tries=3) != PersistentWorkerConfig(max_tries=4)
    assert hash(PersistentWorkerConfig(max_tries=3)) == hash(PersistentWorkerConfig(max_tries=3))
    assert "max_tries" in repr(PersistentWorkerConfig(max_tries=3))
    with pytest.raises(AttributeError):
        PersistentWorkerConfig().release_delay = 3  # type: ignore[misc]
