"""Orbax checkpoints with the state of the input, and batches on JAX's devices."""

from __future__ import annotations

from .arrays import to_global as to_global
from .device_prefetch import DevicePrefetch as DevicePrefetch
from .device_prefetch import device_prefetch as device_prefetch
