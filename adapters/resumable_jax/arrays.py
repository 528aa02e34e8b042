"""Batches of NumPy arrays as arrays of JAX, divided over devices."""

# `jax.device_put` places all leaves of a batch at once, and equals
# `make_array_from_process_local_data` where this process sees all devices of the sharding. The
# rules are checked only after JAX has refused a batch, so that accepted batches cost nothing.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

import resumable as rs
from resumable.errors import shorten

__all__ = ["ToGlobal", "default_placed", "to_global"]

Tree: TypeAlias = Any
"""Arrays, or dicts, tuples and lists of trees; precisely, any tree of `jax.tree`."""


def to_global(sharding: Mesh | Sharding | Tree) -> ToGlobal:
    """Make a function for `map` that turns the batch of this host into global arrays of JAX.

    Each host passes a local batch, and all local batches together make one `jax.Array` for each
    leaf, as by `jax.make_array_from_process_local_data`. All hosts must pass batches of the same
    shapes, so let `batch` have ``drop_last=True``, or a length that divides the data.

    The sharding is no part of the pipeline's identity, but the `map` is. So a state resumes with
    another mesh and with other devices, and without devices, with ``map(lambda batch: batch)``
    instead. `device_prefetch` has a ``sharding`` too, and leaves no trace in the state.

    JAX has no 64-bit numbers unless ``jax_enable_x64`` is set: int64 silently becomes int32 and
    float64 becomes float32, even if a number does not fit. On a CPU, an array of JAX may share
    memory with the original batch.

    Args:
      sharding: a `jax.sharding.Mesh`, to divide the first axis of each array over all axes of the
        mesh; or a `jax.sharding.Sharding`, used unchanged; or a tree of these that mirrors the
        batch, such as a dict with the same keys.

    Returns:
      A function of a batch: a NumPy array, or a dict, tuple or list of batches. The function raises
      `InvalidType` for a leaf that is neither numbers nor bools, and `InvalidArgument` for a leaf
      whose first axis is missing or cannot be divided. The error names the leaf.

    Raises:
      InvalidType: if ``sharding`` is none of these.

    >>> mesh = jax.make_mesh((jax.device_count(),), ("data",))  # doctest: +SKIP
    >>> pipeline = rs.range(64).batch(8).map(to_global(mesh)).prefetch(2)  # doctest: +SKIP
    """
    return ToGlobal(sharding)


@final
class ToGlobal:
    """The function that `to_global` returns.

    Args:
      sharding: as for `to_global`.
    """

    def __init__(self, sharding: Mesh | Sharding | Tree) -> None:
        leaves = jax.tree.leaves(sharding)
        if not leaves or not all(isinstance(leaf, (Mesh, Sharding)) for leaf in leaves):
            hint = ""
            if any(isinstance(leaf, PartitionSpec) for leaf in leaves):
                hint = "; write NamedSharding(mesh, spec)"
            raise rs.InvalidType(
                "sharding must be a jax.sharding.Mesh, a jax.sharding.Sharding or a tree of these, "
                f"got {shorten(sharding)}{hint}"
            )
        self._given = sharding
        self._sharding: Tree = jax.tree.map(_over_all_axes, sharding)
        self._sees_all = all(one.is_fully_addressable for one in jax.tree.leaves(self._sharding))

    def __call__(self, batch: Tree) -> Tree:
        try:
            return self._placed(batch)
        except Exception as error:
            _explain(batch, self._sharding, error)
            raise

    def __repr__(self) -> str:
        return f"to_global({self._given})"

    def _placed(self, batch: Tree) -> Tree:
        if self._sees_all:
            return jax.device_put(batch, self._sharding)
        return jax.tree.map(_each_made_global, self._sharding, batch)


def default_placed(batch: Tree) -> Tree:
    """``batch`` on JAX's default device.

    Raises:
      InvalidType: if JAX cannot hold a leaf.
    """
    try:
        return jax.device_put(batch)
    except Exception as error:
        _explain(batch, None, error)
        raise


def _over_all_axes(sharding: Mesh | Sharding) -> Sharding:
    if isinstance(sharding, Mesh):
        return NamedSharding(sharding, PartitionSpec(sharding.axis_names))  # type: ignore[no-untyped-call]
    return sharding


def _each_made_global(sharding: Sharding, part: Tree) -> Tree:
    """The arrays of ``part``, all with the same sharding."""
    make: Callable[..., jax.Array] = jax.make_array_from_process_local_data
    return jax.tree.map(lambda leaf: make(sharding, np.asarray(leaf)), part)


def _explain(batch: Tree, sharding: Tree, error: Exception) -> None:
    """Raise an error that names the first leaf that cannot be placed; return if every leaf can.

    Args:
      batch: the refused batch.
      sharding: a sharding, a tree of shardings, or None for the default device.
      error: the error of JAX.
    """
    leaves = jax.tree_util.tree_flatten_with_path(batch)[0]
    shardings = [None] * len(leaves)
    if sharding is not None:
        try:
            wide = jax.tree.map(
                lambda one, part: jax.tree.map(lambda _: one, part), sharding, batch
            )
        except Exception:
            raise rs.InvalidArgument(
                f"sharding must mirror the batch, got {shorten(jax.tree.structure(sharding))} for "
                f"{shorten(jax.tree.structure(batch))}"
            ) from error
        shardings = jax.tree.leaves(wide)
    for (path, leaf), one in zip(leaves, shardings, strict=True):
        array = np.asarray(leaf)
        name = f"batch{jax.tree_util.keystr(path)}, of dtype {array.dtype} and shape {array.shape},"
        try:
            jax.device_put(leaf)
        except TypeError as refused:
            raise rs.InvalidType(
                f"{name} must be numbers or bools to be an array of JAX, got {shorten(leaf)}; leave "
                "it out, or turn it into numbers by a map before"
            ) from refused
        if one is None:
            continue
        try:
            _each_made_global(one, leaf)
        except Exception as refused:
            raise rs.InvalidArgument(f"{name} {_rule(array.ndim, one, refused)}") from refused


def _rule(ndim: int, sharding: Sharding, refused: Exception) -> str:
    """The known requirements on an array of ``ndim`` axes."""
    if ndim == 0:
        return f"must have a first axis to be divided over {len(sharding.device_set)} devices"
    shape = (len(sharding.device_set),) * ndim
    try:
        indices = sharding.addressable_devices_indices_map(shape).values()
        parts = len({(index[0].start, index[0].stop) for index in indices if index is not None})
    except Exception:
        parts = 1
    if parts > 1:
        return f"must have a first axis that is a multiple of {parts}, the parts on this host"
    return f"cannot be placed by {sharding}: {refused}"
