"""Compare an input in Orbax's checkpoints with Grain's: lines, bytes, times, and another number of processes.

Run as `PYTHONPATH=.:adapters python benchmarks/workloads/scripts/jax_checkpoints.py`, with JAX, Orbax and Grain installed; it takes
a minute. The checkpoints hold the input alone. So most of the time is that of Orbax, which is why all savers take turns. Times are medians in
milliseconds, with quartiles: until the call returns, until the checkpoint is committed, and to restore up to and including the next item. What
happens with another number of processes is tried in one process, which pretends to be each of them in turn, as Grain's own tests do.
"""

from __future__ import annotations

import json
import logging
import platform
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import quantiles
from types import SimpleNamespace
from typing import Any, TypeAlias

import grain
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from grain._src.core import sharding
from grain.checkpoint import CheckpointHandler, CheckpointRestore, CheckpointSave
from grain.experimental import ElasticIterator, FirstFitPackIterDataset
from orbax.checkpoint import v1
from resumable_jax import InputCheckpointHandler, InputRestore, InputSave, folder

import resumable as rs

ITEMS = 4_000
CONSUMED = 10
ROUNDS = 40
PARTITIONS = 16
LENGTH = 64
COMMITTED = "commit_success.txt"  # of Orbax itself, in version 0
GLOBAL_BATCH = 16
PAIRS = [(2, 2), (2, 1), (2, 4)]

# Otherwise its threads read ahead while the state is saved, which takes longer then.
WITHOUT_THREADS = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)

SNIPPETS = {
    "resumable, version 0": """
        iterator = iter(pipeline)
        manager.save(step, args=ocp.args.Composite(input=InputSave(iterator)))
        manager.restore(step, args=ocp.args.Composite(input=InputRestore(iterator)))
    """,
    "Grain, version 0": """
        iterator = iter(dataset)
        manager.save(step, args=ocp.args.Composite(input=CheckpointSave(iterator)))
        manager.restore(step, args=ocp.args.Composite(input=CheckpointRestore(iterator)))
    """,
    "resumable, version 1": """
        iterator = iter(pipeline)
        v1.save_checkpointables(path, {"input": iterator})
        v1.load_checkpointables(path, {"input": iterator})
    """,
    "Grain, version 1": """
        iterator = iter(dataset)
        v1.save_checkpointables(path, {"input": iterator})
        v1.load_checkpointables(path, {"input": iterator})
    """,
}
"""What a user writes for an input besides the pipeline; `Saver` does the same."""


def is_kept(number: int) -> bool:
    """Keep two of three items."""
    return bool(number % 3)


def document(number: int) -> dict[str, Any]:
    """A document of up to 31 tokens, of which each names it."""
    return {"tokens": np.full(number % 31 + 1, number)}


def grain_numbers(start: int, seed: int) -> Any:
    """Shuffled numbers of Grain."""
    return grain.MapDataset.range(start, start + ITEMS).shuffle(seed=seed)


def numbers(start: int, seed: int) -> rs.Pipeline[Any]:
    """Shuffled numbers of ours."""
    return rs.range(start, start + ITEMS).shuffle(seed)


def filtered(rank: int, ranks: int) -> rs.Pipeline[Any]:
    """Filter in partitions, of which a rank reads some."""
    return numbers(0, 1).partition(PARTITIONS, lambda part: part.filter(is_kept)).shard(rank, ranks)


def packed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    """Pack in partitions, of which a rank reads some."""
    documents = numbers(0, 1).map(document)
    packs = documents.partition(PARTITIONS, lambda part: part.pack({"tokens": LENGTH}, group=8))
    return packs.shard(rank, ranks)


def grain_packed(rank: int, ranks: int) -> Any:
    """Grain packs what a rank reads."""
    documents = grain_numbers(0, 1)[rank::ranks].map(document).to_iter_dataset(WITHOUT_THREADS)
    return FirstFitPackIterDataset(
        documents, length_struct={"tokens": LENGTH}, num_packing_bins=8, shuffle_bins=False
    )


def grain_mix() -> Any:
    """The order of Grain's mix, which has random access."""
    return grain.MapDataset.mix([grain_numbers(0, 1), grain_numbers(ITEMS, 2)], weights=[3, 1])


