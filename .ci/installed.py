"""Passes where the library is installed whole, and nothing but the library."""

import importlib.util
from pathlib import Path

import resumable as rs

assert Path(rs.__file__).with_name("py.typed").exists()
assert importlib.util.find_spec("tests") is None
assert importlib.util.find_spec("adapters") is None
for name in ("resumable_torch", "resumable_tf", "resumable_jax", "resumable_ray"):
    adapter = importlib.util.find_spec(name)
    assert adapter is not None
    assert adapter.origin is not None
    assert Path(adapter.origin).with_name("py.typed").exists()

pipeline = rs.range(10**12).shuffle(0).batch(256).repeat()
iterator = iter(pipeline)
next(iterator)
again = pipeline.resume(rs.loads(rs.dumps(iterator.get_state())))
assert (next(again) == next(iterator)).all()
