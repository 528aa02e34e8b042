"""Bad arguments raise at construction, naming argument, rule and value."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.facts import STAGE_FACTS, Refusal
from support.graphs import stream
from support.samples import ten

import resumable as rs


class Table:
    """What a table of pyarrow looks like."""

    columns = ()

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return f"column {index}"


Table.__module__ = "pyarrow.lib"


REFUSED: list[Refusal] = [
    *STAGE_FACTS.gathered(lambda facts: facts.refused),
    (lambda: rs.range(0, 5, 0), ValueError, "step must not be 0, got 0"),
    (lambda: rs.range(2.5), TypeError, "stop must be an integer, got 2.5"),  # type: ignore[call-overload]
    (lambda: rs.range(True), TypeError, "stop must be an integer, got True"),
    (lambda: rs.range(0, "9"), TypeError, "stop must be an integer, got '9'"),  # type: ignore[call-overload]
    (lambda: rs.range(2**63), ValueError, r"at most 2\*\*62 items, got 9223372036854775808"),
    (lambda: rs.range(10**5000), ValueError, "stop must be at most.*too large to show"),
    (lambda: rs.range(10**400, 0), ValueError, "start must fit in int64, got 1000"),
    (lambda: rs.range(0, 2**70, 2**69), ValueError, "must fit in int64"),
    (lambda: rs.from_sequence(5), TypeError, "sequence must have __len__ and __getitem__"),  # type: ignore[arg-type]
    (lambda: rs.from_sequence({"a": 1}), TypeError, "use from_iterable"),  # type: ignore[dict-item]
    (lambda: rs.from_sequence(np.array(3)), TypeError, "must have a first axis"),
    (lambda: rs.from_sequence(range(2**63)), ValueError, r"at most 2\*\*62 items, got range\(0, 9223372036854775808\)"),
    (lambda: rs.from_sequence(str), TypeError, "sequence must have __len__ and __getitem__"),  # type: ignore[arg-type]
    (lambda: rs.from_arrays([1, 2]), TypeError, r"arrays must be a NumPy array, or a tuple or dict of them, got \[1, 2\]"),
    (lambda: rs.from_arrays(()), ValueError, "at least one array"),
    (lambda: rs.from_arrays({}), ValueError, "at least one array"),
    (lambda: rs.from_arrays((np.arange(2), np.arange(3))), ValueError, "same first axis, got 2 for 0 and 3 for 1"),
    (lambda: rs.from_arrays({"a": np.array(1)}), ValueError, r"arrays\['a'\] must have a first axis"),
    (lambda: rs.from_iterable(5), TypeError, "iterable must be iterable, got 5"),  # type: ignore[call-overload]
    (lambda: rs.from_iterable(np.int8(3)), TypeError, "iterable must be iterable, got"),
    (
        lambda: rs.from_iterable([1], external_state_policy="maybe"),
        ValueError,
        "external_state_policy must be one of 'fail', 'warn', 'ignore', got 'maybe'",
    ),
    (lambda: rs.lines([]), ValueError, "at least one file"),
    (lambda: rs.lines("nowhere/*.txt"), ValueError, r"match at least one file, got 'nowhere/\*.txt'"),
    (lambda: rs.lines("nowhere.txt"), FileNotFoundError, "nowhere.txt"),
    (lambda: rs.lines(5), TypeError, "paths must be"),  # type: ignore[arg-type]
    (lambda: rs.lines(io.StringIO("a")), TypeError, "pass its path"),
    (lambda: rs.lines(__file__, errors="nope"), ValueError, "errors must be a handler known to Python"),
    (lambda: rs.lines(np.array(3)), TypeError, r"paths must be a path, a pattern or several, got array\(3\)"),
    (lambda: rs.lines(__file__, index_dir=3), TypeError, "index_dir must be a path or None, got 3"),  # type: ignore[arg-type]
    (lambda: rs.lines(__file__, errors=10**5000), ValueError, "errors must be .*too large to show"),  # type: ignore[arg-type]
    (lambda: rs.lines(__file__, encoding=10**5000), TypeError, "encoding must be .*too large to show"),  # type: ignore[arg-type]
    (lambda: rs.csv(__file__, columns=np.array(3)), TypeError, "columns must be a list of names"),  # type: ignore[arg-type]
    (lambda: ten.apply(3), TypeError, "stage must be callable, got 3"),
    (lambda: rs.lines(__file__, encoding=5), TypeError, "encoding must be a string"),  # type: ignore[arg-type]
    (lambda: rs.lines(__file__, skip_blank="no"), TypeError, "skip_blank must be True or False"),  # type: ignore[arg-type]
    (lambda: rs.from_iterable({1, 2}), TypeError, r"must have an order, got the set.*sorted"),
    (lambda: rs.lines([5]), TypeError, "paths must hold paths, got 5"),  # type: ignore[list-item]
    (lambda: rs.lines("/"), ValueError, "regular files, got '/'"),
    (lambda: rs.lines(__file__, encoding="utf-16"), ValueError, "newline as one byte"),
    (lambda: rs.lines(__file__, encoding="klingon"), ValueError, "known to Python"),
    (lambda: rs.lance(5), TypeError, "uri must be a path or a URI, got 5"),  # type: ignore[arg-type]
    (lambda: rs.lance(b"a.lance"), TypeError, "uri must be a path or a URI, got b'a.lance'"),  # type: ignore[arg-type]
    (lambda: rs.lance(""), ValueError, "uri must name a dataset, got ''"),
    (lambda: rs.lance("a", []), ValueError, "columns must name at least one column, got none"),
    (lambda: rs.lance("a", "x"), TypeError, "columns must be a list of names, got 'x'"),
    (lambda: rs.lance("a", ["x", "x"]), ValueError, r"columns must be different, got \['x', 'x'\]"),
    (lambda: rs.lance("a", version=0), ValueError, r"version must be at least 1, and below 2\*\*63, got 0"),
    (lambda: rs.lance("a", version=1.0), TypeError, "version must be a number or a tag, got 1.0"),  # type: ignore[arg-type]
    (lambda: rs.lance("a", version=True), TypeError, "version must be a number or a tag, got True"),
    (lambda: rs.lance("a", storage_options=[]), TypeError, r"storage_options must be a dict, got \[\]"),  # type: ignore[arg-type]
    (lambda: rs.lance("a", storage_options={"allow_http": True}), TypeError, "storage_options must have strings for Lance's object store, got 'allow_http': True"),  # type: ignore[dict-item]
    (lambda: rs.megatron(__file__, items="token"), ValueError, "items must be one of 'document', 'sequence', got 'token'"),
    (lambda: rs.megatron("nowhere/*"), ValueError, r"match at least one file, got 'nowhere/\*.idx'"),
    (lambda: rs.megatron(5), TypeError, "paths must be a path, a pattern or several, got 5"),  # type: ignore[arg-type]
    (lambda: rs.mds(5), TypeError, "path must be the path of a folder, or a URL, got 5"),  # type: ignore[arg-type]
    (lambda: rs.mds(""), ValueError, "path must be the path of a folder, or a URL, got ''"),
    (lambda: rs.mds(".", allow_pickle=1), TypeError, "allow_pickle must be True or False, got 1"),  # type: ignore[arg-type]
    (lambda: rs.litdata(["a"]), TypeError, r"path must be the path of a folder, or a URL, got \['a'\]"),  # type: ignore[arg-type]
    (lambda: rs.litdata(".", block_size=True), TypeError, "block_size must be an integer, got True"),
    (lambda: rs.litdata(".", tensors="jax"), ValueError, "tensors must be one of 'numpy', 'torch', got 'jax'"),
    (lambda: rs.litdata(".", allow_pickle=None), TypeError, "allow_pickle must be True or False, got None"),  # type: ignore[arg-type]
    (lambda: rs.mds(".", storage_options={}), ValueError, r"storage_options must be None for local files, got those called \[\]"),
    (lambda: rs.jsonl(__file__, on_error="ignore"), ValueError, "on_error must be one of"),
    (lambda: rs.from_sequence(Table()), TypeError, r"a pyarrow Table are columns; use from_sequence\(table.to_pylist\(\)\)"),
    (lambda: rs.from_iterable(Table()), TypeError, "must give rows, but those of a pyarrow Table are columns"),  # type: ignore[call-overload]
    (lambda: ten.apply(lambda pipeline: pipeline.map(abs)), TypeError, r"asks it for map; write fn\(pipeline\) instead"),
    (lambda: ten.start(-1), ValueError, "epoch must be at least 0, got -1"),
    (lambda: ten.start(2**63), ValueError, "epoch must be at most 9223372036854775807"),
    (lambda: ten.gather([0], epoch=-1), ValueError, "epoch must be at least 0, got -1"),
    (lambda: ten.gather([1.5]), TypeError, "indices must be integers"),
    (lambda: ten.gather([[1]]), ValueError, "indices must have one axis"),
    (lambda: ten.gather([0, 10]), ValueError, "indices must lie within 10 items"),
    (lambda: ten.shuffle(0).gather([-1]), ValueError, "indices must lie within 10 items"),
    (lambda: rs.Pipeline(5), TypeError, "stage must be a pipeline, got 5"),  # type: ignore[arg-type]
    (lambda: rs.EverySteps(0), ValueError, "steps must be at least 1, got 0"),
    (lambda: rs.EverySteps(True), TypeError, "steps must be an integer, got True"),
    (lambda: rs.EverySeconds(0), ValueError, "seconds must be finite and above 0, got 0"),
    (lambda: rs.EverySeconds(math.nan), ValueError, "seconds must be finite"),
    (lambda: rs.EverySeconds(math.inf), ValueError, "seconds must be finite"),
    (lambda: rs.EverySeconds(True), TypeError, "seconds must be a number"),
    (lambda: rs.EverySeconds("9"), TypeError, "seconds must be a number"),  # type: ignore[arg-type]
    (lambda: rs.EverySteps(3) | 3, TypeError, "composes with another trigger, got 3"),  # type: ignore[operator]
    (lambda: rs.Checkpointer("x", 3), TypeError, "trigger must be a trigger such as EverySteps\\(100\\), got 3"),  # type: ignore[arg-type]
    (
        lambda: rs.Checkpointer("x", rs.EverySteps(1), listeners=[5]),  # type: ignore[list-item]
        TypeError,
        "listeners must be CheckpointListener objects, got 5",
    ),
    (lambda: rs.Directory("x", "../x"), ValueError, "name must be letters"),
    (lambda: rs.Directory("x", 5), TypeError, "name must be a string"),  # type: ignore[arg-type]
    (lambda: rs.Checkpointer(3, rs.EverySteps(1)), TypeError, "store must be a path, a URL or a Store, got 3"),  # type: ignore[arg-type]
    (lambda: rs.Checkpointer(rs.Memory(), rs.EverySteps(1), name="x"), ValueError, "name belongs to a directory"),
    (lambda: rs.Directory("x", ".x"), ValueError, "name must be letters"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "error", "message"), REFUSED, ids=[message for _, _, message in REFUSED]
)
def test_a_bad_argument_is_refused_at_construction(
    make: Callable[[], Any],
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        make()
    assert list(tmp_path.iterdir()) == [], "it left something behind"


def test_a_compressed_file_that_is_not_named_so_is_refused_when_the_pipeline_is_built(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.txt").write_bytes(b"\x1f\x8b\x08rest")
    with pytest.raises(rs.InvalidArgument, match=r"uncompressed.*by gzip.*named so.*\.gz"):
        rs.lines(tmp_path / "x.txt")


def test_unknown_and_endless_lengths_are_told_by_len() -> None:
    for pipeline, reason in (
        (ten.repeat(), "Repeat has no len.*endless.*take"),
        (ten.filter(bool), "Filter has no len.*only after reading"),
        (stream(3), "FromIterable has no len"),
    ):
        with pytest.raises(TypeError, match=reason):
            len(pipeline)
        assert pipeline, "a pipeline is true, whatever its length"


def test_a_stream_refuses_indexing_with_a_reason() -> None:
    for use in (lambda: stream(3)[0], lambda: stream(3)[0:2], lambda: stream(3).gather([0])):  # type: ignore[arg-type]
        with pytest.raises(rs.InvalidType, match="FromIterable has no random access"):
            use()
    for index in (10, -11):
        with pytest.raises(IndexError, match=f"index {index} is out of range for 10 items"):
            ten[index]
    with pytest.raises(rs.InvalidType, match="index must be an integer"):
        ten["a"]
