"""States as bytes: exact, and refused where they cannot be."""

from __future__ import annotations

import inspect
import math
import sys
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import run_python
from support.graphs import Point

import resumable as rs
from resumable.core.resuming import explain_mismatch
from resumable.state.encoding import MAGIC
from resumable.testing.comparing import same

DTYPES = ["?", "<i1", "<u2", ">i4", "<i8", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16"]
TEXT = st.text(st.characters(exclude_categories=[]))
TIMES = st.sampled_from(["<M8[s]", "<M8[25us]", "<m8[Y]", "<M8", "<m8", "<M8[D]"])


def texts(values: list[str], order: str) -> np.ndarray[Any, Any]:
    return np.array(values, f"{order}U{max(map(len, values), default=3) or 1}")


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | TEXT
    | st.binary()
    | st.sampled_from(DTYPES).map(lambda code: np.arange(6).astype(code).reshape(3, 2))
    | st.sampled_from(DTYPES).map(lambda code: np.arange(2).astype(code)[1])
    | st.sampled_from(DTYPES).map(lambda code: np.zeros((2, 0, 3), code))
    | TEXT.map(np.str_)
    | st.binary().map(np.bytes_)
    | st.tuples(st.lists(TEXT), st.sampled_from("<>")).map(lambda pair: texts(*pair))
    | st.tuples(st.integers(-(2**63), 2**63 - 1), TIMES).map(
        lambda pair: np.int64(pair[0]).view(pair[1])
    )
    | st.tuples(st.lists(st.integers(0, 99)), TIMES).map(
        lambda pair: np.array(pair[0], "<i8").view(pair[1])
    )
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_a_state_survives_its_bytes(state: dict[str, Any]) -> None:
    data = rs.dumps(state)
    assert same(rs.loads(data), state)
    assert rs.dumps(rs.loads(data)) == data


REFUSED = {
    "set": {1, 2},
    "object": object(),
    "named tuple": Point(1, 2),
    "masked array": np.ma.masked_array([1, 2], [True, False]),
    "ordered dict": OrderedDict(a=1),
    "object array": np.array([object()]),
    "records": np.zeros(2, "i4,f4"),
    "function": len,
    "float key": {1.0: 2},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_form_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(rs.UnencodableState, match=r"state\['outer'\]\[1\]"):
        rs.dumps({"outer": [0, REFUSED[name]]})


def test_threads_and_values_within_values_do_not_disturb_each_other() -> None:
    def state(number: int) -> dict[str, Any]:
        # Each tuple is packed while what holds it is.
        return {"n": number, "deep": ((number, (number, 1j)), [(2**70 + number, "x" * number)])}

    expected = [rs.dumps(state(number)) for number in range(50)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: rs.dumps(state(n % 50)), range(2000))) == expected * 40
    assert [rs.loads(data) for data in expected] == [state(number) for number in range(50)]


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(rs.UnencodableState, match="nested"):
        rs.dumps({"cycle": cycle})


Wrap = Callable[[Any], Any]
WRAPS: list[Wrap] = [lambda v: {"a": v}, lambda v: [0, v], lambda v: (v, "b")]


def nested(wraps: list[Wrap]) -> dict[str, Any]:
    value: Any = 2**70
    for wrap in wraps:
        value = wrap(value)
    return {"state": value}


@given(st.lists(st.sampled_from(WRAPS), max_size=50))
def test_fifty_levels_of_anything_survive(wraps: list[Wrap]) -> None:
    state = nested(wraps)
    assert rs.loads(rs.dumps(state)) == state


@pytest.mark.parametrize(("wrap", "most"), list(zip(WRAPS, (400, 400, 50), strict=True)))
def test_the_deepest_state_survives_and_a_deeper_one_is_refused(wrap: Wrap, most: int) -> None:
    deepest = nested([wrap] * most)
    assert rs.loads(rs.dumps(deepest)) == deepest
    with pytest.raises(rs.UnencodableState, match="nested deeper than 400 levels") as refused:
        rs.dumps(nested([wrap] * (most + 1)))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("shape", ["dict", "list", "tuple"])
def test_bytes_nested_deeper_than_a_state_are_refused(shape: str) -> None:
    levels = 60 if shape == "tuple" else 401
    inner = {
        "dict": b"\x81\xa1a" * levels + b"\xc0",
        "list": b"\x91" * levels + b"\xc0",
        "tuple": nested_extensions(levels),
    }
    with pytest.raises(rs.CorruptCheckpoint, match="nested too deeply"):
        rs.loads(MAGIC + b"\x81\xa1a" + inner[shape])


def test_hostile_bytes_need_no_more_stack_the_deeper_they_are_nested() -> None:
    script = (
        "import threading, resumable as rs\n"
        "def load():\n"
        "    try: rs.loads(bytes.fromhex(DATA))\n"
        "    except rs.CorruptCheckpoint as error: print(error)\n"
        "threading.stack_size(256 * 1024)\n"
        "thread = threading.Thread(target=load)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    data = (MAGIC + b"\x81\xa1a" + nested_extensions(300)).hex()
    run = run_python("-c", script.replace("DATA", repr(data)))
    assert (run.returncode, run.stderr) == (0, "")
    assert "nested too deeply" in run.stdout


def test_a_state_is_refused_where_python_has_no_frames_left_to_copy_it() -> None:
    deep = nested([WRAPS[0]] * 390)
    iterator = iter(rs.range(9))
    next(iterator)

    def restore(frames: int) -> None:
        if frames:
            restore(frames - 1)
        else:
            iterator.set_state(deep)

    free = sys.getrecursionlimit() - len(inspect.stack())
    with pytest.raises(rs.StateMismatch, match=r"not a state.*Python's recursion limit"):
        restore(free - 200)
    assert next(iterator) == 1


def array(code: str, shape: list[int], data: bytes) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(3, msgpack.packb([code, shape, data]))))


