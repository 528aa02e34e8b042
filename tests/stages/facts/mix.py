"""What the tests of every stage know of `Mix`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from support.facts import Mutation, Refusal, StageFacts
from support.samples import double, ten

import resumable as rs
from resumable.stages.mix import Mix
from resumable.testing.samples import stream


def changing(first: Any) -> Any:
    return {0: [1, 2], first if isinstance(first, (int, float, str)) else 9: [2, 1]}


REFUSED: list[Refusal] = [
    (lambda: rs.mix(rs.by_epoch({0: ten, 2: ten.skip(1)}), stop="cycle"), ValueError, "must not be 'cycle'"),
    (lambda: rs.mix([ten, ten]), TypeError, r"one by one, as in mix\(\*pipelines\)"),
    (lambda: rs.mix(ten, weights=[1, 2]), ValueError, "weights must be one for each of 1"),
    (lambda: rs.mix(ten, weights=[0]), ValueError, "weights must be finite and above 0, got 0"),
    (lambda: rs.mix(ten, weights=[math.nan]), ValueError, "got nan"),
    (lambda: rs.mix(ten, weights=[10**400]), ValueError, "weights must be finite and above 0, got 1000"),
    (lambda: rs.mix(ten, weights=[1j]), TypeError, "weights must be numbers, got 1j"),  # type: ignore[list-item]
    (lambda: rs.mix(ten, weights=[np.complex64(1)]), TypeError, "weights must be numbers"),
    (lambda: rs.mix(ten, weights=["1"]), TypeError, "weights must be numbers, got '1'"),  # type: ignore[list-item]
    (lambda: rs.mix(ten, weights=5), TypeError, "weights must be several numbers, got 5"),  # type: ignore[arg-type]
    (lambda: rs.mix(ten, stop="never"), ValueError, "stop must be one of 'first', 'all', 'cycle'"),
    (lambda: rs.mix(ten, rs.range(0), stop="cycle"), ValueError, r"Range\(stop=0\), which has none"),
    (lambda: rs.mix(ten, reshuffle=True), ValueError, "so it needs a seed, got seed=None"),
    (lambda: rs.mix(ten, seed=0, reshuffle=1), TypeError, "reshuffle must be True or False"),  # type: ignore[arg-type]
    (lambda: rs.mix(ten, weights={5: [1]}), ValueError, r"those from item 0 on, got \{5: \[1\]\}"),
    (lambda: rs.mix(ten, weights={0: [1], -5: [2]}), ValueError, "keys of weights must be at least 0"),
    (lambda: rs.mix(ten, weights={0: [1], 0.5: [2]}), TypeError, "keys of weights must be an integer"),  # type: ignore[arg-type]
    (lambda: rs.mix(ten, weights={0: [1], 9: [1, 2]}), ValueError, "one for each of 1 pipelines"),
    (lambda: rs.mix(ten, weights={0: 1}), TypeError, "weights must be several numbers, got 1"),  # type: ignore[arg-type]
    (lambda: rs.mix(ten, weights={0: {"a": 1}}), ValueError, "must have the names of the pipelines"),
    (lambda: rs.mix(ten, weights={0: [1], 5: [1]}, stop="all"), ValueError, "so stop must be 'first'"),
    (lambda: rs.mix(ten, ten, weights={0: [1, 0]}, stop="all"), ValueError, r"each weight must be above 0 .*\{0: \[1, 0\]\}"),
    (lambda: rs.mix(ten, seed=-1), ValueError, "seed must be at least 0, got -1"),
    (lambda: rs.mix(ten.prefetch(2), ten), ValueError, "put it after Mix"),
    (lambda: rs.mix([ten, ten]), TypeError, "pass several pipelines one by one"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Mix: rs.mix},
    pipelines={
        "mix first": lambda: rs.mix(rs.range(40), rs.range(100, 120), weights=[3, 1], seed=5),
        "mix all": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), rs.range(7), weights=[0.5, 0.3, 0.2], stop="all"
        ),
        "mix all seeded": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), weights=[1, 2], seed=1, stop="all"
        ).repeat(2),
        "mix rare": lambda: rs.mix(
            rs.range(9_000), stream(9), weights=[0.9999, 1e-4], seed=1, stop="all"
        ).skip(8_990),
        "mix rare by index": lambda: rs.mix(
            rs.range(5_000), rs.range(9), weights=[9_999, 1], stop="all"
        ).skip(4_990),
        "mix streams": lambda: rs.mix(stream(20), rs.range(100, 110), weights=[1, 2], stop="all"),
        "mix streams first": lambda: rs.mix(stream(20), rs.range(100, 110), seed=4),
        "mix shuffled": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), seed=2, stop="all"
        ).shuffle(3),
        "mix cycle": lambda: rs.mix(
            rs.range(5).shuffle(1), rs.range(100, 120), weights=[1, 2], seed=3, stop="cycle"
        ).repeat(2),
        "mix cycle streams": lambda: rs.mix(
            stream(5), stream(11).shuffle(1, window=3), rs.range(20), seed=3, stop="cycle"
        ).repeat(2),
        "mix cycle workers": lambda: rs.mix(
            stream(4).map(double, workers=2), stream(9), weights=[2, 1], stop="cycle"
        ),
        "mix reshuffled": lambda: rs.mix(
            rs.range(30), rs.range(100, 120), weights=[2, 1], seed=5, reshuffle=True
        ).repeat(3),
        "mix reshuffled streams": lambda: rs.mix(
            stream(20), rs.range(100, 110), seed=1, stop="all", reshuffle=True
        ).repeat(2),
        "mix changing": lambda: rs.mix(
            {"a": rs.range(60), "b": rs.range(100, 150)},
            weights={0: {"a": 7, "b": 3}, 24: {"a": 3, "b": 7}, 55: {"a": 5001, "b": 4999}},
            seed=2,
        ).repeat(2),
        "mix changing streams": lambda: rs.mix(
            stream(30),
            stream(4),
            weights={7: (1, 2), 0: (3, 1)},
            seed=2,
            stop="cycle",
            reshuffle=True,
        ).repeat(2),
    },
    checked=["mix all"],
    behind_deals={
        "mix": lambda numbers: rs.mix(numbers, rs.range(100, 120), seed=1, stop="all"),
        "mix until one ends": lambda numbers: rs.mix(numbers, rs.range(100, 160), weights=[3, 1]),
        "mix cycle": lambda numbers: rs.mix(
            numbers, rs.range(100, 106), seed=1, stop="cycle", reshuffle=True
        ),
        "mix of two": lambda numbers: rs.mix(numbers, numbers.map(double), weights=[1, 2]),
    },
    around_changes={
        "mix": lambda made: rs.mix(made, rs.range(900, 990), weights=[2, 1]),
        "mix, all": lambda made: rs.mix(made, rs.range(900, 905), stop="all"),
        "mix, cycling": lambda made: rs.mix(made, rs.range(900, 904), stop="cycle"),
    },
    extremes={
        "mix weight": lambda p, x: rs.mix(p, p, weights=[1, x]),
        "mix weights": lambda p, x: rs.mix(p, p, weights=x),
        "mix seed": lambda p, x: rs.mix(p, p, seed=x, stop="all"),
        "mix stop": lambda p, x: rs.mix(p, p, stop=x),
        "mix cycle": lambda p, x: rs.mix(p, rs.range(3), weights=[1, x], stop="cycle"),
        "mix changing": lambda p, x: rs.mix(p, p, weights=changing(x)),
        "mix changing weights": lambda p, x: rs.mix(p, p, weights={0: x, 9: [1, x]}, seed=0),
        "mix reshuffled": lambda p, x: rs.mix(p, p, seed=x, weights=[1, 2], reshuffle=True),
        "mix with endless": lambda p, x: rs.mix(p, rs.range(3).repeat(), p, weights=[1, 4095, x]),
    },
    refused=REFUSED,
    mutations=[
        Mutation(
            "stages/mix_iterator.py", "self._leaves_out = leaves_out", "self._leaves_out = True"
        ),
        Mutation(
            "stages/mix_iterator.py",
            "self._turn_after(place + self._leaves_out)",
            "self._turn_after(place)",
        ),
        Mutation("stages/mix_iterator.py", "not leaves_out and last is None", "False"),
        Mutation(
            "stages/cycle.py", "if upstream.in_first_epoch]", "if not upstream.in_first_epoch]"
        ),
        Mutation("stages/cycle.py", "and not self._unfinished():", "and False:"),
        Mutation(
            "stages/cycle.py", "not (self._waits and self.in_first_epoch) and super()", "super()"
        ),
        Mutation("stages/mix.py", "max([first, *self._ends(known)])", "min(self._ends(known))"),
        Mutation("stages/mix_iterator.py", "any(had_turns[len(saved) :])", "False"),
        Mutation("stages/mix.py", "turns_before(last + 1)", "turns_before(last)"),
    ],
)
