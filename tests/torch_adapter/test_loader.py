"""The loader resumes exactly, at every position, in a fresh process, with any workers."""

from __future__ import annotations

import itertools
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import (  # noqa: E402
    PipelineDataset,
    ResumableBatchSampler,
    ResumableDataLoader,
    ResumableSampler,
)
from support.tiers import thinned  # noqa: E402
from torch.utils.data import Dataset, get_worker_info  # noqa: E402
from torch_adapter.data import LENGTH, Rows, loader_of, plain, rest_of  # noqa: E402
from torch_adapter.processes import start  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

EPOCHS = 3
KINDS = ["map", "augmented", "pipeline", "stream"]
WORKERS = [
    {"num_workers": 0},
    *(
        {"num_workers": workers, "prefetch_factor": prefetch, "persistent_workers": persistent}
        for workers in (1, 3)
        for prefetch in (2, 4)
        for persistent in (False, True)
    ),
]


def states_along(loader: ResumableDataLoader[Any]) -> tuple[list[Any], list[Any]]:
    """All batches, and the state before the first and in the body of the loop after each."""
    batches, states = [], [loader.state_dict()]
    for _ in range(EPOCHS):
        for batch in loader:
            batches.append((loader.epoch, plain(batch)))
            states.append(loader.state_dict())
    return batches, states


def resume_elsewhere(task: list[Any], folder: Path) -> list[Any]:
    """For each (kind, options, state): all that comes, from a fresh process."""
    code = (
        "import pickle, sys\n"
        "from pathlib import Path\n"
        "from torch_adapter.data import loader_of, rest_of\n"
        "results = []\n"
        f"folder = Path({str(folder)!r})\n"
        "for kind, options, state in pickle.loads((folder / 'task').read_bytes()):\n"
        "    loader = loader_of(kind, **options)\n"
        "    loader.load_state_dict(state)\n"
        "    assert loader.state_dict() == state\n"
        f"    results.append(rest_of(loader, {EPOCHS}))\n"
        "(folder / 'results').write_bytes(pickle.dumps(results))\n"
    )
    (folder / "task").write_bytes(pickle.dumps(task))
    with (folder / "output").open("wb") as output:
        process = start(code, output)
    try:
        status = process.wait(300)
    finally:
        process.kill()
        process.stdin.close()
    assert status == 0, (folder / "output").read_text()
    results: list[Any] = pickle.loads((folder / "results").read_bytes())
    return results


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", WORKERS, ids=str)
@pytest.mark.parametrize("kind", ["map", "pipeline", "stream"])
def test_it_resumes_at_every_position_in_a_fresh_process(
    kind: str, workers: dict[str, Any], drop_last: bool, tmp_path: Path
) -> None:
    options = {**workers, "drop_last": drop_last}
    expected, states = states_along(loader_of(kind, **options))
    if kind != "stream":
        assert len(expected) == EPOCHS * (4 if drop_last else 5)
    # The workers of a pass are made anew for each position, so not all are tried in the quick tier;
    # but the last batch of each epoch is.
    ends = [n for n in range(1, len(expected)) if expected[n - 1][0] != expected[n][0]]
    assert len(ends) == EPOCHS - 1
    some = thinned(range(len(states)), 4, (kind, workers, drop_last))
    positions, task = [], []
    for position in sorted({*some, *ends}):
        # With W changed on resume, or not; from each W to all others.
        other = WORKERS[(WORKERS.index(workers) + position + 1) % len(WORKERS)]
        for resumed in (options, {**other, "drop_last": drop_last}):
            positions.append(position)
            task.append((kind, resumed, states[position]))
    results = resume_elsewhere(task, tmp_path)
    for position, one, rest in zip(positions, task, results, strict=True):
        assert rest == expected[position:], (position, one)


