"""An error that comes only once is raised, whoever met it, and the next call tries the same item again."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import resumable as rs
from resumable.workers.failure import Failure

ITEMS = 40
BAD = 14

processes = pytest.mark.skipif(find_spec("loky") is None, reason="loky is not installed")
EXECUTORS = ["none", "thread", "own", pytest.param("process", marks=processes)]

STAGES: dict[str, Callable[..., rs.Pipeline[int]]] = {
    "map": lambda fn, **options: rs.range(ITEMS).map(fn, **options),
    "partition": lambda fn, **options: rs.range(ITEMS).partition(
        4, lambda part: part.map(fn), **options
    ),
    "filter in a partition": lambda fn, **options: rs.range(ITEMS).partition(
        4, lambda part: part.filter(lambda item: fn(item) >= 0), **options
    ),
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stage", STAGES)
def test_an_error_that_comes_once_is_raised_after_the_items_before_it(
    stage: str, executor: str, tmp_path: Path
) -> None:
    marker = tmp_path / "raised"

    class OfThisTest(Exception):
        """Such a class is not found by name."""

    def fn(item: int) -> int:
        if item == BAD and not marker.exists():
            marker.touch()
            raise OfThisTest("once")
        return item

    with ThreadPoolExecutor(2) as pool:
        options: dict[str, Any] = {} if executor == "none" else {"workers": 2}
        if executor != "none":
            options["executor"] = pool if executor == "own" else executor
        got: list[int] = []
        with iter(STAGES[stage](fn, **options)) as iterator:
            with pytest.raises(Exception, match="once") as raised:
                got.extend(iterator)  # which keeps what came before an error
            assert len(got) == BAD == iterator.step
            assert type(raised.value).__name__ == "OfThisTest"
            assert "in fn\n" in "".join(traceback.format_exception(raised.value))
            assert got + list(iterator) == list(range(ITEMS))


def test_what_is_passed_over_raises_no_error() -> None:
    def fn(item: int) -> int:
        return 1 // (item - BAD)

    with ThreadPoolExecutor(1) as pool:
        numbers = rs.range(ITEMS).map(fn, workers=1, executor=pool)
        for taken in range(BAD + 1):
            with iter(numbers) as iterator:
                iterator.pull(taken)
                assert iterator.skip(BAD + 1 - taken) == BAD + 1 - taken
                assert list(iterator) == [fn(item) for item in range(BAD + 1, ITEMS)]


def test_an_error_that_cannot_be_sent_is_described() -> None:
    class Stubborn(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not this one")

    make, (packed, trace) = Failure(Stubborn("why")).__reduce__()
    assert "Stubborn: why (this exception cannot be pickled: not this one)" in str(
        make(packed, trace).error
    )
