"""Batches of a host become global arrays, and a state resumes on any devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jax_adapter.devices import Mesh, PartitionSpec, divided, jax, mesh_of, plain
from resumable_jax import to_global

import resumable as rs

BATCH = {
    "x": np.arange(24, dtype=np.float32).reshape(8, 3),
    "y": (np.arange(8), {"z": np.arange(8) % 2 == 0}),
}
SQUARE = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def pipeline() -> rs.Pipeline[Any]:
    rows = {"x": np.arange(96).reshape(48, 2), "y": np.arange(48, dtype=np.int8)}
    return rs.from_arrays(rows).shuffle(1).batch(8)


@pytest.mark.parametrize("sees_all", [True, False])
@pytest.mark.parametrize("mesh", [mesh_of(1), mesh_of(2), mesh_of(4), SQUARE], ids=str)
def test_a_mesh_divides_the_first_axis_over_all_of_its_axes(mesh: Mesh, sees_all: bool) -> None:
    place = to_global(mesh)
    place._sees_all = sees_all  # as where other hosts have devices of it
    placed = place(BATCH)
    assert plain(placed) == plain(BATCH)
    for leaf in jax.tree.leaves(placed):
        assert leaf.sharding == divided(mesh, mesh.axis_names)
        assert {one.data.shape[0] for one in leaf.addressable_shards} == {8 // mesh.size}


@pytest.mark.parametrize("sees_all", [True, False])
def test_a_sharding_is_used_as_it_is_and_so_is_a_tree_of_them(sees_all: bool) -> None:
    rows = divided(SQUARE, "data")
    everywhere = divided(SQUARE)
    for sharding, x, y in (
        (rows, rows, rows),
        ({"x": rows, "y": everywhere}, rows, everywhere),
        ({"x": everywhere, "y": (SQUARE, rows)}, everywhere, None),
    ):
        place = to_global(sharding)
        place._sees_all = sees_all
        placed = place(BATCH)
        assert plain(placed) == plain(BATCH)
        assert placed["x"].sharding == x
        if y is not None:
            assert {leaf.sharding for leaf in jax.tree.leaves(placed["y"])} == {y}


def test_a_state_resumes_with_other_devices_and_with_any_map_in_its_place() -> None:
    expected = [plain(batch) for batch in pipeline()]
    behind = [
        pipeline().map(to_global(mesh_of(4))).prefetch(2),
        pipeline().map(to_global(mesh_of(2))),
        pipeline().map(to_global(divided(SQUARE, "model"))).prefetch(1),
        pipeline().map(lambda batch: batch),
    ]
    for one in behind:
        with iter(one) as iterator:
            begun = [plain(next(iterator)) for _ in range(3)]
            data = rs.dumps(iterator.get_state())
        for other in behind:
            with other.resume(rs.loads(data)) as rest:
                assert begun + [plain(batch) for batch in rest] == expected


def test_numbers_of_64_bits_lose_half_of_them_as_jax_has_it() -> None:
    placed = to_global(mesh_of(4))(np.arange(4) + 2**40)
    assert placed.dtype == np.int32
    assert placed.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("sees_all", [True, False])
@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        ({"x": np.zeros(4), "text": np.array(["a", "b"])}, rs.InvalidType,
         r"^batch\['text'\], of dtype <U1 and shape \(2,\), must be numbers or bools"),
        ((np.zeros(4), [np.array([None, 1])]), rs.InvalidType,
         r"^batch\[1\]\[0\], of dtype object and shape \(2,\), must be numbers or bools"),
        ({"name": "a text"}, rs.InvalidType, r"^batch\['name'\], .* got 'a text'; leave it out"),
        (np.zeros(2, "M8[s]"), rs.InvalidType, r"^batch, of dtype datetime64\[s\] and shape \(2,\)"),
        ({"x": np.zeros(4), "n": np.float32(3)}, rs.InvalidArgument,
         r"^batch\['n'\], of dtype float32 and shape \(\), must have a first axis to be divided over 4 devices"),
        ({"n": 3}, rs.InvalidArgument, r"^batch\['n'\], of dtype int64 and shape \(\), must have a first axis"),
        ({"x": np.zeros((8, 2)), "y": np.zeros((6, 2))}, rs.InvalidArgument,
         r"^batch\['y'\], of dtype float64 and shape \(6, 2\), must have a first axis that is a multiple of 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_is_named(
    batch: Any, kind: type[Exception], message: str, sees_all: bool
) -> None:
    place = to_global(mesh_of(4))
    place._sees_all = sees_all
    with pytest.raises(kind, match=message):
        place(batch)


def test_what_the_sharding_itself_does_not_fit_is_named_with_what_jax_says() -> None:
    columns = divided(mesh_of(4), None, "data")
    with pytest.raises(rs.InvalidArgument, match=r"^batch\['x'\], of .* cannot be placed by Named"):
        to_global({"x": columns})({"x": np.zeros((8, 3))})
    with pytest.raises(rs.InvalidArgument, match=r"^sharding must mirror the batch, got .*'y'"):
        to_global({"y": columns})({"x": np.zeros((8, 4))})


@pytest.mark.parametrize("value", [None, 4, "data", [], {"x": 3}, jax.devices()[0]], ids=str)
def test_anything_else_is_no_sharding(value: Any) -> None:
    with pytest.raises(rs.InvalidType, match=r"^sharding must be a jax\.sharding\.Mesh, .*, got "):
        to_global(value)


def test_a_spec_without_a_mesh_gets_one() -> None:
    with pytest.raises(rs.InvalidType, match=r"write NamedSharding\(mesh, spec\)"):
        to_global(PartitionSpec("data"))  # type: ignore[no-untyped-call]


def test_its_name_says_where_arrays_go() -> None:
    assert repr(to_global(mesh_of(2))).startswith("to_global(Mesh('data': 2")
