"""How often work is tried again after a worker has died over it."""

from __future__ import annotations

import pytest

from resumable.workers.watching import Call
from resumable.workers.worker_deaths import (
    DROPPING_MAP,
    PARTITIONS,
    RAISING_MAP,
    Deaths,
    RetryPolicy,
)

ONE, OTHER = Call((0, 0, 1), "one"), Call((0, 0, 2), "other")


@pytest.mark.parametrize(
    ("policy", "calls", "tries"),
    [
        (RAISING_MAP, [None], 1),
        (DROPPING_MAP, [None], 2),
        (PARTITIONS, [ONE], 2),
        (PARTITIONS, [None], 2),
        (PARTITIONS, [ONE, OTHER], 4),
        (PARTITIONS, [OTHER, None, ONE, ONE], 4),
        (PARTITIONS, [OTHER, ONE, ONE], 3),
    ],
)
def test_deaths_in_the_same_call_are_the_fault_of_that_call(
    policy: RetryPolicy, calls: list[Call | None], tries: int
) -> None:
    deaths = Deaths(policy)
    for _ in range(policy.together):
        assert not deaths.go_alone
        deaths = deaths.and_one(alone=False, call=ONE)
    for number in range(tries):
        assert deaths.go_alone
        assert not deaths.too_many
        deaths = deaths.and_one(alone=True, call=calls[number % len(calls)])
    assert deaths.too_many
    assert deaths.count == policy.together + tries
