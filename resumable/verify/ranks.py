"""Whether another number of ranks continues the global order of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, final

from ..checkpoint.directory import Directory
from ..checkpoint.reading import newest_valid
from ..core.fingerprint import fingerprint
from ..core.graph import cut_after, tuned, walk
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..stages.shard import Shard
from .digest import DIGEST_BYTES, item_digest
from .processes import ProcessTask, TaskProcesses, first_error
from .reasons import RANKS_DIFFER
from .report import Finding
from .runs import Digests, Watch
from .work import Resumed, WholeRuns, Work


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
    stage: Stage[Any], number: int, counts: list[int], workers: TaskProcesses, limit: int | None
) -> Finding | str | None:
    """Save the shard ``number`` halfway, and resume it with each of ``counts`` ranks.

    Returns what is wrong, or a text that says why it could not be checked.
    """
    shard, path = [*walk(stage)][number]
    assert isinstance(shard, Shard)
    order = Digests(workers.new_file())
    own = Digests(workers.new_file())
    folder = workers.new_folder()
    plain = [
        workers.run(ProcessTask(WholeRuns(limit, order.path), number + 1)),
        workers.run(ProcessTask(WholeRuns(limit, own.path), number)),
    ]
    if (failure := first_error(plain)) is not None:
        return failure
    rounds = len(order) // shard.count // 2
    position = rounds * shard.count
    saved = workers.run(ProcessTask(Resumed(folder, own, rounds, (rounds,)), number))
    work = [ResumeOnRanks(folder, count, order.after(position)) for count in counts]
    outcomes = [workers.run(ProcessTask(one, number)) for one in work]
    # An error of a resume is a finding, unless its process died.
    if (failure := first_error([saved, *(one for one in outcomes if one.died)])) is not None:
        return failure
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    different = [outcome.result for outcome in outcomes if outcome.result is not None]
    if not errors and not different:
        return None
    item = position + different[0] if different else None
    return Finding.of(RANKS_DIFFER, shard, path, *errors[:1], position=position, item=item)


@final
@dataclass(frozen=True)
class ResumeOnRanks(Work):
    """Resume the shard, the last stage, with ``count`` ranks from the checkpoint in ``folder``.

    ``expected`` are the digests of the global order after the checkpoint. The items that the ranks
    deliver in turns are compared with them, up to the last whole round. Gives the number of the first
    item that differs; None if none does.
    """

    folder: str
    count: int
    expected: Digests

    def do(self, stage: Stage[Any], watch: Watch) -> int | None:
        assert isinstance(stage, Shard)
        checkpoint = newest_valid(Directory(self.folder))
        assert checkpoint is not None
        wanted = self.expected.read()
        rounds = len(wanted) // DIGEST_BYTES // self.count
        dealt: list[Sequence[bytes]] = []
        for index in range(self.count):
            rank = replace(stage, index=index, count=self.count)
            with Pipeline(rank).resume(checkpoint.state) as iterator:
                dealt.append([item_digest(item) for item in islice(iterator, rounds)])
        for number in range(rounds * self.count):
            turn, index = divmod(number, self.count)
            at = number * DIGEST_BYTES
            if dealt[index][turn : turn + 1] != [bytes(wanted[at : at + DIGEST_BYTES])]:
                return number
        return None
