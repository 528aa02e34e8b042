"""Run the `resumable` command, scripts and modules as a user does."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from support import forks
from support.tiers import is_deep

from resumable.cli.main import main
from resumable.workers.fork_server import CAN_FORK

__all__ = [
    "ROOT",
    "WITH_ADAPTERS",
    "call_command",
    "check_kills",
    "fork_command",
    "run_code",
    "run_command",
    "run_python",
    "script",
    "started_code",
]

ROOT: Final = Path(__file__).parents[2]
WITH_ADAPTERS: Final = os.pathsep.join(str(ROOT / part) for part in ("", "tests", "adapters"))
"""Where a process finds the library, its tests and its adapters."""


def run_python(
    *arguments: str, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS`` in ``folder``, which finds the library."""
    return _ran(arguments, folder, environment, seconds=300)


def check_kills(campaign: str, kills: int, folder: Path) -> None:
    """Run a campaign that kills, in a process of its own that saves in ``folder``; fail if it finds a fault."""
    arguments = ("-m", f"campaigns.{campaign}", "--kills", str(kills))
    environment = {"PYTHONPATH": WITH_ADAPTERS, "TMPDIR": str(folder)}
    done = _ran(arguments, ROOT, environment, seconds=600)
    assert f"Report(kills={kills}," in done.stdout, done.stderr[-2000:]
    assert done.returncode == 0, done.stdout


def _ran(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",  # of modules that a test may write again at once
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def script(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script of its own, whose functions no worker could import; warnings are errors."""
    return run_python("-W", "error", "-c", textwrap.dedent(code), *arguments)


def run_code(
    code: str, *arguments: str, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python -W error -c CODE ARGUMENTS`` in ``folder``; in the quick tier a fork that has imported the library.

    A fork writes its output and its errors to one file, so each of both has all of it.
    """
    if is_deep() or not CAN_FORK:
        return run_python("-W", "error", "-c", code, *arguments, folder=folder, **environment)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = _forked(code, arguments, folder, environment, said)
        status = process.wait(300)
        assert process.stdin is not None
        process.stdin.close()
        said.seek(0)
        output = said.read()
    return subprocess.CompletedProcess([code, *arguments], status, output, output)


@contextlib.contextmanager
def started_code(code: str, *arguments: str) -> Iterator[tuple[Any, IO[str]]]:
    """Such a process while it runs, and what it prints; it is killed at the end."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as printed:
        with open(writer, "w") as output:
            if is_deep() or not CAN_FORK:
                process: Any = subprocess.Popen(
                    [sys.executable, "-c", code, *arguments],
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdin=subprocess.PIPE,
                    stdout=output,
                )
            else:
                process = _forked(code, arguments, ROOT, {}, output)
        try:
            yield process, printed
        finally:
            process.kill()
            process.wait()
            process.stdin.close()


def _forked(
    code: str,
    arguments: tuple[str, ...],
    folder: Path,
    environment: dict[str, str],
    output: IO[str],
) -> forks.Forked:
    begin = f"import sys, warnings; sys.argv[1:] = {arguments!r}; warnings.simplefilter('error')\n"
    return forks.Popen(
        [sys.executable, "-c", begin + code],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=output,
        stderr=forks.STDOUT,
    )


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``resumable ARGUMENTS`` in ``folder``, in a process of its own."""
    return run_python("-m", "resumable", *arguments, folder=folder)


def fork_command(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What `run_command` returns; in the quick tier of a fork, as by `run_code`."""
    if is_deep():
        return run_python("-m", "resumable", *arguments, folder=folder, **environment)
    code = (
        "import runpy; sys.path.insert(0, '')\n"
        "runpy.run_module('resumable', run_name='__main__', alter_sys=True)"
    )
    return run_code(code, *arguments, folder=folder, **environment)


def call_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, for all that does not depend on how a process starts."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _as_before(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = main(arguments)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _as_before(folder: Path) -> Iterator[None]:
    """Work in ``folder``, and leave nothing of what a command changes for its process."""
    directory, path, modules = os.getcwd(), [*sys.path], {*sys.modules}
    handler = signal.getsignal(signal.SIGTERM)
    importlib.invalidate_caches()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(directory)
        signal.signal(signal.SIGTERM, handler)
        places = {folder.resolve(), *map(Path, {*sys.path} - {*path})}
        sys.path[:] = path
        for name in {*sys.modules} - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).parent in places:
                del sys.modules[name]
