"""Run the `resumable` command, scripts and modules as a user does."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from resumable.cli.main import main

__all__ = ["ROOT", "call_command", "run_command", "run_python", "script"]

ROOT: Final = Path(__file__).parents[2]


def run_python(
    *arguments: str, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS`` in ``folder``, which finds the library."""
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
        timeout=300,
    )


def script(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script of its own, whose functions no worker could import; warnings are errors."""
    return run_python("-W", "error", "-c", textwrap.dedent(code), *arguments)


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``resumable ARGUMENTS`` in ``folder``, in a process of its own."""
    return run_python("-m", "resumable", *arguments, folder=folder)


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
