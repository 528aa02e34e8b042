"""What users of other systems ask for when the data of a run change: after their issues and tests, over files.

Records are counted by their ids. Each life of a run ends as by a kill, between two checkpoints, and the next one
trains again what came after the newest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from support.advised import advised

import resumable as rs

Batch = Mapping[str, Any]
Stages = Sequence[tuple[int, Mapping[str, float]]]
BATCH_SIZE = 5
SAVED_EVERY = 3


def write_records(folder: Path, name: str, count: int) -> Path:
    """A file of ``count`` records of one to four tokens, which have ids of their own."""
    path = folder / f"{name}.jsonl"
    records = [{"id": f"{name}-{n}", "tokens": [n + 1] * (n % 4 + 1)} for n in range(count)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def records_per_file(ids: Iterable[str]) -> dict[str, int]:
    return dict(Counter(record_id.partition("-")[0] for record_id in ids))


def each_once(counts: Mapping[str, int]) -> Counter[str]:
    """Every record of files with so many."""
    return Counter(f"{name}-{n}" for name, count in counts.items() for n in range(count))


def in_batches(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + BATCH_SIZE] for start in range(0, len(ids), BATCH_SIZE)]


class Run:
    """A training over several lives.

    Args:
      folder: of its checkpoints.

    Attributes:
      steps: the batches that the model has learned, one for each rank in each step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[tuple[Any, ...]] = []

    @property
    def ids(self) -> list[str]:
        """Of the records that the model has learned."""
        return [str(each) for step in self.steps for batch in step for each in batch["id"]]

    def live(self, *pipelines: rs.Pipeline[Any], until: int | None = None) -> None:
        """Train by a pipeline for each rank, to the end or until the kill in a step."""
        checkpointers = [
            rs.Checkpointer(
                self.folder,
                rs.EverySteps(SAVED_EVERY),
                rank=rank,
                ranks=len(pipelines),
                save_at_end=False,
            )
            for rank in range(len(pipelines))
        ]
        loops = [one.resume(each) for one, each in zip(checkpointers, pipelines, strict=True)]
        del self.steps[checkpointers[0].step :]
        for step in zip(*loops, strict=True):
            self.steps.append(step)
            if len(self.steps) == until:
                break
        for checkpointer in checkpointers:
            checkpointer.close()


def test_a_blend_is_reweighted_and_gets_shards_within_an_epoch(tmp_path: Path) -> None:
    """Megatron-LM, PR 725 and issue 457: consumed samples are counted for each shard of a blended data set.

    A training that goes on with other weights and added shards leaves out the consumed samples of each, so that none
    is repeated within the epoch and none is skipped. Without that, one index into the whole blend is all that is
    known. Here the ranks change too.
    """
    counts = {"books": 60, "web": 90, "code": 50}
    paths = {name: write_records(tmp_path, name, count) for name, count in counts.items()}

    def blended(weights: Any, names: str, ranks: int) -> list[rs.Pipeline[Batch]]:
        shards = {name: rs.jsonl(paths[name]).shuffle(1) for name in names.split()}
        blend = rs.mix(shards, weights=weights, seed=2)
        return [blend.shard(rank, ranks).batch(BATCH_SIZE) for rank in range(ranks)]

    run, weights = Run(tmp_path / "run"), dict[int, Any]({0: {"books": 4, "web": 1}})
    run.live(*blended(weights, "books web", 2), until=4)
    run.live(*blended(weights, "books web", 2), until=8)
    seen = 6 * BATCH_SIZE * 2  # up to the newest checkpoint
    assert records_per_file(run.ids[:seen]) == {"books": 48, "web": 12}
    # What is left of each, so that all end together.
    weights[seen] = {"books": 12, "web": 78, "code": 50}
    run.live(*blended(weights, "books web code", 1), until=20)
    run.live(*blended(weights, "books web code", 1))
    assert Counter(run.ids) == each_once(counts)


Mixture = Mapping[str, Mapping[str, Any]]


