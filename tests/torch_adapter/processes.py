"""Fresh processes that use the adapter: forks in the quick tier, interpreters in the deep one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import IO, Any

from support import forks
from support.command import ROOT, WITH_ADAPTERS
from support.tiers import is_deep


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


def start(code: str, output: IO[Any]) -> Any:
    """A process that runs ``code``, with a pipe as its input and ``output`` for all that it says."""
    options: dict[str, Any] = {
        "cwd": ROOT,
        "env": os.environ | {"PYTHONPATH": WITH_ADAPTERS, "PYTHONWARNINGS": "ignore"},
        "stdin": subprocess.PIPE,
        "stdout": output,
        "stderr": subprocess.STDOUT,
        "start_new_session": True,
    }
    command = [sys.executable, "-c", code]
    if is_deep():
        return subprocess.Popen(command, **options)
    # The import of torch takes longer than most of what is then done with it.
    return forks.Popen(command, **options, preloaded=("torch_adapter.data",))
