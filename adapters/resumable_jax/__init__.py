"""Orbax checkpoints with the state of the input, and batches on JAX's devices."""

# `folder` writes the state of an input into a folder of Orbax's, and reads the state back, for any
# number of processes. `resumable.checkpoint.saveable_input` says which objects have a state, and
# `resumable.checkpoint.input_folder` describes the files. `checkpointable` and `handler` are for
# version 1 of Orbax's interface, `arguments` is for version 0. `arrays` and `device_prefetch` put
# batches on the devices.

from __future__ import annotations

from .arguments import InputCheckpointHandler as InputCheckpointHandler
from .arguments import InputRestore as InputRestore
from .arguments import InputSave as InputSave
from .arrays import to_global as to_global
from .checkpointable import InputCheckpointable as InputCheckpointable
from .device_prefetch import DevicePrefetch as DevicePrefetch
from .device_prefetch import device_prefetch as device_prefetch
from .handler import InputHandler as InputHandler
from .handler import InputMetadata as InputMetadata