def of_mixtures(mixtures: Mapping[int, Mixture], folder: Path) -> rs.Pipeline[Any]:
    """The documents of the mixture that holds from each item on, as its file describes it."""
    paths = {name: one["path"] for each in mixtures.values() for name, one in each.items()}
    weights = {
        first: {name: one["weight"] for name, one in mixture.items()}
        for first, mixture in mixtures.items()
    }
    corpora = {name: rs.jsonl(folder / path).shuffle(1) for name, path in paths.items()}
    return rs.mix(corpora, weights=weights)


def mixture_file(folder: Path, name: str, **weights: float) -> Mixture:
    """A mixture that was written to a file and read again."""
    path = folder / name
    described = {
        each: {"path": f"{each}.jsonl", "weight": weight} for each, weight in weights.items()
    }
    path.write_text(json.dumps(described))
    read: Mixture = json.loads(path.read_text())
    return read


def test_a_mixture_up_to_a_step_and_then_another_one(tmp_path: Path) -> None:
    """MaxText, PR 2697: a run goes on with another file that describes the mixture of Grain data sets.

    The second file has other weights and a new source, the third one leaves a source out. What is left of the others
    goes on where it was. Grain loses what it has computed ahead then; nothing is lost here.
    """
    counts = {"ds1": 90, "ds2": 90, "ds3": 30}
    for name, count in counts.items():
        write_records(tmp_path, name, count)

    def batches(mixtures: Mapping[int, Mixture], workers: int) -> rs.Pipeline[Batch]:
        read_ahead = of_mixtures(mixtures, tmp_path).map(dict, workers=workers)
        return read_ahead.batch(BATCH_SIZE).prefetch(2)

    run = Run(tmp_path / "run")
    mixtures = {0: mixture_file(tmp_path, "mixture.json", ds1=0.4, ds2=0.6)}
    run.live(batches(mixtures, 2), until=8)
    mixtures[6 * BATCH_SIZE] = mixture_file(tmp_path, "mixture2.json", ds1=0.5, ds2=0.3, ds3=0.2)
    run.live(batches(mixtures, 0), until=17)
    run.live(batches(mixtures, 3), until=22)
    mixtures[21 * BATCH_SIZE] = mixture_file(tmp_path, "mixture3.json", ds1=0.8, ds3=0.2)
    run.live(batches(mixtures, 2), until=26)
    steps = [[str(each) for each in batch["id"]] for (batch,) in run.steps]
    assert records_per_file(chain(*steps[:6])) == {"ds1": 12, "ds2": 18}
    assert records_per_file(chain(*steps[6:16])) == {"ds1": 25, "ds2": 15, "ds3": 10}
    assert records_per_file(chain(*steps[21:26])) == {"ds1": 20, "ds3": 5}
    assert max(Counter(run.ids).values()) == 1
    for name in counts:
        # None is skipped: each source comes in its own order from the beginning.
        came = [each for each in run.ids if each.startswith(name)]
        own = [record["id"] for record in rs.jsonl(tmp_path / f"{name}.jsonl").shuffle(1)]
        assert came == own[: len(came)]


def test_packed_rows_of_a_mixture_that_changes_have_every_document_once(tmp_path: Path) -> None:
    """MaxText, PR 2697: its guide warns that documents in the buffer of the packing are skipped at such a change."""
    counts = {"ds1": 40, "ds2": 40, "ds3": 40}
    for name, count in counts.items():
        write_records(tmp_path, name, count)

    def rows(mixtures: Mapping[int, Mixture]) -> rs.Pipeline[Any]:
        numbered = of_mixtures(mixtures, tmp_path).map(as_numbers)
        return numbered.pack(8, group=4)

    run = Run(tmp_path / "run")
    mixtures = {0: mixture_file(tmp_path, "mixture.json", ds1=1, ds2=1)}
    run.live(rows(mixtures), until=8)
    second = mixture_file(tmp_path, "mixture2.json", ds1=1, ds2=1, ds3=2)
    # The documents of the row in work were read too, so only the error knows the item.
    with pytest.raises(rs.StateMismatch) as refused:
        run.live(rows({0: second}))
    told = advised(refused.value)
    assert told is not None
    mixtures[max(told)] = second
    run.live(rows(mixtures), until=14)
    run.live(rows(mixtures))
    tokens = Counter(int(token) for (row,) in run.steps for token in row["tokens"] if token)
    documents = list(of_mixtures(mixtures, tmp_path).map(as_numbers))
    assert tokens == Counter(token for document in documents for token in document)
    assert len(documents) == len({document[0] for document in documents}) > 90


