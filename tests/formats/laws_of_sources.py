"""What is tried with every source of files that a package of others reads."""

from __future__ import annotations

from itertools import islice
from typing import Any

import resumable as rs
from resumable.testing import check_stage
from resumable.testing.laws import resumes_at_every_position, resumes_for_generations


def check_laws(pipeline: rs.Pipeline[Any]) -> None:
    """Check every law, and resumes at every position.

    Raises:
      AssertionError: if one is broken.
    """
    resumes_at_every_position(pipeline)
    resumes_for_generations(pipeline, [0, 7, 1, 3])
    if len(pipeline if pipeline.random_access else []) > 3:
        check_stage(pipeline)


def items_of_two_ranks_then_three(pipeline: rs.Pipeline[Any], each: int = 7) -> list[Any]:
    """All items, of which two ranks handed out the first, ``each`` so many, and three others the rest."""
    seen = []
    for rank in range(2):
        with iter(pipeline.shard(rank, 2, uneven="keep")) as iterator:
            seen += list(islice(iterator, each))
            state = iterator.get_state()
    for rank in range(3):
        seen += pipeline.shard(rank, 3, uneven="keep").resume(rs.loads(rs.dumps(state)))
    return seen