def test_randomness_of_a_sample_survives_a_resume(tmp_path: Path) -> None:
    test_it_resumes_at_every_position_in_a_fresh_process(
        "augmented", WORKERS[1], drop_last=False, tmp_path=tmp_path
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_workers_delivers_the_same(kind: str) -> None:
    expected = rest_of(loader_of(kind), EPOCHS)
    for workers in WORKERS[::3]:
        assert rest_of(loader_of(kind, **workers), EPOCHS) == expected


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_can_be_had_at_any_moment(kind: str, workers: int) -> None:
    loader = loader_of(kind, num_workers=workers)
    start = loader.state_dict()
    assert loader.state_dict() == start
    iterator = iter(loader)
    assert loader.state_dict() == start
    first = plain(next(iterator))
    after_one = loader.state_dict()
    assert loader.state_dict() == after_one != start
    rest = [plain(batch) for batch in iterator]
    ended = loader.state_dict()
    assert loader.epoch == 1
    assert [plain(batch) for batch in loader] != [first, *rest]
    last = loader.state_dict()
    assert loader.epoch == 2

    again = loader_of(kind, num_workers=workers)
    again.state_dict()
    for state in (after_one, after_one):  # twice in a row
        again.load_state_dict(state)
        assert [plain(batch) for batch in again] == rest
    again.load_state_dict(ended)
    assert (again.epoch, again.state_dict()) == (1, ended)
    again.load_state_dict(last)
    assert (again.epoch, again.state_dict()) == (2, last)


def test_loading_into_a_running_loader_moves_the_next_pass() -> None:
    for workers in ({"num_workers": 0}, {"num_workers": 2, "persistent_workers": True}):
        for kind in KINDS:
            loader = loader_of(kind, **workers)
            iterator = iter(loader)
            expected = [plain(next(iterator)) for _ in range(2)]
            state = loader.state_dict()
            expected = [plain(batch) for batch in iterator]
            running = iter(loader)
            next(running)
            loader.load_state_dict(state)
            with pytest.raises(rs.InvalidArgument, match="overtaken by load_state_dict"):
                next(running)
            assert loader.state_dict() == state
            assert [plain(batch) for batch in loader] == expected
            assert loader.epoch == 1


def test_a_pass_that_was_left_is_followed_by_the_next_epoch() -> None:
    for workers in ({"num_workers": 0}, {"num_workers": 2, "persistent_workers": True}):
        for kind in ("map", "pipeline"):
            whole = rest_of(loader_of(kind), EPOCHS)
            loader = loader_of(kind, **workers)
            iter(loader)  # delivers nothing
            got = []
            for _ in range(EPOCHS):
                got += [(loader.epoch, plain(batch)) for batch in itertools.islice(loader, 2)]
            assert got == [whole[0], whole[1], whole[5], whole[6], whole[10], whole[11]]


def test_the_end_of_an_epoch_can_be_resumed_with_and_without_set_epoch() -> None:
    loader = loader_of("map")
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    at_end = loader.state_dict()  # in the body of the last batch
    whole = rest_of(loader_of("map"), EPOCHS)
    for epoch, expected in ((None, whole[5:10]), (0, []), (1, whole[5:10]), (2, whole[10:])):
        again = loader_of("map")
        again.load_state_dict(at_end)
        if epoch is not None:
            again.set_epoch(epoch)
        assert [(again.epoch, plain(batch)) for batch in again] == expected


def test_set_epoch_asks_for_an_epoch_and_keeps_a_resumed_one() -> None:
    whole = rest_of(loader_of("map"), EPOCHS)
    loader = loader_of("map", num_workers=2, persistent_workers=True)
    got = []
    for epoch in (2, 0, 0, 1):
        loader.set_epoch(epoch)
        got += [(loader.epoch, plain(batch)) for batch in loader]
    assert got == whole[10:] + whole[:5] + whole[:5] + whole[5:10]
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    again = loader_of("map")
    again.load_state_dict(state)
    again.set_epoch(2)  # as a training loop does
    assert [(again.epoch, plain(batch)) for batch in again] == whole[11:]


def test_the_batch_size_may_change_on_resume() -> None:
    loader = loader_of("map")
    iterator = iter(loader)
    seen = [int(number) for _ in range(2) for number in next(iterator)[:, 0]]
    again = loader_of("map", batch_size=4)
    again.load_state_dict(loader.state_dict())
    seen += [int(number) for batch in again for number in batch[:, 0]]
    assert seen == list(rs.range(LENGTH).shuffle(1))


def test_its_bytes_resume_the_core_and_the_other_way_round() -> None:
    pipeline = rs.range(LENGTH).shuffle(1)
    loader: Any = ResumableDataLoader(Rows(), 3, shuffle=True, seed=1)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    state = rs.loads(loader.state_dict()["resumable"])
    assert list(pipeline.resume(state)) == list(pipeline)[6:]
    core = iter(pipeline)
    for _ in range(9):
        next(core)
    loader.load_state_dict({"resumable": rs.dumps(core.get_state())})
    assert [int(number) for batch in loader for number in batch[:, 0]] == list(pipeline)[9:]


def test_a_pipeline_or_a_sampler_is_the_order() -> None:
    order = rs.range(LENGTH).shuffle(1).shard(1, 2)
    expected = [Rows()[index].tolist() for index in order]
    loader: Any
    for loader in (
        ResumableDataLoader(Rows(), 4, sampler=order),
        ResumableDataLoader(Rows(), 4, sampler=ResumableSampler(order)),
        ResumableDataLoader(Rows(), batch_sampler=ResumableBatchSampler(order, 4)),
        ResumableDataLoader(Rows(), None, sampler=order),
    ):
        first = next(iter(loader))
        state = loader.state_dict()
        loader.load_state_dict(state)
        rest = [row for batch in loader for row in torch.atleast_2d(batch).tolist()]
        assert torch.atleast_2d(first).tolist() + rest == expected


def test_what_cannot_be_resumed_is_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match=r"in_order must be True: .* got False"):
        ResumableDataLoader(Rows(), in_order=False)
    with pytest.raises(rs.InvalidType, match=r"must be a PipelineDataset to be resumed"):
        ResumableDataLoader(torch.utils.data.ChainDataset([]))
    with pytest.raises(rs.InvalidType, match=r"pipeline must be a pipeline, got \[1\]"):
        PipelineDataset([1])  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match=r"can be read again"):
        PipelineDataset(rs.from_iterable(iter([1])))
    generator = torch.Generator()
    with pytest.raises(rs.InvalidArgument, match=r"generator must not be given: seed decides"):
        ResumableDataLoader(Rows(), shuffle=True, generator=generator)
    with pytest.raises(rs.InvalidArgument, match=r"generator must not be given"):
        ResumableDataLoader(
            Rows(), 1, True, None, None, 0, None, False, False, 0, None, None, generator
        )
    loader = loader_of("map", generator=None)
    before = loader.state_dict()
    other: Any = ResumableDataLoader(Rows(LENGTH + 1), 3, shuffle=True, seed=1)
    for state in (other.state_dict(), {}, {"resumable": b"junk"}, {**before, "more": 1}):
        with pytest.raises((rs.StateMismatch, rs.CorruptCheckpoint)):
            loader.load_state_dict(state)
        assert loader.state_dict() == before