def nested_extensions(levels: int) -> bytes:
    data = bytes(msgpack.packb([]))
    for _ in range(levels):
        data = bytes(msgpack.packb(msgpack.ExtType(2, b"\x91" + data)))
    return data


@given(st.binary(max_size=200))
def test_any_bytes_give_a_state_or_one_error(data: bytes) -> None:
    for candidate in (data, MAGIC + data):
        try:
            state = rs.loads(candidate)
        except rs.CorruptCheckpoint:
            continue
        assert isinstance(state, dict)


def test_every_cut_and_every_appended_byte_is_refused() -> None:
    with iter(rs.range(9).shuffle(0).batch(2)) as iterator:
        data = rs.dumps(iterator.get_state())
    for size in range(len(data)):
        with pytest.raises(rs.CorruptCheckpoint):
            rs.loads(data[:size])
    with pytest.raises(rs.CorruptCheckpoint):
        rs.loads(data + b"\x00")


@pytest.mark.parametrize(
    "data",
    [
        MAGIC + b"\x82\xa1a\x01\xa1a\x02",  # one key twice
        MAGIC + b"\x91" * 5000,  # nested deeply
        MAGIC + b"\xdf\xff\xff\xff\xff",  # a dict said to have 2**32 - 1 entries
        MAGIC + b"\x81\xc2\x02",  # a key that is a bool
        MAGIC + b"\x81\xa1a\xd4\x63\x00",  # an unknown extension
        MAGIC + b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",  # a time
        MAGIC + b"\x81\xc4\x01a\x02",  # a key of bytes
        MAGIC + b"\x81\xa1a" + nested_extensions(300),  # deeper than the stack of the C decoder
        MAGIC + b"\x81\xa1a\xc7\x0e\x05" + msgpack.packb([1, 2**63]) + b"\xc0" * 3,
        MAGIC + b"\x81\xa1a" + array(",", [1], b"a"),
        MAGIC + b"\x81\xa1a" + array("|b1", [1], b"\x05"),
        MAGIC + b"\x81\xa1a" + array("<i4", [-1], b"aaaa"),
        MAGIC + b"\x81\xa1a" + array("<i4", [2**62, 0], b""),
        MAGIC + b"\x81\xa1a" + array("<f16", [1], bytes(16)),
        MAGIC + b"\x81\xa1a" + array("<U1", [1], b"\0\0\xff\xff"),  # no character
        MAGIC + b"\x81\xa1a" + array("<U0", [10**9], b""),
        MAGIC + b"\x81\xa1a" + array("<U999999999", [1], b""),
        MAGIC + b"\x81\xa1a" + array("<M8[zz]", [1], bytes(8)),
        MAGIC + b"\x81\xa1a" + array("<M8[0s]", [1], bytes(8)),
        MAGIC + b"\x81\xa1a" + array("|V3", [1], b"abc"),
        MAGIC + b"\x81\xa1a\xc7\x09\x03\x93\xa2|O\x91\x01\xc4\x01a",  # an array of objects
        "text",
        None,
    ],
)
def test_hostile_bytes_are_refused(data: Any) -> None:
    with pytest.raises(rs.CorruptCheckpoint):
        rs.loads(data)


