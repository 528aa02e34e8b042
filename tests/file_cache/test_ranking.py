"""Which parts go first, and what each process knows of what the others need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_cache.remote import PART, File, Network, Order, Span, kept_bytes, opened, some_files
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import Meeting

import resumable as rs
from resumable.core.file_locks import lock
from resumable.core.foreseen import PartUses
from resumable.file_cache import eviction as eviction_module
from resumable.file_cache.eviction import Eviction
from resumable.file_cache.foresight import Foresight, code_of
from resumable.file_cache.part_file import HEADER, PartName
from resumable.file_cache.plan import plans_of_others
from resumable.file_cache.room import KeptPart
from resumable.file_cache.working_set import working_sets

COUNT = 8
ROOM = PART + HEADER.size


@pytest.fixture
def cache(tmp_path: Path) -> rs.FileCache:
    # An eighth of it, two parts, is for what passes through.
    return rs.FileCache(tmp_path, 2 * COUNT * ROOM, PART, read_ahead=0)


def eviction_of(cache: rs.FileCache) -> Eviction:
    return Eviction(cache.path, cache.max_bytes, Foresight(cache))


def parts_of(*files: File) -> list[KeptPart]:
    """All parts of ``files``, used one after the other."""
    names = [PartName(file.content_name, place) for file in files for place in range(COUNT)]
    return [KeptPart(name, "", ROOM, 1000 + place) for place, name in enumerate(names)]


def numbers(parts: Sequence[KeptPart]) -> list[int]:
    return [part.name.number for part in parts]


def test_parts_that_nobody_reads_go_first_and_those_used_longest_ago_before_others(
    cache: rs.FileCache,
) -> None:
    read, unread = some_files(COUNT * PART, COUNT * PART)
    eviction = eviction_of(cache)
    eviction.publish([read])
    chosen = eviction.look().needed_after(0)(parts_of(read, unread))
    assert [part.name.content for part in chosen[:COUNT]] == [unread.content_name] * COUNT
    assert numbers(chosen) == [*range(COUNT), *reversed(range(COUNT))], (
        "of what is read, and nobody knows when, that used last goes first"
    )
    assert len(eviction.look().only_unused(parts_of(read, unread))) == COUNT
    eviction.close()


def test_parts_needed_last_go_first_and_none_that_is_needed_sooner(cache: rs.FileCache) -> None:
    (file,) = some_files(COUNT * PART)
    order = np.random.default_rng(0).permutation(COUNT)
    spans = Order(cache, [file], [order]).spans()
    next(spans)
    eviction = eviction_of(cache)
    eviction.publish([file])
    for at in range(COUNT):
        chosen = eviction.look().needed_after(at)(parts_of(file))
        assert numbers(chosen) == order[at + 1 :][::-1].tolist()
    eviction.close()


def test_the_next_use_counts_from_where_the_iterator_is(cache: rs.FileCache) -> None:
    (file,) = some_files(COUNT * PART)
    spans: Iterator[Span] = Order(cache, [file], [np.arange(COUNT)]).spans()
    next(spans)
    eviction = eviction_of(cache)
    codes = [PartName(file.content_name, place).code for place in range(COUNT + 1)]
    assert [eviction.look().next_use(code) for code in codes] == [*range(COUNT), math.inf]
    next(spans)
    next(spans)
    assert eviction.look().next_use(codes[5]) == 3
    eviction.close()


def test_another_process_may_need_any_part_at_any_time(cache: rs.FileCache) -> None:
    (file,) = some_files(COUNT * PART)
    ours, theirs = eviction_of(cache), eviction_of(cache)
    code = PartName(file.content_name, 0).code
    assert ours.look().next_use(code) == math.inf
    theirs.publish([file])
    ours.publish([file])
    assert ours.look().next_use(code) == 0
    # What was read last, in an eighth of the room, may be read by the other in a moment.
    chosen = numbers(ours.look().needed_after(0)(parts_of(file)))
    assert chosen == [*reversed(range(COUNT - 2)), COUNT - 1, COUNT - 2]
    theirs.close()
    assert ours.look().next_use(code) == math.inf
    ours.close()


def test_each_new_file_is_told_to_the_others_at_once(cache: rs.FileCache) -> None:
    files = some_files(PART, PART, PART)
    eviction = eviction_of(cache)
    for count, file in enumerate(files, start=1):
        eviction.publish([file])
        (plan,) = plans_of_others(cache.path, "")
        assert len(plan.contents) == count
    eviction.close()


def test_threads_that_begin_to_read_together_write_one_plan(
    cache: rs.FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, eviction = some_files(PART, PART), eviction_of(cache)
    meeting = Meeting(lambda: eviction.publish(files[1:]))

    def late(descriptor: int) -> None:
        meeting.within()
        lock(descriptor)

    monkeypatch.setattr("resumable.core.file_locks.lock", late)
    monkeypatch.setattr(eviction, "_lock", meeting)
    eviction.publish(files[:1])
    meeting.join()
    assert not meeting.met
    (plan,) = plans_of_others(cache.path, "")
    assert len(plan.contents) == 2
    eviction.close()


def test_an_order_that_reads_through_another_cache_is_none_of_this_ones(tmp_path: Path) -> None:
    (file,) = some_files(COUNT * PART)
    one, other = (rs.FileCache(tmp_path / name, 9 * ROOM, PART) for name in ("one", "other"))
    spans = Order(other, [file], [np.arange(COUNT)]).spans()
    next(spans)
    assert not len(Foresight(one).next_uses().codes)
    assert len(Foresight(other).next_uses().codes) == COUNT


def test_what_others_know_already_is_not_compared_again(
    cache: rs.FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eviction_module, "OFTEN", math.inf)
    compared: list[Any] = []

    class Noting(set[int]):
        def issuperset(self, other: Iterable[Any]) -> bool:
            codes = list(other)
            compared.extend(codes)
            return super().issuperset(codes)

    *files, new = some_files(*[1] * 50)
    eviction = eviction_of(cache)
    eviction.publish(files)
    eviction._said = Noting(eviction._said)
    for _ in range(9):
        eviction.publish([])
    eviction.publish([new])
    assert compared == [code_of(new)]
    eviction.close()


def test_what_was_read_ahead_of_its_turn_is_not_needed_a_second_time(cache: rs.FileCache) -> None:
    (file,) = some_files(COUNT * PART)
    spans = Order(cache, [file], [np.arange(COUNT)]).spans()
    next(spans)
    foresight = Foresight(cache)
    assert len(foresight.next_uses().codes) == COUNT
    for place in range(3):
        foresight.note_read(PartName(file.content_name, place).code, PART)
    assert [needed.number for needed in foresight.upcoming(2 * PART)] == [3, 4]
    foresight.note_read(PartName(file.content_name, 3).code, PART // 2)
    assert [needed.number for needed in foresight.upcoming(2 * PART)] == [3, 4]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_the_working_set_is_the_most_that_is_needed_again_at_a_time(
    used: list[tuple[int, int]],
) -> None:
    cache = rs.FileCache("anywhere", 100 * ROOM, PART)
    files = some_files(*[3 * PART + 100] * 4)
    file_of, parts = np.array(used, np.int64).reshape(-1, 2).T
    at = np.arange(len(used))
    uses = PartUses(cache, files, file_of, parts, np.ones_like(at), at)
    sizes = {part: 100 if part == 3 else PART for part in range(4)}
    in_use = [
        sum(sizes[part] for _, part in {*used[: time + 1]} & {*used[time:]})
        for time in range(len(used))
    ]
    assert working_sets([uses]) == {cache: max(in_use, default=0)}


def test_several_bytes_of_one_part_count_together(tmp_path: Path) -> None:
    (file,) = some_files(PART)
    network = Network()
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART, read_ahead=0)
    with_room = opened(cache)
    with_room.read([Span(other, 0, PART) for other in some_files(*[PART + 1] * 4)], network)
    network.fetched.clear()
    # Two thirds of it are wanted, in three pieces, so it is worth its place in a full cache.
    third = PART * 2 // 9
    spans = [Span(file, start, start + third) for start in (0, 2 * third, 3 * third)]
    assert with_room.read(spans, network) == [span.data for span in spans]
    assert network.bytes == PART
    assert kept_bytes(tmp_path) <= 4 * ROOM
    with_room.close()
