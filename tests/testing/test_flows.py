"""A stage that says something else of its items than is true is found out by the law, and by `check_stage`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, partialmethod
from typing import Any

import pytest

import resumable as rs
from resumable.core import Held, Permuted, Relation, Same, unpack, unpack_count
from resumable.core.relation import Kept, Repeated
from resumable.testing import check_stage
from resumable.testing.flows import items_flow_as_declared

NUMBERS = rs.range(12)
LIKE: dict[str, rs.Pipeline[Any]] = {
    "the same": NUMBERS.prefetch(0),
    "mapped": NUMBERS.map(lambda item: item * 2),
    "numbered": NUMBERS.enumerate(),
    "filtered": NUMBERS.filter(lambda item: item % 3),
    "first": NUMBERS.take(7),
    "all but first": NUMBERS.skip(5),
    "of a rank": NUMBERS.shard(1, 3),
    "of a rank that drops the last": rs.range(11).shard(1, 3),
    "padded": rs.range(10).shard(1, 3, uneven="pad"),
    "left out": NUMBERS.exclude([3, 7]),
    "shuffled": NUMBERS.shuffle(1),
    "shuffled in a window": NUMBERS.shuffle(1, window=4),
    "drawn": NUMBERS.sample([1, 0, *[2] * 10], count=20),
    "repeated": NUMBERS.repeat(2),
    "a stream repeated": NUMBERS.filter(lambda item: item % 3).repeat(2),
    "expanded": NUMBERS.flat_map(lambda item: [item, -1]),
    "expanded to two": NUMBERS.flat_map(lambda item: [item, -1], size=2),
    "concatenated": rs.concatenate(rs.range(3), rs.range(100, 104)),
    "mixed": rs.mix(rs.range(5), rs.range(100, 104), seed=0, stop="all"),
    "cycled": rs.mix(rs.range(9), rs.range(100, 102), seed=0, stop="cycle"),
    "in turn": rs.interleave(rs.range(3), rs.range(100, 104)),
    "zipped": rs.zip(NUMBERS, rs.range(20)),
    "batched": NUMBERS.batch(5),
    "in windows": NUMBERS.window(4, shift=2),
    "in windows with gaps": NUMBERS.window(2, shift=5, drop_last=True),
}
SAYS_SAME = partial(Same, in_order=True)
FALSE: list[tuple[str, dict[str, Any], str]] = [
    ("mapped", {"unchanged": True}, "Same: item 1 is not item 1 of input 0"),
    ("numbered", {"alone": True}, "alone Same, of every second item"),
    ("filtered", {"relation": SAYS_SAME}, "unchanged alone Same: item 0 is 1, expected 0"),
    ("filtered", {"unchanged": False, "relation": SAYS_SAME}, "made 8 items of 12"),
    ("first", {"alone": True}, "alone Sliced, by every second item, handed out more"),
    (
        "first",
        {"unchanged": True, "relation": partial(Held, like=Permuted)},
        "Permuted handed out less",
    ),
    ("shuffled in a window", {"relation": partial(Held, like=Kept)}, "Kept handed out more"),
    ("shuffled in a window", {"relation": SAYS_SAME}, "a stage that is unchanged Same"),
    (
        "shuffled in a window",
        {"relation": partial(Held, like=Repeated)},
        "a stage that is unchanged Repeated",
    ),
    (
        "a stream repeated",
        {"unchanged": True, "relation": partial(Held, like=Permuted)},
        "Permuted handed out more",
    ),
    ("expanded", {"unchanged": True}, "unchanged Held handed out more"),
    ("expanded", {"relation": partial(Held, like=Same)}, "Same made 24 items of 12"),
]


@pytest.mark.parametrize("name", LIKE)
def test_stages_that_say_what_they_do_obey_the_law(name: str) -> None:
    items_flow_as_declared(LIKE[name])


@pytest.mark.parametrize(("name", "said", "told"), FALSE)
def test_a_stage_that_does_something_else_breaks_it(
    name: str, said: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = LIKE[name].stage
    for member, value in said.items():
        monkeypatch.setattr(type(stage), member, partialmethod(value) if callable(value) else value)
    with pytest.raises(AssertionError, match=told):
        items_flow_as_declared(rs.Pipeline(stage._with_inputs(stage.inputs)))


@dataclass(frozen=True, eq=False, repr=False)
class Differences(rs.Transform[int]):
    """Each item less the one before it, which a stage whose items stand alone cannot know."""

    alone = True

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, in_order=True)

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return DifferencesIterator(self, epoch)


class DifferencesIterator(rs.TransformIterator[int]):
    last = 0

    def pull(self, count: int) -> list[int]:
        made = []
        for item in self._upstream.pull(count):
            made.append(int(item) - self.last)
            self.last = int(item)
        return made

    def get_state(self) -> Any:
        return {"last": self.last, "upstream": self._upstream.get_state()}

    def set_state(self, state: Any) -> None:
        last, upstream = unpack(self._stage, state, "last", "upstream")
        self.last = unpack_count(self._stage, "last", last)
        self._upstream.set_state(upstream)


def test_check_stage_tries_it() -> None:
    with pytest.raises(AssertionError, match="alone Same, of every second item"):
        check_stage(rs.range(20).apply(Differences))
