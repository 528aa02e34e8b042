"""JAX with four devices of the CPU; what needs JAX imports it from here, before JAX has counted its devices."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
)
os.environ["JAX_PLATFORMS"] = "cpu"

pytest.importorskip("jax", reason="jax is not installed")

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["Mesh", "PartitionSpec", "divided", "jax", "mesh_of", "plain"]


def mesh_of(count: int) -> Mesh:
    """A mesh of the first so many devices, with one axis."""
    return Mesh(np.array(jax.devices()[:count]), ("data",))


def divided(mesh: Mesh, *axes: str | tuple[str, ...] | None) -> NamedSharding:
    """The first axis of an array over one of ``mesh``, and so on."""
    return NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]


def plain(batch: object) -> list[object]:
    """The leaves of a batch, of NumPy or of JAX, as JAX would hold them: comparable, bit for bit."""
    found = []
    for leaf in jax.tree.leaves(batch):
        array = np.asarray(leaf)
        dtype = jax.dtypes.canonicalize_dtype(array.dtype)
        found.append((str(dtype), array.shape, array.astype(dtype).tobytes()))
    return [jax.tree.structure(batch), *found]