class Stateful(Rows):
    """Counts the rows that it gave, and would like that to be saved."""

    given = 0

    def __getitem__(self, index: int) -> Any:
        self.given += 1
        return super().__getitem__(index)

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.given = state["given"]


def test_the_own_state_of_a_data_set_is_not_left_out_in_silence() -> None:
    def make(**options: Any) -> ResumableDataLoader[Any]:
        return ResumableDataLoader(Stateful(), 3, shuffle=True, seed=1, **options)

    batches = make()
    first = [plain(batch) for batch in batches]
    with pytest.raises(
        rs.ExternalStateError,
        match=r"Stateful has a state of its own, state_dict/load_state_dict, .* with rng_for .* 'warn'",
    ):
        batches.state_dict()
    warned = make(external_state_policy="warn")
    with pytest.warns(RuntimeWarning, match="a state of its own") as caught:
        state = warned.state_dict()
    assert caught[0].filename == __file__
    again = make(external_state_policy="ignore")
    again.load_state_dict(state)
    assert again.state_dict() == state == loader_of("map").state_dict()
    assert [plain(batch) for batch in again] == first
    with pytest.raises(rs.InvalidArgument, match="external_state_policy must be one of 'fail'"):
        make(external_state_policy="perhaps")


def test_a_state_is_small_and_flat() -> None:
    for length in (10**3, 10**12):
        sampler = ResumableSampler(length, shuffle=True)
        iterator = iter(sampler)
        for _ in range(100):
            next(iterator)
        assert len(pickle.dumps(sampler.state_dict())) < 300


