"""Fresh processes that use the adapter: forks in the quick tier, interpreters in the deep one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
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
    folder: Path = ROOT,
) -> Any:
    """A process that runs ``code`` in ``folder``, with a pipe as its input and ``output`` for all that it says.

    ``variables`` are added to its environment. A fork finds the modules ``preloaded`` imported.
    """
    options: dict[str, Any] = {
        "cwd": folder,
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


@contextmanager
def _killed_at_the_end() -> Iterator[list[Any]]:
    """A list for processes of `start`, none of which is left at the end."""
    started = list[Any]()
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.stdin.close()


def gloo(ranks: int, code: str, folder: Path, preloaded: tuple[str, ...]) -> None:
    """Run ``code`` in ``folder`` on so many ranks of one process group, each a fork of one that has imported ``preloaded``.

    Raises:
      AssertionError: if a rank fails, with what all of them have said.
    """
    with TemporaryDirectory() as place, ExitStack() as stack, _killed_at_the_end() as started:
        whole = (
            "import torch.distributed as dist\n"
            "dist.init_process_group('gloo', init_method={!r}, rank={}, world_size={})\n"
            "try:\n{}\nfinally:\n    dist.destroy_process_group()\n"
        )
        logs = [stack.enter_context(Path(place, f"{rank}.log").open("w+")) for rank in range(ranks)]
        for rank, log in enumerate(logs):
            own = whole.format(f"file://{place}/group", rank, ranks, indent(code, "    "))
            started.append(start(own, log, preloaded=preloaded, folder=folder))
        statuses = [process.wait(300) for process in started]
        said = [Path(log.name).read_text() for log in logs]
        assert statuses == [0] * ranks, "\n".join(said)


def run_ranks(count: int, module: str, call: str, output: IO[Any]) -> list[int]:
    """The exit status of each of ``count`` ranks, which evaluate ``call`` in what ``module`` defines.

    They know their places as under torchrun, and wait for each other by `meet`.
    """
    world = {"WORLD_SIZE": str(count), "RENDEZVOUS": uuid4().hex}
    with _killed_at_the_end() as started:
        for rank in range(count):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            # Accelerate wants to know where rank 0 is, though the ranks have met by then.
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
            variables = {**world, **place} if count > 1 else {}
            code = f"from {module} import *; {call}"
            started.append(start(code, output, variables, (module,)))
        return [process.wait(300) for process in started]


def meet(folder: Path, ranks: int) -> int:
    """Let this one of ``ranks`` that `run_ranks` has started meet the others in ``folder``; returns its number."""
    rank = int(os.environ.get("RANK", "0"))
    if ranks > 1:
        import torch.distributed as dist

        meeting = f"file://{folder}/ranks-{os.environ['RENDEZVOUS']}"
        dist.init_process_group("gloo", meeting, rank=rank, world_size=ranks)
    return rank
