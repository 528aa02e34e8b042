"""The files that several processes save of one input bring any number of processes on exactly, or are refused."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.behind_deals import DEALS, TAILS, Deal, leaves, shown
from support.input_files import FOLDER, Saved, resumed, saved_by, state_in
from support.samples import is_no_third
from support.tiers import is_deep, thinned

import resumable as rs
from resumable.checkpoint.envelope import HEADER, MAGIC, decode
from resumable.checkpoint.files import write_if_new
from resumable.checkpoint.input_folder import (
    InputFile,
    check_one_checkpoint,
    check_same,
    input_file,
    part_for,
    saved_input,
)
from resumable.checkpoint.names import parse_file_name
from resumable.checkpoint.ranks.part import WHOLE, RankPart
from resumable.stages.global_order import differs_by_rank

NUMBERS = rs.range(97).shuffle(2)


def batched(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.shard(rank, ranks, uneven="keep").map(graphs.double)


def filtered(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.shard(rank, ranks, uneven="keep").filter(is_no_third)


def in_partitions(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.partition(8, lambda part: part.filter(is_no_third)).shard(rank, ranks)


def packed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    documents = NUMBERS.map(graphs.document)
    return documents.partition(8, lambda part: part.pack(16, group=4)).shard(rank, ranks)


def filtered_first(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.filter(is_no_third).shard(rank, ranks, uneven="keep")


JOINED: dict[str, Deal] = {
    "shard": batched,
    "filter, shard": filtered_first,
    "partition with a filter": in_partitions,
    "partition with pack": packed,
}
OWN: dict[str, Deal] = {
    "filter": filtered,
    "scan": lambda rank, ranks: TAILS["scan"](batched(rank, ranks)),
    "window with carry": lambda rank, ranks: TAILS["window shuffle carried"](batched(rank, ranks)),
    "pack": lambda rank, ranks: TAILS["pack"](NUMBERS.shard(rank, ranks, uneven="keep")),
}


def starting(made: Deal, ranks: int) -> list[rs.PipelineIterator[Any]]:
    return [iter(made(rank, ranks)) for rank in range(ranks)]


@pytest.mark.parametrize("name", JOINED)
@given(data=st.data())
def test_any_number_of_processes_goes_on_from_the_files_of_any_other(
    name: str, data: st.DataObject
) -> None:
    made = JOINED[name]
    ranks = data.draw(st.integers(1, 5), "ranks")
    seen: list[Any] = []
    iterators = starting(made, ranks)
    for then in data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3)):
        # Ranks take as many items each, unless one has come to its end.
        cut = data.draw(st.integers(1, 12), "cut")
        saved = saved_by(iterators, [cut] * ranks)
        assert len(saved.files) == (ranks if "partition" in name else 1)
        seen += saved.delivered
        iterators, ranks = resumed(saved.files, made, then), then
    seen += chain.from_iterable(iterators)
    assert leaves(seen) == leaves(made(0, 1))


@given(ranks=st.integers(1, 5), others=st.integers(1, 5), cut=st.integers(1, 25))
def test_behind_shard_each_process_goes_on_in_the_order_of_all(
    ranks: int, others: int, cut: int
) -> None:
    order = list(batched(0, 1))
    saved = saved_by(starting(batched, ranks), [cut] * ranks)
    (file,) = saved.files.values()
    assert decode(file).part == WHOLE
    for rank, iterator in enumerate(resumed(saved.files, batched, others)):
        assert list(iterator) == order[min(cut * ranks, len(order)) :][rank::others]


def test_behind_shard_every_process_has_the_same_file_and_one_may_write_it_for_all() -> None:
    written = set()
    for rank in range(3):
        with iter(batched(rank, 3)) as iterator:
            next(iterator)
            file = input_file(iterator, iterator.get_state, 1, rank, 3)
            assert file.is_shared
            written.add((file.name, rs.dumps(decode(file.data).state)))
    assert len(written) == 1


def test_the_only_process_writes_a_whole_checkpoint_that_nobody_shares() -> None:
    with iter(filtered(0, 1)) as iterator:
        file = input_file(iterator, iterator.get_state, 0, 0, 1)
    assert (file.name, file.is_shared) == ("input-000000000000.ckpt", False)


CASES = [
    pytest.param(deal, tail, id=f"{deal}-{tail}")
    for number, tail in enumerate(TAILS)
    for place, deal in enumerate(DEALS)
    if is_deep() or number % len(DEALS) == place
]


@pytest.mark.parametrize(("deal", "tail"), thinned(CASES, 20, "files"))
def test_behind_each_deal_each_stage_goes_on_from_its_files_exactly_or_is_refused(
    deal: str, tail: str
) -> None:
    def made(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return TAILS[tail](DEALS[deal](rank, ranks))

    whole = [list(made(rank, 2)) for rank in range(2)]
    for cut in thinned(range(1, 40, 2), 2, (deal, tail)):
        saved = saved_by(starting(made, 2), [cut, cut])
        assert len(saved.files) == (2 if differs_by_rank(made(0, 2).stage) else 1)
        for rank, iterator in enumerate(resumed(saved.files, made, 2)):
            assert shown(iterator) == shown(whole[rank][cut:])
        for ranks in (1, 3):
            try:
                iterators = resumed(saved.files, made, ranks)
            except rs.StateMismatch:
                continue
            rest = [item for iterator in iterators for item in iterator]
            assert leaves([*saved.delivered, *rest]) == leaves(chain.from_iterable(whole))


@pytest.mark.parametrize("name", OWN)
@given(cut=st.integers(1, 11), ranks=st.integers(2, 4))
def test_stages_that_hold_items_of_their_rank_go_on_with_as_many_each_from_its_own(
    name: str, cut: int, ranks: int
) -> None:
    made = OWN[name]
    saved = saved_by(starting(made, ranks), [cut] * ranks)
    assert len(saved.files) == ranks
    whole = [list(made(rank, ranks)) for rank in range(ranks)]
    if len({rs.dumps(state) for state in states_in(saved)}) > 1 and cut < min(map(len, whole)):
        for rank in range(ranks):
            pipeline = made(rank, ranks)
            with pytest.warns(RuntimeWarning, match=f"{FOLDER} can be resumed by {ranks} ranks"):
                state = state_in(saved.files, pipeline, rank, ranks)
            assert shown(pipeline.resume(state)) == shown(whole[rank][cut:])
        for others in {1, 2, 3, 5} - {ranks}:
            with pytest.raises(rs.StateMismatch, match=f"{FOLDER} of {ranks} ranks"):
                state_in(saved.files, made(0, others), 0, others)


def states_in(saved: Saved) -> list[Any]:
    """The states of the parts without what every rank has of its own."""
    return [decode(data).state["pipeline"] for data in saved.files.values()]


@pytest.mark.parametrize("made", [batched, in_partitions, filtered])
def test_ranks_that_have_come_to_their_ends_earlier_are_part_of_the_checkpoint(made: Deal) -> None:
    whole = [list(made(rank, 3)) for rank in range(3)]
    longest = max(map(len, whole))
    assert min(map(len, whole)) < longest
    saved = saved_by(starting(made, 3), [longest - 1] * 3)
    assert {parse_file_name(name).step for name in saved.files} <= {  # type: ignore[union-attr]
        longest - 1,
        *map(len, whole),
    }
    found = saved_input(saved.files, FOLDER).checkpoints
    assert [one.part.rank for one in found] == list(range(len(saved.files)))
    for rank, iterator in enumerate(resumed(saved.files, made, 3)):
        assert shown(iterator) == shown(whole[rank][longest - 1 :])


def test_with_nothing_dealt_out_equal_processes_save_parts_that_any_number_reads() -> None:
    numbers = rs.range(20).filter(is_no_third)
    saved = saved_by([iter(numbers), iter(numbers)], [5, 5])
    assert len(saved.files) == 2
    for processes in (1, 2, 3):
        for process in range(processes):
            state = state_in(saved.files, numbers, process, processes)
            assert list(numbers.resume(state)) == list(numbers)[5:]


def test_with_nothing_dealt_out_each_process_goes_on_where_it_was() -> None:
    numbers = rs.range(20)
    saved = saved_by([iter(numbers), iter(numbers)], [5, 7])
    for process, cut in enumerate((5, 7)):
        with pytest.warns(RuntimeWarning, match="by 2 ranks only"):
            state = state_in(saved.files, numbers, process, 2)
        assert list(numbers.resume(state)) == list(range(cut, 20))
    with pytest.raises(rs.StateMismatch, match="of 2 ranks"):
        state_in(saved.files, numbers, 0, 3)


def test_processes_with_files_of_their_own_go_on_each_in_its_own() -> None:
    own = [rs.range(10), rs.range(100, 150).shuffle(1), rs.range(5).batch(2)]
    saved = saved_by([iter(pipeline) for pipeline in own], [3, 8, 1])
    for process, (pipeline, cut) in enumerate(zip(own, (3, 8, 1), strict=True)):
        with pytest.warns(RuntimeWarning, match="by 3 ranks only"):
            state = state_in(saved.files, pipeline, process, 3)
        assert shown(pipeline.resume(state)) == shown(list(pipeline)[cut:])
    with pytest.raises(rs.StateMismatch, match="of 3 ranks"):
        state_in(saved.files, own[0], 0, 1)


@pytest.mark.parametrize("made", [batched, in_partitions, filtered])
def test_processes_that_share_a_rank_save_one_part_and_go_on_alike(made: Deal) -> None:
    iterators = [iter(made(process % 2, 2)) for process in range(4)]
    saved = saved_by(iterators, [6] * 4)
    assert len(saved.files) == (1 if made is batched else 2)
    whole = [list(made(rank, 2)) for rank in range(2)]
    for process, iterator in enumerate(resumed(saved.files, made, 4, ranks=2)):
        assert shown(iterator) == shown(whole[process % 2][6:])
    if made is not filtered:
        rest = [item for iterator in resumed(saved.files, made, 3) for item in iterator]
        assert leaves([*saved.items[0], *saved.items[1], *rest]) == leaves(chain(*whole))


def in_a_grid(process: int) -> rs.Pipeline[Any]:
    """Processes 0 and 1 share the rank of the first input, and read different items of the second one."""
    return rs.zip(in_partitions(process // 2, 2), in_partitions(process % 2, 2))


@pytest.mark.parametrize("made", [in_a_grid, lambda process: filtered(0, 2)])
@given(cut=st.integers(1, 12))
def test_another_state_under_the_rank_of_a_process_is_noticed(
    made: Callable[[int], rs.Pipeline[Any]], cut: int
) -> None:
    files = []
    for process in range(2):
        with iter(made(process)) as iterator:
            iterator.skip(cut)
            files.append(input_file(iterator, iterator.get_state, cut, process, 4))
    first, second = files
    assert first.name == second.name
    check_same(first, first.data, FOLDER)
    if made is not in_a_grid:
        check_same(second, first.data, FOLDER)
        return
    with pytest.raises(
        rs.StateMismatch, match=rf"{FOLDER} has another state of rank 0 of 2 at step"
    ):
        check_same(second, first.data, FOLDER)


@pytest.mark.parametrize("made", [in_partitions, filtered])
def test_where_each_process_has_a_storage_of_its_own_its_own_part_is_enough(made: Deal) -> None:
    saved = saved_by(starting(made, 3), [6] * 3)
    for rank in range(3):
        alone = {name: data for name, data in saved.files.items() if f"-{rank:05}-of" in name}
        state = state_in(alone, made(rank, 3), rank, 3, own_files=True)
        assert shown(made(rank, 3).resume(state)) == shown(list(made(rank, 3))[6:])
        with pytest.raises(rs.NoValidCheckpoint, match="the part of rank"):
            state_in(alone, made(rank, 3), rank, 3)
        with pytest.raises(rs.NoValidCheckpoint, match="of 3 ranks is missing"):
            state_in(alone, made(0, 4), 0, 4, own_files=True)


def test_a_rank_among_several_of_one_process_goes_on_from_its_own_part() -> None:
    for rank in range(2):  # each in its own folder, as two names in one checkpoint have them
        saved = saved_by([iter(filtered(rank, 2))], [6])
        state = state_in(saved.files, filtered(rank, 2))
        assert list(filtered(rank, 2).resume(state)) == list(filtered(rank, 2))[6:]
        with pytest.raises(rs.NoValidCheckpoint, match=f"rank {1 - rank} of 2 ranks is missing"):
            state_in(saved.files, filtered(0, 1))


def without(saved: Saved, *ranks: int) -> dict[str, bytes]:
    gone = {f"-{rank:05}-of-" for rank in ranks}
    return {name: data for name, data in saved.files.items() if not any(x in name for x in gone)}


@given(ranks=st.integers(2, 6), data=st.data())
def test_each_missing_part_is_named_with_the_folder(ranks: int, data: st.DataObject) -> None:
    missing = data.draw(st.integers(0, ranks - 1))
    saved = saved_by(starting(in_partitions, ranks), [2] * ranks)
    for processes in (1, ranks, ranks + 1):
        with pytest.raises(rs.NoValidCheckpoint) as found:
            state_in(without(saved, missing), in_partitions(0, processes), 0, processes)
        message = f"the part of rank {missing} of {ranks} ranks is missing in {FOLDER}"
        assert str(found.value) == message


def test_of_many_missing_parts_three_are_named() -> None:
    saved = saved_by(starting(in_partitions, 8), [1] * 8)
    with pytest.raises(rs.NoValidCheckpoint, match="rank 0 and rank 2 and rank 3 and 2 more of 8"):
        state_in(without(saved, 0, 2, 3, 5, 7), None)


def test_an_empty_folder_is_no_checkpoint_and_what_lies_there_is_said() -> None:
    with pytest.raises(rs.NoValidCheckpoint, match=f"in {FOLDER}, which holds nothing"):
        saved_input({}, FOLDER)
    with pytest.raises(rs.NoValidCheckpoint, match=r"holds manifest\.ocdbt, process_0-of-1\.json"):
        saved_input({"process_0-of-1.json": b"", "manifest.ocdbt": b""}, FOLDER)


def test_foreign_files_next_to_it_change_nothing() -> None:
    saved = saved_by(starting(in_partitions, 2), [4, 4])
    mine = state_in(saved.files, in_partitions(0, 1))
    name = next(iter(saved.files))
    foreign = {
        "_METADATA": b"{}",
        f"{name}.damaged": b"x",
        f".tmp-1-{name}": b"y",
        name.replace("input", "eval"): b"z",
        "input-12.ckpt": b"too few digits",
        "input-stats.jsonl": b"",
    }
    found = saved_input(foreign | saved.files, FOLDER)
    assert found == saved_input(saved.files, FOLDER)
    assert found.size == sum(map(len, saved.files.values()))
    assert state_in(foreign | saved.files, in_partitions(0, 1)) == mine


@pytest.mark.parametrize("ranks", [1, 2])
def test_damage_to_any_byte_is_found_and_named_with_the_file(ranks: int) -> None:
    saved = saved_by(starting(in_partitions, ranks), [4] * ranks)
    name = sorted(saved.files)[-1]
    whole = saved.files[name]
    damaged = [
        *(
            whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
            for at in range(len(whole))
        ),
        *(whole[:length] for length in range(len(whole))),
        whole + b"\0",
    ]
    for data in damaged:
        with pytest.raises(rs.CorruptCheckpoint) as found:
            saved_input(saved.files | {name: data}, FOLDER)
        assert str(found.value).startswith(f"{FOLDER}/{name}: ")


def test_a_part_under_the_name_of_another_is_damage() -> None:
    saved = saved_by(starting(in_partitions, 2), [4, 4])
    first, second = sorted(saved.files)
    with pytest.raises(rs.CorruptCheckpoint, match="holds the part of rank 0 of 2 at step 4"):
        saved_input({first: saved.files[first], second: saved.files[first]}, FOLDER)


def test_a_file_of_a_later_format_is_named_as_such() -> None:
    saved = saved_by([iter(NUMBERS)], [4])
    (name, data), *_ = saved.files.items()
    later = MAGIC[:7] + b"\x02" + data[8:-32]
    later += hashlib.blake2b(later, digest_size=32).digest()
    assert HEADER.unpack_from(later)[1] == struct.unpack_from("<Q", data, 8)[0]
    with pytest.raises(rs.NewerFormat, match=f"{FOLDER}/{name}: its format version is 2"):
        saved_input({name: later}, FOLDER)


def mixed_up() -> dict[str, Callable[[], dict[str, bytes]]]:
    def of(cut: int, ranks: int = 2, made: Deal = in_partitions) -> Saved:
        return saved_by(starting(made, ranks), [cut] * ranks)

    return {
        "two steps": lambda: of(2).files | of(4).files,
        "a part of another step": lambda: of(2).files | without(of(4), 0),
        "two runs": lambda: of(2).files | of(2, made=packed).files,
        "a part of another run": lambda: without(of(2), 0) | without(of(2, made=packed), 1),
        "two numbers of ranks": lambda: of(2).files | of(2, 3).files,
        "a part of another number of ranks": lambda: without(of(2), 1) | without(of(2, 3), 0),
        "whole ones": lambda: of(2, 1).files | of(4, 1).files,
        "a whole one and parts": lambda: of(2, 1).files | of(2).files,
    }


@pytest.mark.parametrize("name", mixed_up())
def test_files_of_several_checkpoints_in_one_folder_are_refused(name: str) -> None:
    files = mixed_up()[name]()
    with pytest.raises(rs.StateMismatch) as found:
        saved_input(files, FOLDER)
    assert f"{FOLDER} holds files of several checkpoints" in str(found.value)
    assert all(name in str(found.value) for name in files)


@pytest.mark.parametrize("name", mixed_up())
def test_what_would_mix_checkpoints_up_is_refused_before_it_is_written(name: str) -> None:
    files = mixed_up()[name]()
    said = []
    for one in files:
        with suppress(rs.StateMismatch):
            check_one_checkpoint(input_file_named(one), files, FOLDER)
            continue
        with pytest.raises(rs.StateMismatch, match=f"{FOLDER} has input-.* than {one}: "):
            check_one_checkpoint(input_file_named(one), files, FOLDER)
        said.append(one)
    assert said


@given(
    ranks=st.integers(1, 4), cut=st.integers(1, 40), made=st.sampled_from([batched, in_partitions])
)
def test_parts_of_one_checkpoint_and_foreign_files_are_no_hindrance(
    ranks: int, cut: int, made: Deal
) -> None:
    files = saved_by(starting(made, ranks), [cut] * ranks).files
    for one in files:
        check_one_checkpoint(input_file_named(one), [*files, "model.pt", f".tmp-{one}"], FOLDER)


def input_file_named(name: str) -> InputFile:
    return InputFile(name, b"", False, NUMBERS.stage)


def test_of_many_that_write_one_file_at_once_one_does_and_it_is_whole(tmp_path: Path) -> None:
    place, all_at_once = tmp_path / "input", Barrier(8)
    place.mkdir()

    def write(writer: int) -> bool:
        all_at_once.wait()
        return write_if_new(place / "one", bytes([writer]) * (1000 + writer))

    with ThreadPoolExecutor(8) as pool:
        wrote = list(pool.map(write, range(8)))
    assert wrote.count(True) == 1
    writer = wrote.index(True)
    assert (place / "one").read_bytes() == bytes([writer]) * (1000 + writer)
    assert [path.name for path in place.iterdir()] == ["one"]


def test_the_checkpoint_of_another_pipeline_is_refused_by_the_pipeline() -> None:
    saved = saved_by(starting(batched, 2), [4, 4])
    other = rs.range(96).shuffle(2).shard(0, 2).map(graphs.double)
    with pytest.raises(rs.StateMismatch, match="stop"):
        other.resume(state_in(saved.files, other, 0, 2))


def after_an_error(pipeline: rs.Pipeline[Any]) -> rs.PipelineIterator[Any]:
    """An iterator of ``pipeline`` that has met an error, and whose state counts items from an earlier place."""
    iterator = pipeline.start()
    with pytest.raises(ZeroDivisionError):
        list(iterator)
    assert iterator.get_state()["ahead"]
    return iterator


def divided(numbers: rs.Pipeline[Any]) -> rs.Pipeline[int]:
    return numbers.map(lambda number: 1 // (number - 66))


AFTER_ERRORS: dict[str, Deal] = {
    "parts": lambda rank, ranks: rs.range(97).partition(4, divided).shard(rank, ranks),
    "a shared file": lambda rank, ranks: divided(rs.range(97).shard(rank, ranks)),
    "nothing dealt out": lambda rank, ranks: divided(rs.range(97)),
}


@pytest.mark.usefixtures("states_kept_rarely")
@pytest.mark.parametrize("name", AFTER_ERRORS)
def test_right_after_an_error_nothing_is_saved_that_other_processes_cannot_use(name: str) -> None:
    with after_an_error(AFTER_ERRORS[name](0, 2)) as iterator:
        refusal = "cannot be saved by rank 0 of 2 right after an error"
        with pytest.raises(rs.UnencodableState, match=refusal):
            input_file(iterator, iterator.get_state, iterator.step, 0, 2)


@pytest.mark.usefixtures("states_kept_rarely")
def test_right_after_an_error_the_only_process_saves_and_meets_the_error_again() -> None:
    pipeline = divided(rs.range(97))
    with after_an_error(pipeline) as iterator:
        file = input_file(iterator, iterator.get_state, iterator.step, 0, 1)
    with (
        pipeline.resume(state_in({file.name: file.data}, pipeline)) as iterator,
        pytest.raises(ZeroDivisionError),
    ):
        next(iterator)


@pytest.mark.parametrize("processes", [1, 2, 7])
def test_what_a_process_saves_follows_from_the_deal(processes: int) -> None:
    assert part_for(batched(1, 2).stage, 0, processes) == WHOLE
    part = part_for(in_partitions(1, 2).stage, 0, processes)
    assert (part.rank, part.ranks) == (1, 2)
    last = part_for(NUMBERS.stage, processes - 1, processes)
    assert (last.rank, last.ranks) == (processes - 1, processes)
    assert last.is_possible
    if processes > 1:
        assert last.run == part_for(rs.range(3).stage, 0, processes).run
    assert RankPart() == part_for(NUMBERS.stage, 0, 1)


def test_a_checkpointer_goes_on_from_the_files_of_processes_to_which_nothing_was_dealt_out() -> (
    None
):
    store = rs.Memory()
    numbers = rs.range(20)
    saved = saved_by([iter(numbers), iter(numbers)], [5, 5])
    for name, data in saved.files.items():
        found = parse_file_name(name)
        assert found is not None
        store.part(found.part).save(found.step, data)
    with rs.Checkpointer(store, rs.EverySteps(2), rank=0, ranks=2) as checkpointer:
        assert list(checkpointer.resume(numbers)) == list(range(5, 20))
    assert min(checkpointer.steps()) == 5
