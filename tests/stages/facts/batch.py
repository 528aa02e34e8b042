"""What the tests of every stage know of `Batch`."""

from __future__ import annotations

import numpy as np
from support.facts import ENDLESS, Mutation, Refusal, StageFacts
from support.samples import SummedBatches, as_list, item_number, ten

import resumable as rs
from resumable.stages.batch import Batch
from resumable.testing.samples import stream

REFUSED: list[Refusal] = [
    (lambda: ten.batch(0), ValueError, "batch_size must be at least 1, got 0"),
    (lambda: stream(5).batch(2**63), ValueError, "batch_size must be at most 9223372036854775807"),
    (lambda: ten.batch(10**5000), ValueError, "batch_size must be at most.*too large to show"),
    (lambda: ten.batch(np.bool_(True)), TypeError, "batch_size must be an integer, got"),
    (lambda: ten.batch(2.0), TypeError, "batch_size must be an integer, got 2.0"),
    (lambda: ten.batch(2, drop_last=1), TypeError, "drop_last must be True or False, got 1"),
    (lambda: ten.batch(2, collate="sum"), TypeError, "collate must be callable"),
]  # fmt: skip

FACTS = StageFacts(
    built_by={Batch: rs.Pipeline.batch},
    pipelines={
        "collate stateful": lambda: rs.range(20).batch(3, collate=SummedBatches()).repeat(2),
        "batch": lambda: rs.range(23).batch(5),
        "batch drop_last": lambda: stream(23).batch(5, drop_last=True).repeat(2),
        "batch over epochs": lambda: rs.range(7).shuffle(0).repeat(5).batch(4),
        "batch collate": lambda: rs.range(23).batch(5, collate=sum),
        "batch of batches": lambda: rs.range(24).batch(3).batch(2),
        "batch of strings": lambda: rs.from_sequence(["a", None, "b"]).batch(2),
    },
    checked=["batch drop_last"],
    sharing_an_object=["collate stateful"],
    behind_deals={
        "batch": lambda numbers: numbers.batch(4),
        "batch stateful": lambda numbers: numbers.batch(4, collate=SummedBatches()),
    },
    around_changes={
        "batch": lambda made: made.batch(3, collate=as_list),
        "batches by index": lambda made: made.map(item_number).batch(3).skip(1),
    },
    extremes={
        "batch": lambda p, x: p.batch(x),
        "batch drop_last": lambda p, x: p.batch(2, drop_last=x),
        "batch of batches": lambda p, x: p.batch(x).batch(x),
    },
    endless_over={
        "batch": ENDLESS,
        "batch of batches": ENDLESS,
    },
    refused=REFUSED,
    mutations=[
        Mutation("stages/batch.py", "if length == stage.batch_size or (length", "if (length"),
        Mutation("stages/batch.py", "(rest > 0 and not self._stage.drop_last)", "(rest > 0)"),
        Mutation(
            "stages/batch.py",
            '"batch_size": IdentityField(ITEMS, hint',
            '"batch_size": IdentityField(NOTHING, hint',
        ),
    ],
)
