"""What the tests of every format know of `megatron`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from campaigns.damaged_files import written as damaged_file
from campaigns.damaged_files import written_beside
from campaigns.damaged_records import check_named, damaged_anywhere
from formats.megatron_files import files_of, write_tokens
from formats.records_of_formats import files_in
from support.format_facts import FormatFacts, Mutation, OneSize, Pipelines

import resumable as rs


class TokenTarget:
    """The index of Megatron-LM's token files. The file of tokens is always the same."""

    damaged = staticmethod(damaged_anywhere)
    tokens = bytes(range(96))

    @cached_property
    def real(self) -> list[bytes]:
        """The same tokens as documents of other lengths and dtypes."""
        halves = np.frombuffer(self.tokens, "i2")
        splits = [[[halves]], [[halves[:9]], [halves[9:30], halves[30:]], []]]
        splits += [[[part] for part in np.split(halves, 8)]]
        quarters = [[part] for part in np.split(np.frombuffer(self.tokens, "i1"), 6)]
        found = [files_of(split, "int16", modes) for split in splits for modes in (False, True)]
        found.append(files_of(quarters, "int8"))
        assert {tokens for _, tokens in found} == {self.tokens}
        return [index for index, _ in found]

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as an index: how many items it gave, and whether it was refused.

        Raises:
          AssertionError: if the items are not the bytes of the file of tokens, whole and in order.
        """
        found = list[list[Any]]()
        with damaged_file(data, folder, ".idx") as path, written_beside(path, ".bin", self.tokens):
            try:
                for items in ("document", "sequence"):
                    found.append(list(rs.megatron(path, items=items)))
            except rs.MalformedItem as error:
                check_named(error, str(path))
                return 0, 1
        for items_of in found:
            joined = b"".join(item.tobytes() for item in items_of)
            assert joined == self.tokens, "tokens are lost, or stand twice"
        assert len(found[1]) == int.from_bytes(data[18:26], "little"), "sequences are lost"
        return len(found[0]), 0


def with_indexes(paths: list[Path]) -> rs.Pipeline[Any]:
    """The tokens, with an index beside each file."""
    for path in paths:
        path.with_suffix(".idx").write_bytes(files_of([[range(9)]] * 3)[0])
    return rs.megatron(paths)


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, "_document"):
        write_tokens(path, [[list(data)]] * 4)
    return rs.megatron(folder / "*_document")


def pipelines(folder: Path) -> Pipelines:
    return {
        "megatron": lambda: rs.megatron(folder / "*_document").shuffle(2).repeat(2),
        "megatron sequences": lambda: rs.megatron(
            [folder / "b_document", folder / "a_document.idx"], items="sequence"
        ),
    }


def write(folder: Path) -> None:
    sequences = [[list(range(number, 2 * number))] * (number % 3) for number in range(9)]
    write_tokens(folder / "a_document", sequences, "int32")
    write_tokens(folder / "b_document", [[[40_000, 1]], [[2]]], modes=True)


FACTS = FormatFacts(
    damaged=lambda: {"megatron": TokenTarget()},
    one_size={
        "megatron": OneSize(
            lambda number: files_of([[range(9 * number, 9 * number + 9)]] * 3)[1],
            with_indexes,
            "{}.bin",
        )
    },
    removed={"megatron": written},
    pipelines=pipelines,
    write=write,
    mutations=[
        Mutation("formats/megatron_index.py", "if size != tokens.size:", "if size > tokens.size:"),
        Mutation("formats/megatron_index.py", "(np.diff(starts) < 0)", "(starts < 0)"),
        Mutation("formats/megatron_index.py", "[starts[1:]]", "[starts[1:] - 1]"),
        Mutation(
            "formats/megatron_index.py", "self.content + self.dtype.str.encode()", "self.content"
        ),
        Mutation(
            "formats/megatron.py", "np.frombuffer(data, dtype).copy()", "np.frombuffer(data, dtype)"
        ),
    ],
)
