"""Whether another number of ranks continues the global order of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, final

from ..checkpoint.checkpointer import Checkpointer
from ..pipeline import Pipeline
from ..stage import Stage, fingerprint, walk
from ..stages.shard import Shard
from ..triggers import AtEnd
from .digest import DIGEST_BYTES, item_digest
from .graph import cut_after, tuned
from .processes import Task, Workers
from .report import Finding
from .work import Passes, Resumed, Watch, Work

__all__ = ["Ranks", "RanksDiffer", "check_ranks", "other_counts", "ranks_may_change", "shards"]


def shards(stage: Stage[Any]) -> list[tuple[int, Shard[Any]]]:
    """The shards of a pipeline, by their numbers."""
    return [(n, found) for n, (found, _) in enumerate(walk(stage)) if isinstance(found, Shard)]


def other_counts(shard: Shard[Any]) -> list[int]:
    """Numbers of ranks to resume with."""
    return sorted({1, shard.count + 1} - {shard.count})


def ranks_may_change(stage: Stage[Any], number: int) -> bool:
    """Whether the whole pipeline takes a state of the shard ``number`` with other ranks."""
    shard = cut_after(stage, number)
    assert isinstance(shard, Shard)
    other = tuned(stage, {number: {"index": 0, "count": shard.count + 1}})
    return fingerprint(other) == fingerprint(stage)


def check_ranks(
    stage: Stage[Any], number: int, counts: list[int], workers: Workers, limit: int | None
) -> Finding | None:
    """Save the shard ``number`` halfway, and resume it with each of ``counts`` ranks."""
    shard, path = [*walk(stage)][number]
    assert isinstance(shard, Shard)
    finding = Finding(
        "ranks differ",
        shard.label,
        path,
        "",
        "Check the stages before it with resumable.testing.check_stage.",
    )
    order = workers.run(Task(Passes(limit), cut=number + 1))
    if order.error is not None:
        return replace(finding, evidence=order.error)
    digests = order.result[0].digests
    rounds = len(digests) // DIGEST_BYTES // shard.count // 2
    position = rounds * shard.count
    folder = workers.new_folder()
    own = b"".join(
        digests[(turn * shard.count + shard.index) * DIGEST_BYTES :][:DIGEST_BYTES]
        for turn in range(rounds)
    )
    saved = workers.run(Task(Resumed(folder, own, rounds, (rounds,)), cut=number))
    if saved.error is not None:
        return replace(finding, evidence=saved.error)
    rest = digests[position * DIGEST_BYTES :]
    for count in counts:
        outcome = workers.run(Task(Ranks(folder, count, rest), cut=number))
        if outcome.error is not None:
            return replace(finding, position=position, evidence=outcome.error)
        if outcome.result is not None:
            return replace(
                finding,
                evidence=f"Resumed with {count} ranks they do not continue the global order.",
                position=position,
                item=position + outcome.result.number,
            )
    return None


@final
@dataclass(frozen=True)
class RanksDiffer:
    """The first item of the global order that a rank does not deliver in its turn."""

    number: int


@final
@dataclass(frozen=True)
class Ranks(Work):
    """Resume the shard, the last stage, with ``count`` ranks from the checkpoint in ``folder``.

    ``expected`` are the digests of the global order from the round on at which that was saved.
    What their turns give is compared with it up to its last whole round. None if they agree.
    """

    folder: str
    count: int
    expected: bytes

    def do(self, stage: Stage[Any], watch: Watch) -> RanksDiffer | None:
        assert isinstance(stage, Shard)
        checkpoint = Checkpointer(self.folder, AtEnd()).latest()
        assert checkpoint is not None
        rounds = len(self.expected) // DIGEST_BYTES // self.count
        dealt: list[Sequence[bytes]] = []
        for index in range(self.count):
            rank = replace(stage, index=index, count=self.count)
            with Pipeline(rank).resume(checkpoint.state) as iterator:
                dealt.append([item_digest(item) for item in islice(iterator, rounds)])
        for number in range(rounds * self.count):
            turn, index = divmod(number, self.count)
            wanted = self.expected[number * DIGEST_BYTES :][:DIGEST_BYTES]
            if dealt[index][turn : turn + 1] != [wanted]:
                return RanksDiffer(number)
        return None
