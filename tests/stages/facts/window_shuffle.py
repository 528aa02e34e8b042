"""What the tests of every stage know of `WindowShuffle`."""

from __future__ import annotations

from support.facts import ENDLESS, Refusal, StageFacts
from support.samples import item_number, ten

import resumable as rs
from resumable.stages.window_shuffle import WindowShuffle
from resumable.testing.samples import columns, stream

REFUSED: list[Refusal] = [
    (lambda: ten.shuffle(0, window=0), ValueError, "window must be at least 1, got 0"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={WindowShuffle: rs.Pipeline.shuffle},
    pipelines={
        "window": lambda: stream(100).shuffle(3, window=8),
        "window of one": lambda: stream(9).shuffle(3, window=1),
        "window longer than stream": lambda: stream(9).shuffle(3, window=50),
        "window as long as stream": lambda: stream(9).shuffle(3, window=9),
        "window past snapshots": lambda: stream(1500).shuffle(3, window=20).skip(1200),
        "window epochs": lambda: stream(30).shuffle(3, window=7).repeat(3),
        "window empty": lambda: stream(0).shuffle(3, window=7),
        "window over epochs": lambda: stream(13).repeat(6).shuffle(3, window=7),
        "window carried prefetched": lambda: (
            stream(40).shuffle(3, window=8, carry=True).prefetch(2)
        ),
        "window carried": lambda: stream(60).shuffle(3, window=8, carry=True).repeat(2),
        "window carried arrays": lambda: (
            rs.from_arrays(columns()).shuffle(3, window=6, carry=True).repeat(2)
        ),
        "window carried short": lambda: stream(5).shuffle(3, window=8, carry=True),
    },
    checked=["window", "window carried"],
    behind_deals={
        "window shuffle": lambda numbers: numbers.shuffle(5, window=4),
        "window shuffle carried": lambda numbers: numbers.shuffle(5, window=4, carry=True),
    },
    around_changes={
        "shuffle in a window": lambda made: made.shuffle(3, window=5),
        "carried window": lambda made: made.map(item_number).shuffle(3, window=5, carry=True),
    },
    extremes={
        "shuffle window": lambda p, x: p.shuffle(0, window=x),
        "shuffle window seed": lambda p, x: p.shuffle(x, window=2),
        "shuffle carry": lambda p, x: p.shuffle(0, window=2, carry=x),
    },
    endless_over={"shuffle window": ENDLESS},
    refused=REFUSED,
)
