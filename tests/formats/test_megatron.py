"""Token files of Megatron-LM: every document and sequence as they were written, or an error that says what is wrong."""

from __future__ import annotations

import json
import os
import pickle
import struct
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.megatron_files import CODES, files_of, write_tokens
from formats.of_megatron import DOCUMENTS
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.file_cache.part_file import HEADER
from resumable.formats.io import held_ranges
from resumable.testing import check_stage


def joined(sequences: Any) -> list[int]:
    return list(chain.from_iterable(sequences))


SEQUENCES = [sequence for document in DOCUMENTS for sequence in document]
JOINED: list[list[int]] = [joined(document) for document in DOCUMENTS]

some_documents = st.lists(
    st.lists(st.lists(st.integers(0, 127), max_size=5), max_size=4), max_size=6
)


def listed(items: Any) -> list[list[Any]]:
    return [item.tolist() for item in items]


@given(some_documents, st.sampled_from(sorted(CODES)), st.booleans())
def test_documents_and_sequences_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[list[int]]],
    dtype: str,
    modes: bool,
) -> None:
    folder = tmp_path_factory.mktemp("tokens", numbered=True)
    prefix = write_tokens(folder / "tokens", documents, dtype, modes)
    whole, sequences = rs.megatron(prefix), rs.megatron(prefix, items="sequence")
    assert listed(whole) == [joined(document) for document in documents]
    assert listed(sequences) == [sequence for document in documents for sequence in document]
    assert {item.dtype for item in (*whole, *sequences)} <= {np.dtype(dtype)}
    backwards = np.arange(len(whole))[::-1]
    assert listed(whole.gather(backwards)) == listed(whole)[::-1]


def test_the_layout_is_that_of_files_which_megatron_has_written() -> None:
    theirs = json.loads((Path(__file__).parent / "of_megatron.json").read_text())
    ours = {
        f"{dtype}{' with modes' * modes}": [
            part.hex() for part in files_of(DOCUMENTS, dtype, modes)
        ]
        for dtype in CODES
        for modes in (False, True)
    }
    assert ours == theirs


@pytest.fixture
def prefixes(tmp_path: Path) -> list[Path]:
    """Two corpora with other dtypes."""
    first = write_tokens(tmp_path / "a_document", DOCUMENTS, "int32")
    return [first, write_tokens(tmp_path / "b_document", [[[300, 301]], [[1], [2]]])]


def test_several_prefixes_are_one_after_the_other(prefixes: list[Path], tmp_path: Path) -> None:
    expected = [*JOINED, [300, 301], [1, 2]]
    (tmp_path / "a_document.jsonl.lines.idx").write_bytes(b"a cache of another format")
    for paths in (
        prefixes,
        [f"{prefixes[0]}.idx", f"{prefixes[1]}.bin"],
        str(tmp_path / "*_document"),
        str(tmp_path / "*.idx"),
        str(tmp_path / "*"),
    ):
        found = rs.megatron(paths)
        assert listed(found) == expected
        assert len(found) == len(expected)
        assert [item.dtype for item in found[[0, -1]]] == [np.int32, np.uint16]


def test_items_may_be_written_to_and_no_other_reader_sees_it(prefixes: list[Path]) -> None:
    pipeline = rs.megatron(prefixes)
    for item in (pipeline[0], next(iter(pipeline)), next(iter(pipeline.batch(2, collate=list)))[0]):
        item[:] = 0
    assert pipeline[0].tolist() == JOINED[0]


def zeroed(tokens: Any) -> list[int]:
    """The ``tokens``, which are written over."""
    before: list[int] = tokens.tolist()
    tokens[:] = 0
    return before


@pytest.mark.parametrize("items", ["document", "sequence"])
def test_what_is_written_to_an_item_is_not_in_another_one_of_the_same_tokens(
    prefixes: list[Path], items: str
) -> None:
    pipeline = rs.megatron(prefixes, items=items)
    expected = listed(pipeline)
    indexed = pipeline.stage.indexed()
    assert indexed is not None
    for index in (0, 1, 2, 2, 1, 0, 1, 2):  # the second is next to the first, which begins a page
        assert zeroed(indexed.item(index)) == expected[index]
    repeated = pipeline.repeat(20).shuffle(0)
    assert list(repeated.map(zeroed)) == listed(repeated)