def mixed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    """Mix two sources, and deal out what comes."""
    both = rs.mix(numbers(0, 1), numbers(ITEMS, 2), weights=[3, 1], seed=3)
    return both.shard(rank, ranks, uneven="keep").batch(8)


INPUTS: dict[str, tuple[Callable[[int, int], Any], Callable[[int, int], Any]]] = {
    "shuffle, shard, batch": (
        lambda rank, ranks: numbers(0, 1).shard(rank, ranks, uneven="keep").batch(8),
        lambda rank, ranks: (
            grain_numbers(0, 1)[rank::ranks].batch(8).to_iter_dataset(WITHOUT_THREADS)
        ),
    ),
    "filter": (
        filtered,
        lambda rank, ranks: (
            grain_numbers(0, 1)[rank::ranks].filter(is_kept).to_iter_dataset(WITHOUT_THREADS)
        ),
    ),
    "packed": (packed, grain_packed),
    "mix": (
        mixed,
        lambda rank, ranks: grain_mix()[rank::ranks].batch(8).to_iter_dataset(WITHOUT_THREADS),
    ),
}
"""For each input, how ours and Grain's is made for a rank."""


ELASTIC: dict[str, Callable[[], Any]] = {
    "shuffle, shard, batch": lambda: grain_numbers(0, 1),
    "filter": lambda: grain_numbers(0, 1).filter(is_kept),
    "packed": lambda: grain_packed(0, 1),
    "mix": grain_mix,
}
"""What Grain's experimental `ElasticIterator` deals out and groups itself."""

Moments: TypeAlias = tuple[float, float, float, float]
"""When a save began, returned and was committed, and when it was restored."""


@dataclass
class Saver:
    """One way to save an input, and what it took.

    Args:
      make: the input of the only process.
      arguments: those of version 0 to save and to restore; None for version 1.
    """

    make: Callable[[], Any]
    arguments: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None
    size: int = 0
    times: list[tuple[float, float, float]] = field(default_factory=list)

    def turn(self) -> None:
        """Save and restore once."""
        place = Path(tempfile.mkdtemp())
        try:
            iterator, other = iter(self.make()), iter(self.make())
            for _ in islice(iterator, CONSUMED):
                pass
            save_and_load = self._version_1 if self.arguments is None else self._version_0
            began, returned, committed, restored = save_and_load(place, iterator, other)
            self.times.append((returned - began, committed - began, restored - committed))
            files = [path for path in place.glob("1/input/*") if path.name != COMMITTED]
            self.size = sum(path.stat().st_size for path in files)
        finally:
            shutil.rmtree(place)

    def _version_1(self, place: Path, iterator: Any, other: Any) -> Moments:
        began = time.perf_counter()
        saving = v1.save_checkpointables_async(place / "1", {"input": iterator})
        returned = time.perf_counter()
        saving.result()
        committed = time.perf_counter()
        v1.load_checkpointables(place / "1", {"input": other})
        next(other)
        return began, returned, committed, time.perf_counter()

    def _version_0(self, place: Path, iterator: Any, other: Any) -> Moments:
        assert self.arguments is not None
        save, restore = self.arguments
        with ocp.CheckpointManager(place) as manager:
            began = time.perf_counter()
            manager.save(1, args=ocp.args.Composite(input=save(iterator)))
            returned = time.perf_counter()
            manager.wait_until_finished()
            committed = time.perf_counter()
            manager.restore(1, args=ocp.args.Composite(input=restore(other)))
            next(other)
            return began, returned, committed, time.perf_counter()


def savers(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, Saver]:
    """The ways to save an input, by the names of `SNIPPETS`."""
    return {
        "resumable, version 0": Saver(ours, (InputSave, InputRestore)),
        "Grain, version 0": Saver(theirs, (CheckpointSave, CheckpointRestore)),
        "resumable, version 1": Saver(ours, None),
        "Grain, version 1": Saver(theirs, None),
    }


def leaves(items: Iterator[Any]) -> Counter[int]:
    """The numbers in ``items``, without padding."""
    found: Counter[int] = Counter()
    for item in items:
        # Grain puts the packs and their description side by side in a dict, as ours.
        values = item["tokens"] if isinstance(item, dict) else item
        found.update(np.ravel(values).tolist())
    found.pop(0, None)  # also a padding
    return found