def test_the_state_of_torchdata_is_called_by_its_name() -> None:
    theirs = {"_snapshot": {}, "_steps_since_snapshot": 0, "_iterator_finished": False}
    loader: ResumableDataLoader[Any] = ResumableDataLoader(list(range(9)))
    with pytest.raises(rs.StateMismatch, match="one of torchdata's StatefulDataLoader"):
        loader.load_state_dict(theirs)


class WorkerSeeds(Dataset[int]):
    """For each row, what torch seeded the worker with that made it."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        worker = get_worker_info()
        return 0 if worker is None else worker.seed % 2**62


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_leaves_the_random_numbers_of_the_model_alone(workers: int) -> None:
    torch.manual_seed(5)
    loader: ResumableDataLoader[Any] = ResumableDataLoader(WorkerSeeds(), 3, num_workers=workers)
    before, seed = torch.get_rng_state(), torch.initial_seed()
    passes = [{int(one) for batch in loader for one in batch} for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.initial_seed() == seed
    if workers:
        assert not passes[0] & passes[1], "but workers draw other numbers in each epoch"


def test_a_model_that_draws_random_numbers_is_bit_identical_after_a_resume() -> None:
    def drawn(loader: ResumableDataLoader[Any], count: int) -> list[float]:
        return [float(torch.rand(())) for _ in itertools.islice(loader, count)]

    def make() -> ResumableDataLoader[Any]:
        return ResumableDataLoader(list(range(12)), 3, shuffle=True)

    torch.manual_seed(5)
    expected = drawn(make(), 4)
    torch.manual_seed(5)
    loader = make()
    assert drawn(loader, 2) == expected[:2]
    saved = torch.get_rng_state(), loader.state_dict()
    torch.manual_seed(99)
    again = make()
    torch.set_rng_state(saved[0])
    again.load_state_dict(saved[1])
    assert drawn(again, 2) == expected[2:]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="shows no notes")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_error_of_a_function_names_its_item(num_workers: int) -> None:
    def check(sample: dict[str, int]) -> int:
        return 1 // (sample["number"] - 7)

    def keyed(number: int) -> dict[str, Any]:
        return {"__key__": f"name-{number}", "number": number}

    items = PipelineDataset(rs.range(20).shuffle(1).map(keyed).map(check))
    loader: ResumableDataLoader[Any] = ResumableDataLoader(
        items, batch_size=2, num_workers=num_workers
    )
    with pytest.raises(ZeroDivisionError) as raised:
        list(loader)
    told = "".join(traceback.format_exception(raised.value))
    assert "item 7 of Range, __key__ 'name-7', counted from 0" in told


@pytest.mark.parametrize("kind", ["pipeline", "stream"])
def test_workers_that_persist_are_not_asked_for_an_epoch_that_does_not_follow(kind: str) -> None:
    loader, late = (
        loader_of(kind, num_workers=2, persistent_workers=workers) for workers in (True, False)
    )
    late.set_epoch(4)
    next(iter(late))
    list(loader)
    loader.load_state_dict(late.state_dict())
    loader.end_epoch()
    late.end_epoch()
    assert loader.epoch == late.epoch == 5
    assert [plain(batch) for batch in loader] == [plain(batch) for batch in late]
