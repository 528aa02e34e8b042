"""One process at a time fetches a part, and whatever is in its way is left alone or taken over."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from resumable.core.file_locks import lock, lock_shared
from resumable.file_cache.claim import Claim, remove_if_dead
from resumable.file_cache.contents import clear
from resumable.file_cache.fetches import FetchJob
from resumable.file_cache.part_file import (
    HEADER,
    MAGIC,
    ForeignFile,
    PartFile,
    PartName,
    finish_part,
)
from resumable.file_cache.plan import NO_USES, PLANS, NextUses, PlanFile, plans_of_others
from resumable.file_cache.room import KeptPart, NoRoom, Room, kept_parts

NAME = PartName("ab" * 16, 3)
CONTENT = b"content" * 99


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(NAME.path(str(tmp_path)))


def claimed(path: Path, size: int = len(CONTENT)) -> Claim:
    claim = Claim.of(str(path), size)
    assert claim is not None
    return claim


def read_at(path: Path) -> bytes | None:
    opened = PartFile.opened(str(path))
    assert opened is not None
    try:
        found = opened.read_whole(len(CONTENT))
        return None if found is None else bytes(found)
    finally:
        opened.close()


def nothing_to_remove(parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
    return []


def test_a_part_is_claimed_by_one_until_it_is_there(path: Path) -> None:
    claim = claimed(path)
    assert Claim.of(str(path), 9) is None
    claim.commit(CONTENT)
    assert read_at(path) == CONTENT
    assert not claim.give_up()
    claimed(path).give_up()
    assert os.listdir(path.parent) == [path.name]


def test_a_part_that_another_one_finishes_meanwhile_is_there(path: Path) -> None:
    claim = claimed(path)
    finish_part(str(path), CONTENT)  # as the one that fetched for a process that died
    claim.commit(CONTENT)
    assert read_at(path) == CONTENT


def test_what_a_dead_process_left_is_written_over_whatever_its_length(path: Path) -> None:
    path.parent.mkdir()
    path.with_suffix(".part.tmp").write_bytes(MAGIC + bytes(5 * len(CONTENT)))
    claimed(path).commit(CONTENT)
    assert read_at(path) == CONTENT
    assert path.stat().st_size == HEADER.size + len(CONTENT)


def test_what_no_cache_has_begun_to_write_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    foreign = path.with_suffix(".part.tmp")
    foreign.write_bytes(b"not yours, and long enough")
    with pytest.raises(ForeignFile):
        Claim.of(str(path), 9)
    assert not remove_if_dead(str(foreign))
    assert foreign.read_bytes() == b"not yours, and long enough"


@pytest.mark.parametrize("fetched", ["here", "by another process"])
def test_what_is_put_in_the_place_of_a_part_while_it_is_fetched_is_left_alone(
    path: Path, fetched: str
) -> None:
    claim = claimed(path)
    path.write_bytes(b"not yours, and long enough")
    if fetched == "here":
        with pytest.raises(ForeignFile):
            claim.commit(CONTENT)
    else:
        assert FetchJob(None, 0, len(CONTENT), [str(path)], [len(CONTENT)]).write(CONTENT) == []
        assert claim.give_up()
    assert path.read_bytes() == b"not yours, and long enough"
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_got_its_name_before_it_was_locked_is_not_claimed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished, taken = path.with_suffix(".part.tmp"), list[int]()

    def late(descriptor: int) -> None:
        if not taken:  # whoever had the lock commits in this moment
            os.replace(unfinished, path)
        taken.append(descriptor)
        lock(descriptor)

    monkeypatch.setattr("resumable.core.file_locks.lock", late)
    claim = claimed(path)
    assert len(taken) == 2
    assert unfinished.exists()
    claim.give_up()
    assert path.exists()
    assert not unfinished.exists()


@pytest.mark.parametrize("first", ["commit", "end", "give_up"])
@pytest.mark.parametrize("second", ["end", "give_up"])
def test_a_claim_that_has_ended_closes_no_file_of_others(
    path: Path, first: str, second: str
) -> None:
    claim = claimed(path)
    getattr(claim, first)(*[CONTENT] * (first == "commit"))
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, claim._descriptor)  # mostly it has that number already
    try:
        assert not getattr(claim, second)()
        os.fstat(claim._descriptor)
    finally:
        for descriptor in {other, claim._descriptor}:
            os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_holds_no_claim_of_its_parent(path: Path) -> None:
    claim = claimed(path)
    child = os.fork()
    if not child:
        try:
            os.fstat(claim._descriptor)
        except OSError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert Claim.of(str(path), 9) is None, "the parent still has it"
    claim.give_up()


def test_bytes_beyond_the_end_of_a_part_are_none(path: Path) -> None:
    claimed(path).commit(CONTENT)
    opened = PartFile.opened(str(path))
    assert opened is not None
    assert bytes(opened.read(2, len(CONTENT)) or b"") == CONTENT[2:]
    assert opened.read(2, len(CONTENT) + 1) is None
    opened.close()


def test_a_part_tells_when_it_was_used_last(path: Path) -> None:
    claimed(path).commit(CONTENT)
    now = time.time_ns()
    used, written = now - 2 * 10**9, now - 10**10
    os.utime(path, ns=(used, written))
    opened = PartFile.opened(str(path))
    assert opened is not None
    os.utime(
        path, ns=(used, written)
    )  # opening may have told it already, by the system's own rules
    opened.note_use()
    opened.close()
    status = path.stat()
    assert status.st_atime_ns > used
    assert status.st_mtime_ns == written, "its content did not change"


def test_what_is_being_fetched_takes_room_and_gives_it_back(tmp_path: Path, path: Path) -> None:
    room, size = Room(str(tmp_path), 2 * (HEADER.size + 100)), 100
    first = claimed(path, size)
    room.reserve(size, nothing_to_remove, first.take_room)
    assert kept_parts(str(tmp_path)) == ([], HEADER.size + size)
    second = Claim.of(NAME._replace(number=4).path(str(tmp_path)), size)
    third = Claim.of(NAME._replace(number=5).path(str(tmp_path)), size)
    assert second is not None
    assert third is not None
    room.reserve(size, nothing_to_remove, second.take_room)
    with pytest.raises(NoRoom):
        room.reserve(size, nothing_to_remove, third.take_room)
    assert not room.has_room(size)
    assert first.give_up()
    room.release(size)
    assert room.has_room(size)
    for claim in (second, third):
        claim.give_up()


def test_what_a_dead_process_was_fetching_takes_no_room(tmp_path: Path, path: Path) -> None:
    path.parent.mkdir()
    dead = path.with_suffix(".part.tmp")
    dead.write_bytes(bytes(1000))
    assert kept_parts(str(tmp_path)) == ([], 0)
    assert not dead.exists()


def test_a_number_of_bytes_that_is_none_is_counted_anew(tmp_path: Path, path: Path) -> None:
    room = Room(str(tmp_path), HEADER.size + len(CONTENT))
    claimed(path).commit(CONTENT)
    (tmp_path / ".in-use").write_bytes(b"many")
    other = Claim.of(NAME._replace(number=4).path(str(tmp_path)), len(CONTENT))
    assert other is not None
    with pytest.raises(NoRoom):
        room.reserve(len(CONTENT), nothing_to_remove, other.take_room)
    other.give_up()


def test_clearing_leaves_what_has_only_the_name_of_a_part(tmp_path: Path, path: Path) -> None:
    claimed(path).commit(CONTENT)
    foreign = Path(NAME._replace(number=4).path(str(tmp_path)))
    foreign.write_bytes(b"not yours, and long enough")
    assert clear(str(tmp_path)) == HEADER.size + len(CONTENT)
    assert not path.exists()
    assert foreign.exists()


def test_plans_of_the_living_are_read_and_those_of_the_dead_removed(tmp_path: Path) -> None:
    living = PlanFile(str(tmp_path))
    living.write(NO_USES)
    dead, foreign = tmp_path / PLANS / "dead.plan", tmp_path / PLANS / "yours.plan"
    dead.write_bytes(NO_USES.to_bytes())
    foreign.write_bytes(b"not of a cache at all")
    assert len(plans_of_others(str(tmp_path), "")) == 1
    assert not plans_of_others(str(tmp_path), living.name)
    assert not dead.exists()
    assert foreign.exists()
    living.close()
    assert not plans_of_others(str(tmp_path), "")


@pytest.mark.parametrize("others", ["have removed it", "still lock it"])
def test_a_plan_at_which_others_look_before_it_is_locked_is_made_anew(
    tmp_path: Path, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, looked = tmp_path / PLANS, list[Path]()

    def late(descriptor: int) -> None:
        if looked:
            lock(descriptor)
            return
        looked.extend(folder.iterdir())
        if others == "have removed it":
            assert not plans_of_others(str(tmp_path), "")
            lock(descriptor)
        else:
            with looked[0].open("rb") as theirs:
                lock_shared(theirs.fileno())
                looked[0].unlink()
                lock(descriptor)

    monkeypatch.setattr("resumable.core.file_locks.lock", late)
    living = PlanFile(str(tmp_path))
    living.write(NO_USES)
    assert len(looked) == 1
    assert len(plans_of_others(str(tmp_path), "")) == 1
    assert not plans_of_others(str(tmp_path), living.name)
    living.close()
    assert not list(folder.iterdir())


def test_a_plan_is_written_whole_where_the_system_takes_little_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = np.arange(9, dtype=np.uint64)
    uses, write = NextUses.first_of(codes, np.arange(9), codes), os.write
    living = PlanFile(str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
        living.write(uses)
    (read,) = plans_of_others(str(tmp_path), "")
    assert read.to_bytes() == uses.to_bytes()
    living.close()