@pytest.mark.deep
def test_a_bomb_of_empty_dicts_is_refused_before_it_fills_the_memory() -> None:
    bomb = MAGIC + b"\x81\xa1a\xdd" + (2**24).to_bytes(4, "big") + b"\x80" * 2**24
    tracemalloc.start()
    try:
        with pytest.raises(rs.CorruptCheckpoint, match="more than 500000 dicts and lists"):
            rs.loads(bomb)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_a_state_that_could_not_be_loaded_is_not_written() -> None:
    large: dict[str, Any] = {"items": [[] for _ in range(499_990)]}
    assert rs.loads(rs.dumps(large)) == large
    large["items"] += [(1,)] * 20
    with pytest.raises(rs.UnencodableState, match="more than 500000"):
        rs.dumps(large)


def test_a_fingerprint_that_cannot_be_read_is_a_mismatch() -> None:
    stage = rs.range(3).stage
    assert explain_mismatch(rs.range(3).fingerprint, stage) is None
    for saved in (None, 3, "", "[", "[" * 5000, "{}", "[1]", '["Range",3]', '["Other",{}]'):
        assert explain_mismatch(saved, stage)
        with pytest.raises(rs.StateMismatch):
            rs.range(3).resume({**iter(rs.range(3)).get_state(), "fingerprint": saved})


@pytest.mark.parametrize(
    "saved",
    [
        '["Range",{"stop":"' + "x" * 9999 + '"}]',
        '["Range",{"' + "x" * 9999 + '":1}]',
        '["' + "x" * 9999 + '"]',
        '["Range",{"stop":' + "[" * 400 + "]" * 400 + "}]",
    ],
)
def test_a_fingerprint_of_any_length_is_refused_in_few_words(saved: str) -> None:
    reason = explain_mismatch(saved, rs.range(3).stage)
    assert reason
    assert len(reason) < 1000


@dataclass(frozen=True, eq=False, repr=False)
class Changed(rs.Transform[int]):
    """A stage whose state got a new key in version 2."""

    version: ClassVar[int] = 2

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return ChangedIterator(self, epoch)


class ChangedIterator(rs.TransformIterator[int]):
    def pull(self, count: int) -> Any:
        return self._upstream.pull(count)

    def get_state(self) -> dict[str, Any]:
        return {"new": 0, **super().get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({key: value for key, value in state.items() if key != "new"})


def test_older_versions_of_a_state_are_read_and_newer_ones_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = rs.range(9).apply(Changed)
    assert pipeline.fingerprint == '["Changed@2",["Range",{"stop":9}]]'
    with iter(pipeline) as iterator:
        list(islice(iterator, 4))
        state = iterator.get_state()
    older = {**state, "fingerprint": state["fingerprint"].replace("@2", "")}
    del older["pipeline"]["new"]
    assert list(pipeline.resume(older)) == [4, 5, 6, 7, 8]
    newer = {**state, "fingerprint": state["fingerprint"].replace("@2", "@3")}
    with pytest.raises(rs.StateMismatch, match=r"version 3.*up to 2; was it written by a newer"):
        pipeline.resume(newer)


def test_a_field_added_later_with_a_default_keeps_old_states_readable() -> None:
    assert rs.range(5).fingerprint == '["Range",{"stop":5}]'
    assert rs.range(5).shuffle(3).fingerprint == '["Shuffle",{"seed":3},["Range",{"stop":5}]]'
    assert rs.range(5).map(abs).fingerprint == '["Map",["Range",{"stop":5}]]'


def test_prefetch_and_workers_are_no_part_of_a_fingerprint() -> None:
    plain = rs.range(5).map(abs).batch(2)
    tuned = rs.range(5).prefetch(1).map(abs, workers=3).batch(4).prefetch(9)
    assert plain.fingerprint == tuned.fingerprint


def test_nan_is_kept() -> None:
    assert math.isnan(rs.loads(rs.dumps({"value": math.nan}))["value"])


@pytest.mark.parametrize("bits", range(60, 90))
def test_integers_around_every_power_of_two_come_back(bits: int) -> None:
    numbers = [sign * 2**bits + more for sign in (1, -1) for more in (-1, 0, 1)]
    assert rs.loads(rs.dumps({"numbers": numbers})) == {"numbers": numbers}
