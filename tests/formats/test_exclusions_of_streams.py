"""Records that are left out of files which are read in order, by number and by file."""

from __future__ import annotations

import gzip
import itertools
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.compressing import COMPRESS, IN_PARTS
from formats.records_of_formats import short_lists
from hypothesis import given
from hypothesis import strategies as st
from support.format_facts import FORMAT_FACTS
from support.interrupting import some_interrupters
from support.tiers import thinned

import resumable as rs
from resumable.formats.line_file import stripped
from resumable.formats.record import ByteReader, Format, FoundRecords, LocatedRecord
from resumable.formats.records import records
from resumable.formats.streams import RecordStream
from resumable.testing import check_resumes_everywhere
from resumable.testing.laws import pull_agrees_with_next

ALL = COMPRESS | IN_PARTS


def scan_few(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
    """Finds lines, three at a time; blank ones are passed over."""
    lines, kept, end = reader.read(1 << 20).splitlines(keepends=True), 0, offset
    for start in range(0, len(lines), 3):
        ends, passed_over = list[int](), list[int]()
        for line in lines[start : start + 3]:
            end += len(line)
            ends.append(end)
            if line == b"\n":
                passed_over.append(kept)
            kept += line != b"\n"
        yield FoundRecords(np.array(ends), np.array(passed_over, np.int64))


FEW = Format("few lines", "line", scan_few, stripped)


class Files:
    """Files of lines, written into a folder once.

    Args:
      contents: for each file, whether each of its records is an item; the others are blank lines.
      suffixes: of the files.
    """

    def __init__(
        self, folder: Path, contents: Sequence[Sequence[bool]], suffixes: Sequence[str]
    ) -> None:
        self.paths = list[Path]()
        # The items, each as the number of its file and of its record there.
        self.items = list[tuple[int, int]]()
        for file, (kept, suffix) in enumerate(zip(contents, suffixes, strict=True)):
            lines = [f"{file} {number}" if one else "" for number, one in enumerate(kept)]
            self.items += [(file, number) for number, one in enumerate(kept) if one]
            path = folder / f"{file}-{''.join(str(int(one)) for one in kept)}{suffix}"
            if not path.exists():
                path.write_bytes(ALL[suffix]("".join(f"{line}\n" for line in lines).encode()))
            self.paths.append(path)

    def pipeline(self) -> rs.Pipeline[tuple[int, int]]:
        return rs.Pipeline(records(FEW, self.paths)).map(place_of)

    def named(self, left_out: Any) -> Any:
        """What users write for ``left_out``: numbers of items, or pairs of a file and a record."""
        if not any(isinstance(one, tuple) for one in left_out):
            return list(left_out)
        return {
            path.name: [number for at, number in left_out if at == file]
            for file, path in enumerate(self.paths)
        }

    def program(self, left_out: Mapping[int, Any]) -> dict[int, Any]:
        return {first: self.named(each) for first, each in left_out.items()}

    def remaining(self, left_out: Mapping[int, Any]) -> list[tuple[int, int]]:
        """The items that remain, one after the other."""
        found = list[tuple[int, int]]()
        for number, item in enumerate(self.items):
            now = left_out[max(first for first in left_out if first <= len(found))]
            if number not in now and item not in now:
                found.append(item)
        return found


def place_of(record: LocatedRecord) -> tuple[int, int]:
    file, number = record.data.split()
    assert int(number) + 1 == record.number
    return int(file), int(number)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


CONTENTS = st.lists(st.lists(st.booleans() | st.just(True), max_size=9), min_size=1, max_size=3)
SUFFIXES = st.lists(st.sampled_from([".gz", "m.gz", ".txt", *({".zst", "m.zst"} & ALL.keys())]), min_size=3, max_size=3)  # fmt: skip
# Some are in no file, or blank lines.
BY_NUMBER = st.lists(st.integers(0, 27), max_size=12)
BY_FILE = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12)
LEFT_OUT = BY_NUMBER | BY_FILE
CHANGES = st.dictionaries(st.integers(1, 20), LEFT_OUT, max_size=3)
BETWEEN: Mapping[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "nothing": lambda stream: stream,
    "map": lambda stream: stream.map(tuple),
    "prefetch": lambda stream: stream.prefetch(2),
    "workers": lambda stream: stream.map(tuple, workers=2, executor="thread").prefetch(3),
    "nothing left out": lambda stream: stream.exclude({}),
}
BETWEENS = st.sampled_from(sorted(BETWEEN))
SAME_PIPELINE = st.sampled_from(
    [
        *itertools.product(["map", "workers"], repeat=2),
        *itertools.product(["nothing", "prefetch", "nothing left out"], repeat=2),
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> Callable[[Path], Files]:
    contents = draw(CONTENTS)
    suffixes = [".gz", *draw(SUFFIXES)][
        : len(contents)
    ]  # one is compressed, so that it is a stream
    return partial(Files, contents=contents, suffixes=suffixes)


@given(files=streams(), between=BETWEENS, first=LEFT_OUT, later=CHANGES, epoch=st.integers(0, 1))
def test_what_remains_is_in_its_order(
    folder: Path,
    files: Callable[[Path], Files],
    between: str,
    first: Any,
    later: dict[int, Any],
    epoch: int,
) -> None:
    made = files(folder)
    left_out = {0: [one for one in first if in_files(one, made)], **only_in_files(later, made)}
    excluded = BETWEEN[between](made.pipeline()).exclude(made.program(left_out))
    # A later epoch has what is left out at last.
    expected = made.remaining({0: left_out[max(left_out)]} if epoch else left_out)
    with excluded.start(epoch) as iterator:
        assert list(iterator) == expected
    pull_agrees_with_next(excluded, [1, 2, 0, 3])
    with closing(excluded.stage.start(epoch)) as moved:
        passed = moved.skip(3)
        assert [*expected[:passed], *moved.items()] == expected


def in_files(one: Any, files: Files) -> bool:
    return not isinstance(one, tuple) or one[0] < len(files.paths)


def only_in_files(left_out: Mapping[int, Any], files: Files) -> dict[int, Any]:
    return {
        first: [one for one in each if in_files(one, files)] for first, each in left_out.items()
    }


@given(
    files=streams(),
    between=SAME_PIPELINE,
    before=CHANGES,
    after=CHANGES,
    shared=LEFT_OUT,
    cut=st.integers(0, 28),
    planned=st.booleans(),
)
def test_a_run_is_cleaned_at_every_cut(
    folder: Path,
    files: Callable[[Path], Files],
    between: tuple[str, str],
    before: dict[int, Any],
    after: dict[int, Any],
    shared: Any,
    cut: int,
    planned: bool,
) -> None:
    made = files(folder)
    start = {0: [one for one in shared if in_files(one, made)] if planned else []}
    old, new = (start | only_in_files(each, made) for each in (before, after))
    if not planned:
        old = start
    saved, changed = (
        BETWEEN[name](made.pipeline()).exclude(made.program(each))
        for name, each in zip(between, (old, new), strict=True)
    )
    if not planned:
        saved = BETWEEN[between[0]](made.pipeline())
    with iter(saved) as iterator:
        passed = list(islice(iterator, cut))
        state = rs.dumps(iterator.get_state())
    with saved.resume(rs.loads(state)) as iterator:
        assert rs.dumps(iterator.get_state()) == state
        assert [*passed, *iterator] == made.remaining(old)
    try:
        with changed.resume(rs.loads(state)) as iterator:
            assert passed + list(islice(iterator, 2)) == made.remaining(new)[: len(passed) + 2]
            passed = made.remaining(new)[: iterator.step]
            state = rs.dumps(iterator.get_state())
    except rs.StateMismatch as error:
        assert "to change it from there on, write records=" in str(error)  # noqa: PT017
        reach = cut + 1
        assert until(made.program(old), reach) != until(made.program(new), reach)
        return
    with changed.resume(rs.loads(state)) as iterator:
        assert [*passed, *iterator] == made.remaining(new)


def until(program: Mapping[int, Any], place: int) -> list[tuple[int, str]]:
    """What is left out from each item before ``place`` on, where it changes."""
    found = list[tuple[int, str]]()
    for first in sorted(program):
        each = program[first]
        named = (
            {name: sorted(set(one)) for name, one in each.items() if one}
            if isinstance(each, dict)
            else sorted(set(each))
        )
        shown = json.dumps(named or [], sort_keys=True)
        if first < place and (not found or found[-1][1] != shown):
            found.append((first, shown))
    return found


FIXED = partial(
    Files,
    contents=[[True, False, True, True, True], [], [True] * 2 + [False] + [True] * 5],
    suffixes=[".gz", ".txt", "m.gz"],
)
"""Files with the items (0, 0), (0, 2) ... (0, 4), (2, 0), (2, 1), (2, 3) ... (2, 7)."""
PROGRAMS: list[dict[int, Any]] = [
    {0: []},
    {0: [(0, 0), (0, 1), (2, 3)]},
    {0: [2, 3, 10]},
    {0: [(2, number) for number in range(4, 8)]},
    {0: [(2, number) for number in range(4, 8)], 6: []},
    {0: [], 3: [(0, number) for number in range(5)], 5: [(0, 1), (2, 7)]},
    {0: [0], 1: [1, 2], 2: [(0, 2), (0, 3), (2, 0)], 4: [4, 7]},
    {0: [], 7: [(2, 6)], 9: [10], 10: [(2, 7)]},
    {0: [], 6: [(2, 5), (2, 6), (2, 7)]},
]


def test_each_program_goes_on_with_each_other_one_that_agrees(folder: Path) -> None:
    made = FIXED(folder)
    pipelines = [made.pipeline().exclude(made.program(program)) for program in PROGRAMS]
    every = range(len(PROGRAMS))
    for old in every:
        with iter(pipelines[old]) as iterator:
            states = [rs.dumps(iterator.get_state())]
            states += (rs.dumps(iterator.get_state()) for _ in iterator)
            states.append(rs.dumps(iterator.get_state()))  # who has seen the end
        whole = made.remaining(PROGRAMS[old])
        assert len(states) == len(whole) + 2
        pairs = list(itertools.product(every, range(len(states))))
        for new, cut in thinned(pairs, 6, old):
            expected = made.remaining(PROGRAMS[new])
            reach = min(cut, len(whole))
            try:
                rest = list(pipelines[new].resume(rs.loads(states[cut])))
            except rs.StateMismatch:
                programs = made.program(PROGRAMS[old]), made.program(PROGRAMS[new])
                assert until(programs[0], reach + 1) != until(programs[1], reach + 1)
            else:
                assert whole[:reach] + rest == expected, (old, new, cut)


def test_what_was_passed_over_at_the_end_does_not_come_back(folder: Path) -> None:
    made = FIXED(folder)
    left_out = [(2, 5), (2, 7)]
    before = made.pipeline().exclude(made.program({0: left_out}))
    after = made.pipeline().exclude(made.program({0: left_out, 9: []}))
    with iter(before) as iterator:
        assert len(list(islice(iterator, 9))) == 9
        state = iterator.get_state()
        assert list(after.resume(state)) == [(2, 7)]
        assert list(iterator) == []
        state = iterator.get_state()
    assert list(before.resume(state)) == []
    with pytest.raises(rs.StateMismatch, match="items before 10 were read"):
        after.resume(state)


def test_an_iterator_goes_on_after_it_was_closed(folder: Path) -> None:
    made = FIXED(folder)
    for program in PROGRAMS:
        excluded = made.pipeline().exclude(made.program(program))
        expected = made.remaining(program)
        for cut in range(len(expected) + 1):
            with closing(excluded.stage.start()) as iterator:
                passed = list(iterator.pull(cut))
                iterator.close()
                assert [*passed, *iterator.items()] == expected


def test_damage_is_no_record_that_can_be_left_out(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % number for number in range(9)), 0)
    (tmp_path / "a.gz").write_bytes(whole[:-12])
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"9\n"))
    lines = rs.lines(tmp_path / "*.gz")
    with pytest.raises(rs.MalformedItem, match=r"a\.gz, line 7: "):
        list(lines)
    excluded = lines.exclude({"a.gz": [0, 6, 7], "b.gz": [0]})
    with iter(excluded) as iterator:
        assert [next(iterator) for _ in range(5)] == list("12345")
        state = iterator.get_state()
        with pytest.raises(rs.MalformedItem, match=r"a\.gz, line 7: "):
            next(iterator)
    located = rs.Pipeline(lines.stage.inputs[0]).exclude({"a.gz": [0, 6, 7]})
    numbers = located.map(lambda record: record.number)
    assert list(numbers) == [2, 3, 4, 5, 6, 7, 1]
    check_resumes_everywhere(numbers)
    with pytest.raises(rs.MalformedItem, match=r"a\.gz, line 7: "):
        next(excluded.resume(state))


