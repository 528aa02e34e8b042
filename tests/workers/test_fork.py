"""A fork without a warning about the threads of libraries, whose random numbers are its own."""

from __future__ import annotations

import sys

import pytest
from support.command import run_python

if sys.platform == "win32":
    pytest.skip("nothing is forked on this system", allow_module_level=True)

FORKS = """
import os
import threading
import warnings

import numpy as np
from resumable.workers.fork_server import fork

np.random.random()
ended = threading.Event()
threading.Thread(target=ended.wait).start()
filters = list(warnings.filters)
reader, writer = os.pipe()
child = fork()
assert warnings.filters == filters
if not child:
    os.write(writer, np.random.random(4).tobytes())
    os._exit(0)
ended.set()
assert os.waitpid(child, 0)[1] == 0
assert os.read(reader, 32) != np.random.random(4).tobytes()
"""


def test_a_fork_beside_a_thread_warns_of_nothing_and_draws_other_numbers() -> None:
    done = run_python("-W", "always", "-c", FORKS)
    assert (done.returncode, done.stderr) == (0, "")
