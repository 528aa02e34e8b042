"""Orbax checkpoints with the state of the input, and batches on JAX's devices."""