def test_what_is_left_out_is_not_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1\n{broken\n\n3\n"))
    values = rs.jsonl(tmp_path / "a.jsonl.gz")
    with pytest.raises(rs.MalformedItem, match="line 2"):
        list(values)
    assert list(values.exclude({"a.jsonl.gz": [1]})) == [1, 3]
    assert list(values.exclude([1])) == [1, 3]


IN_STREAMS = FORMAT_FACTS.merged(lambda facts: facts.in_streams if facts.is_installed else {})


@pytest.mark.filterwarnings("ignore:exclude names records of .* that are no items")
@pytest.mark.parametrize("suffix", sorted({".gz", ".zst"} & ALL.keys()))
@pytest.mark.parametrize("name", IN_STREAMS)
def test_a_stream_leaves_out_the_records_that_the_plain_files_do(
    tmp_path: Path, name: str, suffix: str
) -> None:
    content, read = IN_STREAMS[name]
    plain, stream = [tmp_path / str(at) for at in range(3)], list[str]()
    for at, path in enumerate(plain):
        path.write_bytes(content(at))
        stored = Path(f"{path}{suffix}")
        stored.write_bytes(ALL[suffix](path.read_bytes()))
        stream.append(str(stored))
    for program in ({"0": [0, 4, 8], "2": [1, 3]}, {"1": range(9)}):
        of_stream = {f"{file}{suffix}": numbers for file, numbers in program.items()}
        expected = list(read(plain).exclude({0: {}, 2: program}))
        excluded = read(stream).exclude({0: {}, 2: of_stream})
        assert list(map(str, excluded)) == list(map(str, expected))
        check_resumes_everywhere(
            excluded.map(str), positions=thinned(range(len(expected)), 4, name)
        )
    numbers = [0, 3, 7, 11, 20, 23]
    assert list(read(stream).exclude(numbers).map(str)) == list(
        read(plain).exclude(numbers).map(str)
    )


def test_remote_files_without_an_index_leave_records_out() -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    files = fsspec.filesystem("memory")
    folder = str(uuid.uuid4())
    for at in range(2):
        files.pipe(f"memory://{folder}/{at}.jsonl", short_lists(at))
    values = rs.jsonl(f"memory://{folder}/*.jsonl")
    assert isinstance(values.stage.inputs[0], RecordStream)
    whole = list(values)
    with iter(values) as iterator:
        passed = list(islice(iterator, 5))
        state = iterator.get_state()
    changed = values.exclude({0: {}, 5: {"0.jsonl": [0, 8], f"{folder}/1.jsonl": [1]}})
    rest = [item for item in whole[5:] if item not in ([0, 7], [1, 1])]
    assert passed + list(changed.resume(state)) == list(changed) == passed + rest
    check_resumes_everywhere(changed, positions=range(len(whole) - 2))


@given(
    files=streams(),
    left_out=LEFT_OUT,
    ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    steps=st.integers(0, 8),
    ahead=st.integers(0, 2),
    workers=st.integers(0, 2),
)
def test_ranks_leave_out_the_same_records(
    folder: Path,
    files: Callable[[Path], Files],
    left_out: Any,
    ranks: tuple[int, int],
    steps: int,
    ahead: int,
    workers: int,
) -> None:
    made, (before, after) = files(folder), ranks

    def dealt(program: Any, rank: int, count: int) -> rs.Pipeline[Any]:
        excluded = made.pipeline().exclude(program)
        shared = excluded.map(tuple, workers=workers, executor="thread")
        return shared.shard(rank, count, uneven="keep")

    iterators = [iter(dealt({}, rank, before)) for rank in range(before)]
    steps = min(steps, (len(made.items) - 1) // before) if made.items else 0
    passed = [next(iterator) for _ in range(steps) for iterator in iterators]
    states = {rs.dumps(iterator.get_state()) for iterator in iterators}
    for iterator in iterators:
        iterator.close()
    assert len(states) == 1
    first = len(passed) + ahead + 1  # a rank may have seen the end
    program = {0: [], first: [one for one in left_out if in_files(one, made)]}
    rest = [
        list(dealt(made.program(program), rank, after).resume(rs.loads(min(states))))
        for rank in range(after)
    ]
    woven = itertools.chain.from_iterable(itertools.zip_longest(*rest))
    assert passed + [item for item in woven if item is not None] == made.remaining(program)


def in_epochs(files: Files, *programs: Mapping[int, Any]) -> list[tuple[int, int]]:
    return [item for program in programs for item in files.remaining(program)]


BAD = [(0, 0), (0, 3), (2, 1), (2, 7)]


def test_each_epoch_leaves_out_what_is_bad(folder: Path) -> None:
    made = FIXED(folder)
    bad, cleaned = made.named(BAD), {0: BAD}
    whole, program = made.pipeline(), {0: [], 3: BAD}
    # The entries count the items of the first epoch; later ones have the last.
    changed = whole.exclude(made.program(program)).repeat(3)
    assert list(changed) == in_epochs(made, program, cleaned, cleaned)
    check_resumes_everywhere(changed, positions=thinned(range(24), 4, "repeated"))
    later = rs.by_epoch({0: whole, 2: whole.exclude(bad)}).repeat(3)
    for cut in thinned(range(34), 5, "by epoch"):
        with iter(whole.repeat(3)) as iterator:
            passed = list(islice(iterator, cut))
            state = rs.dumps(iterator.get_state())
        if cut <= 3:
            assert passed + list(changed.resume(rs.loads(state))) == list(changed)
        else:
            with pytest.raises(rs.StateMismatch, match=r"to change it from there on|cannot be"):
                changed.resume(rs.loads(state))
        if cut <= 2 * len(made.items):
            assert passed + list(later.resume(rs.loads(state))) == in_epochs(
                made, {0: []}, {0: []}, cleaned
            )


@pytest.mark.parametrize("join", ["concatenate", "mix", "interleave"])
def test_inputs_leave_out_their_own(folder: Path, join: str) -> None:
    made = FIXED(folder)
    joins: dict[str, Callable[..., rs.Pipeline[Any]]] = {
        "concatenate": rs.concatenate,
        "mix": partial(rs.mix, weights=(2, 1), stop="all"),
        "interleave": rs.interleave,
    }
    join_them = joins[join]
    other = rs.from_iterable(lambda: iter(range(30))).map(str)
    program, more = {0: BAD}, {0: BAD, 4: []}

    def joined(records: Any, numbers: Any) -> rs.Pipeline[Any]:
        return join_them(made.pipeline().exclude(records), other.exclude(numbers))

    changed = joined(made.program(program), [3, 4])
    remaining: list[list[Any]] = [made.remaining(program)]
    remaining.append([str(number) for number in range(30) if number not in (3, 4)])
    assert list(changed) == list(join_them(*[rs.from_sequence(each) for each in remaining]))
    check_resumes_everywhere(changed, positions=thinned(range(30), 4, join))
    with iter(changed) as iterator:
        passed = list(islice(iterator, 2))
        state = iterator.get_state()
    further = joined(made.program(more), {0: [3, 4], 9: [3, 4, 20]})
    assert passed + list(further.resume(state)) == list(further)


COUNTS = ("from", "items")


def without_counts(state: Any) -> Any:
    """A state as an earlier version saved it, which did not count the items of a stream."""
    if isinstance(state, dict):
        kept = {key: without_counts(value) for key, value in state.items() if key not in COUNTS}
        return kept | dict(zip(("stored", "inside"), state.get("from", ()), strict=False))
    return state.replace("RecordStream@2", "RecordStream") if isinstance(state, str) else state


def test_a_state_of_an_earlier_version_goes_on_and_is_cleaned_in_the_next_epoch(
    folder: Path,
) -> None:
    made = FIXED(folder)
    whole = made.pipeline().repeat(2)
    for cut in range(2 * len(made.items)):
        with iter(whole) as iterator:
            iterator.skip(cut)
            state = without_counts(iterator.get_state())
        for same in (whole, made.pipeline().exclude({}).repeat(2)):
            with same.resume(state) as iterator:
                assert without_counts(iterator.get_state()) == state
                assert list(iterator) == (made.items * 2)[cut:]
        cleaned = made.pipeline().exclude({0: [], 11: made.named(BAD)}).repeat(2)
        if cut < len(made.items):
            with pytest.raises(rs.StateMismatch, match=r"from the next epoch on .*rs\.by_epoch"):
                cleaned.resume(state)
            later = {0: made.pipeline(), 1: made.pipeline().exclude(made.named(BAD))}
            rest = list(rs.by_epoch(later).repeat(2).resume(state))
            assert rest == in_epochs(made, {0: []}, {0: BAD})[cut:]


def test_what_is_no_record_of_the_files_is_refused_at_once(tmp_path: Path) -> None:
    for name in ("a/one.gz", "a/two.gz", "b/two.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(b"x\ny\n"))
    lines = rs.lines(sorted(tmp_path.rglob("*.gz"))).map(str)
    refused: list[tuple[Any, type[Exception], str]] = [
        ({"two.gz": [1]}, rs.InvalidArgument, r"2 files are called 'two\.gz'"),
        ({0: [], 9: {"wo.gz": [1]}}, rs.InvalidArgument, r"no file is called 'wo\.gz' among"),
        ({"one.gz": {"a": [1]}}, rs.InvalidArgument, "has no files that can be named, got 'a'"),
        ({"one.gz": [-1]}, rs.InvalidArgument, "records must be at least 0, got -1"),
        ({"one.gz": [1.5]}, rs.InvalidType, "records must be an integer"),
        ({"one.gz": "1"}, rs.InvalidType, "records must be several integers, got '1'"),
        ([True], rs.InvalidType, "records"),
        ({"one.gz": [2**62]}, rs.InvalidArgument, "records must be at most"),
    ]
    for records_, error, message in refused:
        with pytest.raises(error, match=message):
            lines.exclude(records_)
        with pytest.raises(error, match=message):
            rs.by_epoch({0: lines, 1: lines}).exclude(records_)
    # How many records a file has is known only at its end.
    assert list(lines.exclude({"one.gz": [0, 2, 10**9], "b/two.gz": [1]})) == list("yxyx")


def test_a_refused_state_names_the_stage_of_the_user(folder: Path) -> None:
    made = FIXED(folder)
    excluded = made.pipeline().exclude(made.named(BAD)).batch(2, collate=list)
    with iter(excluded) as iterator:
        next(iterator)
        state = iterator.get_state()
    for name, value in (("file", 9), ("items", [1, -1]), ("items", 1), ("from", [0])):
        damaged = rs.loads(rs.dumps(state))
        damaged["pipeline"]["upstream"]["upstream"][name] = value
        with pytest.raises(
            rs.StateMismatch, match=rf"^RecordStream at pipeline\.\S*: saved {name}"
        ):
            excluded.resume(damaged)
    damaged["pipeline"]["upstream"]["upstream"] = 3
    with pytest.raises(
        rs.StateMismatch, match=r"^RecordStream at pipeline\.\S*: the state must be"
    ):
        excluded.resume(damaged)


def test_by_epoch_one_of_the_streams_has_what_is_left_out(tmp_path: Path) -> None:
    streams = list[rs.Pipeline[str]]()
    for name in ("a", "b"):
        text = "".join(f"{name}{number}\n" for number in range(4))
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        streams.append(rs.lines(tmp_path / f"{name}.gz"))
    both = rs.by_epoch({0: streams[0], 1: streams[1]})
    excluded = both.exclude({"a.gz": [1], "b.gz": [0, 3]}).repeat(3)
    assert list(excluded) == ["a0", "a2", "a3", *["b1", "b2"] * 2]
    check_resumes_everywhere(excluded)
    with pytest.raises(rs.InvalidArgument, match=r"no file is called 'c\.gz'"):
        both.exclude({"a.gz": [1], "c.gz": [0]})


# What is raised in a finalizer goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_changes_nothing(folder: Path) -> None:
    made = Files(folder, [[True] * 4, [True] * 2], [".gz", "m.gz"])
    program = {0: [(0, 0)], 2: [(0, 3), (1, 1)]}
    excluded = made.pipeline().exclude(made.program(program))
    for interrupt in some_interrupters("exclusions"):
        with iter(excluded) as iterator:
            seen = list[Any]()
            interrupt(partial(take_all, iterator, seen))
            assert iterator.step == iterator.get_state()["step"] == len(seen)
            take_all(iterator, seen)
            assert seen == made.remaining(program)


def take_all(items: Any, seen: list[Any]) -> None:
    for item in items:
        seen.append(item)
