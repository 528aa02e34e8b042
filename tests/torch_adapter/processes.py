"""Fresh processes that use the adapter: forks in the quick tier, interpreters in the deep one."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from textwrap import indent
from types import MappingProxyType
from typing import IO, Any, Final
from uuid import uuid4

from support import forks
from support.command import ROOT, WITH_ADAPTERS
from support.tiers import is_deep

NONE: Final[Mapping[str, str]] = MappingProxyType({})


def torchrun(ranks: int, module: str, *arguments: object, preloaded: tuple[str, ...] = ()) -> int:
    """Let ``main`` of ``module`` run on so many ranks as by torchrun; its exit status. What it says is printed if it fails.

    Outside the deep tier the agent is a fork, and the ranks are forks of it that find ``module`` imported, or
    ``preloaded`` where that is given. Example programs are run by the command itself.
    """
    options = {"PYTHONPATH": WITH_ADAPTERS, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    words = [str(argument) for argument in arguments]
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        if is_deep():
            command = [
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                str(ranks),
            ]
            status = subprocess.run(
                [sys.executable, *command, "-m", module, *words],
                env=os.environ | options,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=300,
            ).returncode
        else:
            code = f"from {__name__} import be_agent; be_agent({ranks}, {module!r}, {words!r})"
            imported = (__name__, "torch.distributed.launcher.api", *(preloaded or (module,)))
            agent = start(code, said, options, imported)
            try:
                status = agent.wait(300)
            finally:
                agent.kill()
                agent.stdin.close()
        if status:
            said.seek(0)
            print(said.read())
    return int(status)


def be_agent(ranks: int, module: str, words: list[str]) -> None:
    """What torchrun does on one machine, with forks of this process as its ranks.

    Raises:
      ChildFailedError: if a rank fails; the others are ended.
    """
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
        start_method="fork",
    )
    elastic_launch(config, be_rank)(module, words)


def be_rank(module: str, words: list[str]) -> None:
    """Run ``main`` of ``module`` with ``words`` as its command line."""
    sys.argv[1:] = words
    importlib.import_module(module).main()


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