def pretend(rank: int, ranks: int) -> None:
    """Let this process be ``rank`` of ``ranks`` for both libraries."""
    sharding.get_process_index_and_count = lambda: (rank, ranks)
    names = {"process_index": lambda: rank, "process_count": lambda: ranks}
    vars(folder)["jax"] = SimpleNamespace(**names)


def with_others(
    make: Callable[[int, int], Any], save: Callable[..., Any], restore: Callable[..., Any]
) -> list[str]:
    """What happens for each pair of numbers of processes: those that save, and those that go on."""
    found = []
    for before, after in PAIRS:
        place = epath.Path(tempfile.mkdtemp())
        try:
            seen, whole = Counter[int](), leaves(iter(make(0, 1)))
            for rank in range(before):
                pretend(rank, before)
                iterator = iter(make(rank, before))
                seen += leaves(islice(iterator, CONSUMED))
                save(place, iterator)
            for rank in range(after):
                pretend(rank, after)
                iterator = iter(make(rank, after))
                restore(place, iterator)
                seen += leaves(iterator)
            lost, twice = (whole - seen).total(), (seen - whole).total()
            found.append(f"{lost} lost, {twice} twice" if lost or twice else "exact")
        except Exception as error:
            words = str(error).replace(str(place), "").split("\n")[0][:70]
            found.append(f"{type(error).__name__}: {words}")
        finally:
            shutil.rmtree(place)
            pretend(0, 1)
    return found


def elastic(data: Callable[[], Any]) -> Callable[[int, int], Any]:
    """Makes Grain's `ElasticIterator` of ``data`` for a rank."""
    return lambda rank, ranks: ElasticIterator(
        data(), GLOBAL_BATCH, sharding.ShardOptions(rank, ranks), read_options=WITHOUT_THREADS
    )


def save_by_hand(place: epath.Path, iterator: Any) -> None:
    """Write one file for all processes; Grain's handler would write one for each."""
    (place / "process_0.json").write_text(json.dumps(iterator.get_state()))


def restore_by_hand(place: epath.Path, iterator: Any) -> None:
    """Read that file."""
    iterator.set_state(json.loads((place / "process_0.json").read_text()))


def quartiles(seconds: list[float]) -> str:
    """Median and quartiles in milliseconds."""
    low, middle, high = (1e3 * value for value in quantiles(seconds, n=4))
    return f"{middle:.1f} ({low:.1f}-{high:.1f})"


def main() -> None:
    """Print a table."""
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", "the input in .* can be resumed by")
    names = ", ".join(f"{name} {version(name)}" for name in ("jax", "orbax-checkpoint", "grain"))
    print(f"Python {platform.python_version()}, {names}, resumable {rs.__version__}")
    print(f"{ROUNDS} rounds in turns\n")
    print("| input | saved by | lines | bytes | returns, ms | committed, ms | restored, ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (ours, theirs) in INPUTS.items():
        rows = savers(lambda ours=ours: ours(0, 1), lambda theirs=theirs: theirs(0, 1))  # type: ignore[misc]
        for row in rows.values():
            row.turn()  # the first save pays for what is done once
            row.times.clear()
        for number in range(ROUNDS):
            order = list(rows.values())
            for row in order[number % len(order) :] + order[: number % len(order)]:
                row.turn()
        for saver, row in rows.items():
            lines = len(SNIPPETS[saver].strip().splitlines())
            times = " | ".join(quartiles(list(column)) for column in zip(*row.times, strict=True))
            print(f"| {name} | {saver} | {lines} | {row.size} | {times} |")
    pairs = " | ".join(f"{before} → {after}" for before, after in PAIRS)
    print(f"\n| input | saved by | {pairs} |\n| --- | --- |{' --- |' * len(PAIRS)}")
    handler, grains = InputCheckpointHandler(), CheckpointHandler()
    for name, (ours, theirs) in INPUTS.items():
        results = {
            "resumable": with_others(ours, handler.save, handler.restore),
            "Grain": with_others(theirs, grains.save, grains.restore),
            "Grain, ElasticIterator, by hand": with_others(
                elastic(ELASTIC[name]), save_by_hand, restore_by_hand
            ),
        }
        for library, found in results.items():
            print(f"| {name} | {library} | {' | '.join(found)} |")


if __name__ == "__main__":
    main()