@pytest.mark.parametrize("items", ["document", "sequence"])
def test_it_is_a_source_as_others_are(prefixes: list[Path], items: str) -> None:
    check_stage(rs.megatron(prefixes, items=items))
    pipeline = rs.megatron(prefixes, items=items).shuffle(0).repeat(2)
    assert listed(pickle.loads(pickle.dumps(pipeline))) == listed(pipeline)


def test_each_partition_reads_its_documents(prefixes: list[Path]) -> None:
    def rows(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return part.pack(16, group=4)

    tokens_of_one_dtype = rs.megatron(prefixes).shuffle(0).map(lambda tokens: tokens.astype("i4"))
    packed = tokens_of_one_dtype.partition(2, rows)
    tokens = [row["tokens"][row["segment_ids"] > 0] for row in packed]
    assert sorted(np.concatenate(tokens).tolist()) == sorted(joined([*JOINED, [300, 301, 1, 2]]))


def test_items_say_where_they_lie_and_can_be_left_out(prefixes: list[Path]) -> None:
    pipeline = rs.megatron(prefixes, items="sequence")
    origin: Any = rs.origins(pipeline)[len(SEQUENCES) + 1]
    assert (origin.file, origin.record, origin.offset) == (f"{prefixes[1]}.bin", 1, 4)
    left = rs.megatron(prefixes).exclude({"b_document.bin": [0], "a_document.bin": [0, 5]})
    assert listed(left) == [*JOINED[1:5], JOINED[6], [1, 2]]


def test_a_state_of_other_items_tokens_or_dtypes_is_refused(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens", [[[1, 2], [3]], [[4]]])

    def resumed(documents: Any = ([[1, 2], [3]], [[4]]), **options: Any) -> None:
        with iter(rs.megatron(tmp_path / "tokens")) as iterator:
            next(iterator)
            state = iterator.get_state()
        dtype = options.pop("dtype", "uint16")
        write_tokens(tmp_path / "tokens", documents, dtype)
        rs.megatron(tmp_path / "tokens", **options).resume(state).close()

    resumed()
    refused: list[dict[str, Any]] = [
        {"items": "sequence"},
        {"documents": ([[1, 2], [3]], [[5]])},
        {"documents": ([[1, 2]], [[3], [4]])},
        {"dtype": "int16"},
    ]
    for other in refused:
        write_tokens(tmp_path / "tokens", [[[1, 2], [3]], [[4]]])
        with pytest.raises(rs.StateMismatch, match=r"items=document|tokens\.bin has other content"):
            resumed(**other)


def changed(data: bytes, at: int, layout: str, value: Any) -> bytes:
    """``data`` with another number ``at`` an offset."""
    part = struct.pack(f"<{layout}", value)
    return data[:at] + part + data[at + len(part) :]


INDEX, TOKENS = files_of([[[1, 2], [3]], [[4]]])
LENGTHS = 34
OFFSETS, BOUNDS = LENGTHS + 3 * 4, LENGTHS + 3 * 12


@pytest.mark.parametrize(
    ("index", "tokens", "says"),
    [
        (b"", TOKENS, "it has 0 bytes, and the head alone has 34"),
        (b"T" + INDEX[1:], TOKENS, r"must begin with b'MMIDIDX\\x00\\x00', and begins with b'TMID"),
        (changed(INDEX, 9, "Q", 2), TOKENS, "its version must be 1, and is 2"),
        (changed(INDEX, 17, "B", 9), TOKENS, "the code of its dtype must be 1 to 8, and is 9"),
        (changed(INDEX, 17, "B", 4), TOKENS, r"its sequences have 16 bytes, and \S*t\.bin has 8"),
        (INDEX[:-1], TOKENS, "it has 93 bytes, and needs 94 for 3 sequences and 2 documents, or 97"),
        (INDEX + b"mode", TOKENS, "it has 98 bytes, and needs 94 "),
        (changed(INDEX, 18, "Q", 2**63), TOKENS, "it has 94 bytes, and needs"),
        (changed(INDEX, LENGTHS, "i", -2), TOKENS, "sequence 0 has -2 tokens"),
        (INDEX, TOKENS[:-1], r"its sequences have 8 bytes, and \S*t\.bin has 7; is one .* cut short"),
        (INDEX, TOKENS + b"\0\0", r"its sequences have 8 bytes, and \S*t\.bin has 10"),
        (changed(INDEX, OFFSETS + 8, "q", 2), TOKENS, "sequence 1 must begin at byte 4, .* begins at 2"),
        (changed(INDEX, OFFSETS, "q", 2), TOKENS, "sequence 0 must begin at byte 0"),
        (changed(INDEX, BOUNDS, "q", 1), TOKENS, r"end after all 3, and are bounded by \[1, 3\]"),
        (changed(INDEX, BOUNDS + 16, "q", 2), TOKENS, r"end after all 3, and are bounded by \[0, 2\]"),
        (changed(INDEX, BOUNDS + 8, "q", 4), TOKENS, "document 1 ends before it begins"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused_when_they_are_opened(
    tmp_path: Path, index: bytes, tokens: bytes, says: str
) -> None:
    (tmp_path / "t.idx").write_bytes(index)
    (tmp_path / "t.bin").write_bytes(tokens)
    for items in ("document", "sequence"):
        with pytest.raises(rs.MalformedItem, match=rf"t\.idx: no index of Megatron-LM.*: .*{says}"):
            rs.megatron(tmp_path / "t", items=items)


def test_a_missing_file_of_the_two_is_named(prefixes: list[Path], tmp_path: Path) -> None:
    os.remove(f"{prefixes[0]}.bin")
    with pytest.raises(FileNotFoundError, match=r"a_document\.bin"):
        rs.megatron(prefixes[0])
    with pytest.raises(FileNotFoundError, match=r"none\.idx"):
        rs.megatron(tmp_path / "none")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    for count in (3, 100_000):  # read as a whole, and mapped
        pipeline = rs.megatron(write_tokens(tmp_path / str(count), [[[7] * count]] * 2))
        assert pipeline[0].tolist() == [7] * count
        os.truncate(tmp_path / f"{count}.bin", 4)
        changed_since = rs.megatron(write_tokens(tmp_path / "other", [[[7]]]))
        os.truncate(tmp_path / "other.bin", 0)
        with pytest.raises(rs.MalformedItem, match=r"other\.bin changed since"):
            list(changed_since)
    with pytest.raises(rs.MalformedItem, match=r"100000\.bin changed since"):
        pipeline[1]


def test_remote_files_are_read_by_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    documents = [[[number % 97] * (number % 40), [1]] for number in range(300)]
    local = rs.megatron(write_tokens(tmp_path / "tokens", documents))
    memory = fsspec.filesystem("memory")
    for ending in ("idx", "bin"):
        memory.pipe_file(f"/megatron/tokens.{ending}", (tmp_path / f"tokens.{ending}").read_bytes())
    monkeypatch.setattr(held_ranges, "NEAR", 64)
    for url in ("memory://megatron/tokens", "memory://megatron/*", "memory://megatron/tokens.bin"):
        remote = rs.megatron(url)
        assert remote.fingerprint == local.fingerprint
        assert listed(remote.shuffle(0)) == listed(local.shuffle(0))
    read = list[int]()
    cat_file = memory.cat_file

    def counted(path: str, start: Any = None, end: Any = None, **options: Any) -> Any:
        read.append(end - start)
        return cat_file(path, start=start, end=end, **options)

    monkeypatch.setattr(memory, "cat_file", counted)
    assert remote[250].tolist() == local[250].tolist()
    assert read == [local[250].nbytes]


@pytest.mark.filterwarnings("ignore:an order has:RuntimeWarning")
def test_empty_documents_come_through_a_cache_that_is_full(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    part = 1 << 16
    documents = [[[], [[number] * 50_000]][number % 2] for number in range(128)]
    local = rs.megatron(write_tokens(tmp_path / "tokens", documents))
    memory = fsspec.filesystem("memory")
    for ending in ("idx", "bin"):
        content = (tmp_path / f"tokens.{ending}").read_bytes()
        memory.pipe_file(f"/megatron_in_a_cache/tokens.{ending}", content)
    cache = rs.FileCache(tmp_path / "parts", 4 * (part + HEADER.size), part, read_ahead=0)
    remote = rs.megatron("memory://megatron_in_a_cache/tokens", cache=cache)
    for seed in range(2):
        shuffled = [each.shuffle(seed).batch(16, collate=list) for each in (remote, local)]
        got, expected = [[tokens for batch in each for tokens in batch] for each in shuffled]
        assert all(map(np.array_equal, got, expected))
        assert len(got) == len(expected)