def as_numbers(record: Mapping[str, Any]) -> list[int]:
    """The tokens of a record, each of which tells which record it is."""
    name, _, number = record["id"].partition("-")
    return [1000 * int(name[-1]) + int(number)] * len(record["tokens"])


def by_item(stages: Stages) -> dict[int, Mapping[str, float]]:
    """Weights from each item on, for stages that begin at batches."""
    return {BATCH_SIZE * first: weights for first, weights in stages}


Varying = Callable[[Stages], rs.Pipeline[Batch]]


@pytest.fixture
def varying(tmp_path: Path) -> Varying:
    """Batches of a mixture that varies by stages, of files that begin again where they have ended."""
    counts = {"wiki": 12, "books": 20, "code": 7}
    paths = {name: write_records(tmp_path, name, count) for name, count in counts.items()}

    def mixture(stages: Stages) -> rs.Pipeline[Batch]:
        names = [name for name in paths if any(weights.get(name) for _, weights in stages)]
        repeated = {name: rs.jsonl(paths[name]).shuffle(1).repeat() for name in names}
        return rs.mix(repeated, weights=by_item(stages), seed=3).batch(BATCH_SIZE)

    return mixture


def test_stages_have_weights_by_name_from_a_batch_on(varying: Varying) -> None:
    """Levanter, PR 868: `MixtureDataset` takes stages `[(0, weights), (step, weights)]`.

    Its tests ask for one data set in each stage, a transition exactly at the boundary, and data sets with weight 0.
    """
    stages = [(0, {"wiki": 1.0}), (4, {"books": 1.0}), (8, {"books": 0.2, "code": 0.8, "wiki": 0})]
    batches = [list(batch["id"]) for _, batch in zip(range(12), varying(stages), strict=False)]
    in_stages = [records_per_file(chain(*batches[at : at + 4])) for at in (0, 4, 8)]
    assert in_stages == [{"wiki": 20}, {"books": 20}, {"books": 4, "code": 16}]


def test_a_data_set_enters_a_mixture_of_stages_in_the_middle_of_a_run(
    varying: Varying, tmp_path: Path
) -> None:
    """Levanter, issue 698: a half-trained model goes on with 0.7 of the old mixture and 0.3 of a new data set."""
    run = Run(tmp_path / "run")
    stages: list[tuple[int, Mapping[str, float]]] = [(0, {"wiki": 0.5, "books": 0.5})]
    run.live(varying(stages), until=8)
    run.live(varying(stages), until=11)
    entering = {"wiki": 0.35, "books": 0.35, "code": 0.3}
    with pytest.raises(rs.StateMismatch) as refused:
        run.live(varying([*stages, (4, entering)]))
    told = advised(refused.value)
    assert told is not None
    assert max(told) == 9 * BATCH_SIZE  # the step of the newest checkpoint, in items
    stages.append((9, entering))
    run.live(varying(stages), until=20)
    run.live(varying(stages), until=29)
    assert records_per_file(run.ids[45:]) == {"wiki": 35, "books": 35, "code": 30}
    for name, count in {"wiki": 12, "books": 20, "code": 7}.items():
        came = [each for each in run.ids if each.startswith(name)]
        for epoch in range(0, len(came) - count, count):
            assert Counter(came[epoch : epoch + count]) == each_once({name: count})
