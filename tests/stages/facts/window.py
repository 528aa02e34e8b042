"""What the tests of every stage know of `Window`."""

from __future__ import annotations

from support.facts import ENDLESS, StageFacts
from support.samples import as_list, item_number

import resumable as rs
from resumable.stages.window import Window
from resumable.testing.samples import columns, stream

FACTS = StageFacts(
    built_by={Window: rs.Pipeline.window},
    pipelines={
        "windows": lambda: rs.range(23).shuffle(1).window(5, shift=2).repeat(2),
        "windows of columns shuffled": lambda: (
            rs.from_arrays(columns()).window(4, shift=3, drop_last=True).shuffle(1).batch(2)
        ),
        "windows of a stream": lambda: stream(23).window(4, shift=3).repeat(2),
        "windows drop_last": lambda: stream(23).window(6, shift=2, drop_last=True).repeat(2),
        "windows with gaps": lambda: stream(23).window(2, shift=5).repeat(2),
        "windows longer than stream": lambda: stream(3).window(9),
        "windows of nothing": lambda: stream(0).window(3, shift=1).repeat(2),
    },
    checked=["windows of a stream"],
    behind_deals={
        # Windows that share items may begin anywhere, so their size and the ranks may change; then some
        # items are in more or fewer windows than before, and there is nothing to compare with.
        "window": lambda numbers: numbers.window(4),
    },
    around_changes={
        "window": lambda made: made.map(item_number).window(4, shift=3).map(as_list),
    },
    extremes={
        "window": lambda p, x: p.window(x),
        "window shift": lambda p, x: p.window(2, shift=x, drop_last=True),
    },
    endless_over={
        "window": ENDLESS,
        "window shift": {"endless stream"},
    },
)
