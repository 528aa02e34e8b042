"""Fresh processes that use the adapter: forks in the quick tier, interpreters in the deep one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO, Any, Final
from uuid import uuid4

from support import forks
from support.command import ROOT, WITH_ADAPTERS
from support.tiers import is_deep

NONE: Final[Mapping[str, str]] = MappingProxyType({})


def torchrun(ranks: int, module: str, *arguments: object) -> int:
    """Run ``module`` on so many ranks; its exit status. What it says is printed if it fails."""
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [sys.executable, *command, "-m", module, *map(str, arguments)],
        env=os.environ
        | {"PYTHONPATH": WITH_ADAPTERS, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=300,
    )
    if done.returncode:
        print(done.stdout.decode(errors="replace"))
    return done.returncode


def start(
    code: str,
    output: IO[Any],
    variables: Mapping[str, str] = NONE,
    preloaded: tuple[str, ...] = ("torch_adapter.data",),
) -> Any:
    """A process that runs ``code``, with a pipe as its input and ``output`` for all that it says.

    ``variables`` are added to its environment. A fork finds the modules ``preloaded`` imported.
    """
    options: dict[str, Any] = {
        "cwd": ROOT,
        "env": os.environ
        | {"PYTHONPATH": WITH_ADAPTERS, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        | {**variables},
        "stdin": subprocess.PIPE,
        "stdout": output,
        "stderr": subprocess.STDOUT,
        "start_new_session": True,
    }
    command = [sys.executable, "-c", code]
    if is_deep():
        return subprocess.Popen(command, **options)
    # The import of torch takes longer than most of what is then done with it.
    return forks.Popen(command, **options, preloaded=preloaded)


def run_ranks(count: int, module: str, call: str, output: IO[Any]) -> list[int]:
    """The exit status of each of ``count`` ranks, which evaluate ``call`` in what ``module`` defines.

    They know their places as under torchrun, but wait for each other in a file whose name is to end in
    ``RENDEZVOUS``.
    """
    world = {"WORLD_SIZE": str(count), "RENDEZVOUS": uuid4().hex}
    started: list[Any] = []
    try:
        for rank in range(count):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            # Accelerate wants to know where rank 0 is, though the ranks have met by then.
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
            variables = {**world, **place} if count > 1 else {}
            code = f"from {module} import *; {call}"
            started.append(start(code, output, variables, (module,)))
        return [process.wait(300) for process in started]
    finally:
        for process in started:
            process.kill()
            process.stdin.close()
