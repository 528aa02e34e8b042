"""States with tensors of sources and functions go through real bytes and come back bit for bit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader, with_tensors  # noqa: E402
from torch_adapter.data import listed  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.testing import check_resumes_everywhere  # noqa: E402

LENGTH = 12


class Noise:
    """Draws each item from a generator of torch's, whose state is a tensor; iterable again and again."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)
        self.count = 0

    def __iter__(self) -> Iterator[float]:
        while self.count < LENGTH:
            self.count += 1
            yield float(torch.rand((), generator=self.generator))

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator = torch.Generator()
        self.generator.set_state(state["generator"])
        self.count = state["count"]


class Running(Noise):
    """The same as an iterator."""

    def __next__(self) -> float:
        for item in Noise.__iter__(self):
            return item
        raise StopIteration

    def __iter__(self) -> Iterator[float]:
        return self


class Anew(Noise):
    """Begins anew with each pass, as an iterable does, or where it was set to."""

    start: Any = None
    now: Any = None

    def __iter__(self) -> Iterator[float]:
        self.now = Noise()
        if self.start is not None:
            self.now.load_state_dict(self.start)
            self.start = None
        return iter(self.now)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self.now.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state


class JitterFunction:
    """A function with such a state."""

    def __init__(self) -> None:
        self.noise = Noise()
        self.state_dict = self.noise.state_dict
        self.load_state_dict = self.noise.load_state_dict

    def __call__(self, number: int) -> float:
        return number + float(torch.rand((), generator=self.noise.generator))


class Summing(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module whose state is a buffer, in an `OrderedDict`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros((), dtype=torch.int64))

    def forward(self, number: int) -> int:
        self.total += number
        return int(self.total)


def test_a_tensor_in_the_state_of_a_source_is_refused_with_the_way_out() -> None:
    iterator = iter(rs.from_iterable(Noise()))
    next(iterator)
    with pytest.raises(
        rs.UnencodableState,
        match=r"holds a torch\.Tensor, .*; resumable_torch\.with_tensors\(source\)",
    ):
        iterator.get_state()


@pytest.mark.parametrize(
    "make",
    [
        lambda: rs.from_iterable(with_tensors(Running())),
        lambda: rs.from_iterable(lambda: with_tensors(Running())),
        lambda: rs.range(LENGTH).map(with_tensors(JitterFunction())),
        lambda: rs.range(LENGTH).map(with_tensors(Summing())),
        lambda: rs.range(LENGTH).map(with_tensors(torch.nn.Sequential(Summing()))),
    ],
    ids=["iterator", "function that makes one", "mapped function", "module", "module of modules"],
)
def test_a_source_with_tensors_in_its_state_resumes_everywhere(make: Any) -> None:
    expected = list(make())
    assert len(expected) == LENGTH
    for stop in range(LENGTH + 1):
        iterator = iter(make())
        got = [next(iterator) for _ in range(stop)]
        state = rs.loads(rs.dumps(iterator.get_state()))
        assert got + list(make().resume(state)) == expected, stop


def test_a_resume_of_an_iterable_ends_a_pass_over_it() -> None:
    pipeline: Any = rs.from_iterable(with_tensors(Anew()))
    check_resumes_everywhere(pipeline)
    running = iter(pipeline)
    expected = list(pipeline)
    for _ in range(5):
        next(running)
    resumed = pipeline.resume(running.get_state())
    assert next(resumed) == expected[5]
    with pytest.raises(rs.ExternalStateError, match="a later iterator reads"):
        running.get_state()
    assert list(pipeline.resume(resumed.get_state())) == expected[6:]


def test_workers_send_such_a_state_and_another_number_of_them_resumes() -> None:
    def loader(workers: int) -> Any:
        dataset = PipelineDataset(rs.from_iterable(with_tensors(Anew())))
        return ResumableDataLoader(dataset, 2, num_workers=workers, collate_fn=listed)

    expected = list(loader(0))
    stopped = loader(2)
    running = iter(stopped)
    got = [next(running) for _ in range(3)]
    state = stopped.state_dict()
    del running
    again = loader(1)
    again.load_state_dict(state)
    assert got + list(again) == expected


class Holder:
    """Something with a state that is given."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __call__(self) -> None:
        raise AssertionError

    def get_state(self) -> Any:
        return self.state

    def set_state(self, state: Any) -> None:
        self.state = state


def through_bytes(value: Any) -> Any:
    saved = rs.loads(rs.dumps({"state": with_tensors(Holder(value)).get_state()}))["state"]
    holder = Holder(None)
    with_tensors(holder).set_state(saved)
    return holder.state


KEPT = [
    *(
        "bool",
        "uint8",
        "uint16",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
    ),
    *("complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
]


@pytest.mark.parametrize("name", KEPT)
def test_a_tensor_comes_back_bit_for_bit(name: str) -> None:
    dtype = getattr(torch, name)
    random = np.random.default_rng(0)
    numbers = random.integers(0, 2 if name == "bool" else 256, dtype.itemsize * 6, np.uint8)
    tensor = torch.from_numpy(numbers).view(dtype).reshape(2, 3)
    for value in (tensor, tensor[1, 2], tensor.t(), tensor[:, 1:], tensor[:0]):
        back = through_bytes([{"a": (value, 1)}])[0]["a"][0]
        assert type(back) is torch.Tensor
        assert (back.dtype, back.shape, back.device.type) == (dtype, value.shape, "cpu")
        assert bits(back) == bits(value)


def bits(tensor: Any) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist())


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.filterwarnings("ignore:.*quantiz")
def test_what_is_no_plain_tensor_is_refused() -> None:
    for value, message in (
        (torch.eye(2).to_sparse(), "must be dense"),
        (torch.zeros(2, device="meta"), "must be dense"),
        (torch.ones(2, requires_grad=True), "detach it"),
        (torch.nn.Parameter(torch.ones(2)), "Parameter"),
        (torch.zeros(2, dtype=torch.complex32), "dtype torch.complex32 in a state has no exact"),
        (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), "must be dense"),
        ({"torch.Tensor": 1}, "must not have the key"),
        (OrderedDict({"torch.Tensor": 1}), "must not have the key"),
    ):
        with pytest.raises(rs.UnencodableState, match=message):
            through_bytes([value])
    conjugated = torch.tensor([1 + 2j]).conj()
    assert through_bytes(conjugated).tolist() == [1 - 2j]


def test_a_state_that_was_changed_is_refused() -> None:
    for dtype, array in (
        ("no_dtype", np.zeros(2)),
        ("nn", np.zeros(2)),
        (3, np.zeros(2)),
        ("float32", np.zeros(2)),
        ("float32", [1.0]),
    ):
        with pytest.raises(rs.StateMismatch, match="a saved tensor must be an array of"):
            with_tensors(Holder(None)).set_state({"torch.Tensor": dtype, "array": array})
    big = Holder(None)
    with_tensors(big).set_state({"torch.Tensor": "int32", "array": np.arange(3, dtype=">i4")})
    assert big.state.tolist() == [0, 1, 2]


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(rs.InvalidType, match="wrap what it returns"):
        with_tensors(Running)
    with pytest.raises(rs.InvalidType, match="must have get_state and set_state"):
        with_tensors([1])
