"""How long the tests of this package look: in the suite a moment, and always at the same examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: How many times as many examples as in the suite; 0 is the suite itself.
EFFORT = int(os.environ.get("LOCALQUEUE_FUZZ_EFFORT", "0"))


def examples(count: int) -> settings:
    """The settings of a test that looks at so many examples in the suite."""
    return settings(
        max_examples=count * max(EFFORT, 1),
        derandomize=EFFORT == 0,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )
