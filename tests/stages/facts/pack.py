"""What the tests of every stage know of `BestFitPack` and `ConcatenatePack`."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.facts import ENDLESS, StageFacts
from support.samples import (
    document,
    exotic_fields,
    floats,
    inputs_and_targets,
    item_number,
    length_of_document,
    tokens,
    two_fields,
)

import resumable as rs
from resumable.stages.pack import BestFitPack, ConcatenatePack
from resumable.testing.samples import stream


def as_tokens(item: Any) -> np.ndarray[Any, Any]:
    return np.arange(item_number(item) % 7)


FACTS = StageFacts(
    built_by={BestFitPack: rs.Pipeline.pack, ConcatenatePack: rs.Pipeline.pack},
    pipelines={
        "pack": lambda: rs.range(40).map(document).pack(16, group=9).repeat(2),
        "pack short rows": lambda: stream(40).map(document).pack(5, group=4, tail="short"),
        "pack fields": lambda: (
            stream(20).map(two_fields).pack(16, pad={"x": -1, "y": 7}, group=7).batch(2)
        ),
        "pack any dtype": lambda: (
            stream(20)
            .map(exotic_fields)
            .pack(16, pad={"mask": True, "weights": -0.5, "vectors": 0}, group=7)
        ),
        "pack concatenated any dtype": lambda: (
            stream(20).map(exotic_fields).pack(7, how="concatenate", group=3).repeat(2)
        ),
        "pack concatenated": lambda: (
            rs.range(40).map(document).pack(16, how="concatenate", group=9).repeat(2)
        ),
        "pack concatenated short": lambda: (
            stream(40).map(document).pack(5, how="concatenate", group=4, tail="short").repeat(2)
        ),
        "pack fields of their own lengths": lambda: (
            stream(30).map(inputs_and_targets).pack({"inputs": 16, "targets": 9}, group=7).batch(2)
        ),
        "pack concatenated fields": lambda: (
            rs.range(30)
            .map(inputs_and_targets)
            .pack({"inputs": 11, "targets": 9}, how="concatenate", group=4, tail="short")
            .repeat(2)
        ),
        "pack with options": lambda: (
            stream(40)
            .map(document)
            .pack(16, align=4, bos=-1, eos=-2, max_documents=3, shuffle_rows=5, group=9)
            .repeat(2)
        ),
        "pack concatenated with options": lambda: (
            rs.range(30)
            .map(inputs_and_targets)
            .pack(
                {"inputs": 12, "targets": 10},
                how="concatenate",
                align={"inputs": 4},
                bos={"inputs": -1},
                eos=-2,
                max_documents=3,
                group=4,
            )
            .repeat(2)
        ),
        "pack per document": lambda: (
            stream(30)
            .map(inputs_and_targets)
            .pack({"inputs": 16, "targets": 9}, per_document=["id"], parts=True, group=7)
            .repeat(2)
        ),
        "pack concatenated per document": lambda: (
            rs.range(30)
            .map(inputs_and_targets)
            .pack(
                7,
                how="concatenate",
                key="inputs",
                pad={"inputs": 0, "targets": None},
                per_document=["id", "targets"],
                max_documents=4,
                parts=True,
                group=4,
            )
            .repeat(2)
        ),
        "pack planned from lengths": lambda: (
            rs.range(40)
            .shuffle(3)
            .map(document)
            .pack(16, lengths=rs.range(40).shuffle(3).map(length_of_document), group=9)
            .repeat(2)
        ),
        "pack nothing": lambda: stream(3).map(lambda item: []).pack(5).repeat(2),
    },
    checked=["pack", "pack concatenated"],
    behind_deals={
        "pack": lambda numbers: numbers.map(document).pack(16, group=4),
        "pack concatenated": lambda numbers: numbers.map(document).pack(
            16, how="concatenate", group=4
        ),
        "pack with options": lambda numbers: numbers.map(document).pack(
            16, align=4, bos=-1, max_documents=3, group=4
        ),
        "pack fields": lambda numbers: numbers.map(inputs_and_targets).pack(
            {"inputs": 16, "targets": 12}, how="concatenate", per_document=["id"], group=4
        ),
    },
    around_changes={
        "pack": lambda made: made.map(as_tokens).pack(8, group=3),
        "packed whole": lambda made: made.map(as_tokens).pack(8, how="concatenate"),
    },
    extremes={
        "pack": lambda p, x: p.map(tokens).pack(4, group=x),
        "pack bos": lambda p, x: p.map(tokens).pack(8, group=4, bos=x),
        "pack eos of a field": lambda p, x: p.map(floats).pack({"x": 8}, group=4, eos={"x": x}),
        "pack align": lambda p, x: p.map(tokens).pack(8, group=4, align=x),
        "pack max_documents": lambda p, x: p.map(tokens).pack(8, group=4, max_documents=x),
        "pack per_document": lambda p, x: p.map(floats).pack(
            8, group=4, per_document=x, parts=True
        ),
        "pack parts": lambda p, x: p.map(tokens).pack(8, group=4, max_documents=3, parts=x),
        "pack shuffle_rows": lambda p, x: p.map(tokens).pack(8, group=4, shuffle_rows=x),
        "pack pad": lambda p, x: p.map(tokens).pack(8, group=4, pad=x),
        "pack pad of a field": lambda p, x: p.map(tokens).pack(8, group=4, pad={"tokens": x}),
    },
    endless_over={"pack": ENDLESS},
)
