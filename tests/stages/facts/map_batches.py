"""What the tests of every stage know of `MapBatches`."""

from __future__ import annotations

from typing import Any

from support.facts import ENDLESS, StageFacts
from support.samples import as_list, double, fails_on_thirds, twice

import resumable as rs
from resumable.stages.map_batches import MapBatches
from resumable.testing.samples import columns, stream, without_last


def without_thirds(batch: Any) -> list[int]:
    return [int(number) for number in batch if number % 3]


FACTS = StageFacts(
    built_by={MapBatches: rs.Pipeline.map_batches},
    pipelines={
        "map_batches": lambda: rs.range(23).shuffle(1).map_batches(without_last, 4).repeat(2),
        "map_batches of columns": lambda: rs.interleave(
            rs.range(17).batch(3).unbatch(), rs.range(40, 60)
        ).map_batches(double, 4),
        "map_batches columns": lambda: rs.from_arrays(columns()).map_batches(twice, 4).batch(3),
        "map_batches workers skipping": lambda: stream(23).map_batches(
            lambda batch: [fails_on_thirds(batch[0]), *batch], 4, workers=2, on_error="skip"
        ),
        "map_batches to nothing": lambda: stream(23).map_batches(lambda batch: [], 4).repeat(2),
    },
    checked=["map_batches"],
    behind_deals={
        "map_batches": lambda numbers: numbers.map_batches(without_thirds, 5),
    },
    around_changes={
        "map batches": lambda made: made.map_batches(as_list, 4),
    },
    extremes={
        "map_batches": lambda p, x: p.map_batches(list, x),
    },
    endless_over={"map_batches": ENDLESS},
)
