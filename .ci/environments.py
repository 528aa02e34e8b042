"""Virtual environments outside the checkout, cached by what is installed in them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path

CACHE = Path(
    os.environ.get("RESUMABLE_CI_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "resumable-ci")
).absolute()
VERSIONS = ("3.10", "3.11", "3.13")


@cache
def interpreter(version: str) -> Path:
    """The Python of a version: on the path, or under pyenv.

    Raises:
      FileNotFoundError: if this machine has none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = shutil.which(f"python{version}")
    for candidate in [found, *sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))]:
        # One on the path may be pyenv's stand-in for a version that is not switched on.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return Path(candidate)
    raise FileNotFoundError(f"no Python {version} on this machine")


def folders_of_interpreters() -> list[str]:
    """Where the versions of Python lie that this machine has, of those that are tested with."""
    found = []
    for version in VERSIONS:
        with suppress(FileNotFoundError):
            found.append(str(interpreter(version).parent))
    return found


class Environment:
    """Packages for one version of Python."""

    def __init__(self, version: str, *requirements: str):
        self.version = version
        self.requirements = requirements

    @cached_property
    def folder(self) -> Path:
        """Where it lies; another build of Python, or other requirements, have another."""
        exact = subprocess.check_output([interpreter(self.version), "-VV"], text=True)
        named = "\n".join([exact.strip(), *self.requirements])
        return CACHE / f"{self.version}-{hashlib.sha256(named.encode()).hexdigest()[:16]}"

    @property
    def is_made(self) -> bool:
        return (self.folder / "complete").exists()

    @property
    def command(self) -> list[str]:
        """What makes it."""
        script = Path(__file__).with_name("environment.sh")
        python = interpreter(self.version)
        return ["bash", str(script), str(self.folder), str(python), *self.requirements]
