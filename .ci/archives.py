"""Checks the wheel and the sdist in a folder: for any machine, small, and with an extra for everything.

Run as ``python .ci/archives.py FOLDER``, with Python alone.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections import defaultdict
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

MOST_BYTES: Final = {"*.whl": 2_000_000, "*.tar.gz": 5_000_000}
"""About twice what they have: a file of data that was packed by mistake is larger."""

NOT_IN_ALL: Final = {"bench", "dask", "docs", "jax", "lint", "ray", "test", "tf", "torch"}
"""Frameworks, of which users have a build of their own, and what only work on the library needs."""


def check(folder: Path) -> None:
    """Fail by an assertion that says what is wrong."""
    for pattern, most in MOST_BYTES.items():
        (archive,) = folder.glob(pattern)
        size = archive.stat().st_size
        assert size <= most, f"{archive.name} has {size:,} bytes, more than {most:,}"
        print(f"{archive.name}: {size:,} bytes")
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl"), f"not for any machine: {wheel.name}"
    with zipfile.ZipFile(wheel) as archived:
        built = [name for name in archived.namelist() if re.search(r"\.(so|pyd|dylib)\b", name)]
        assert not built, f"not for any machine: {built}"
        tags = _headers(archived, "WHEEL")
        assert tags["Root-Is-Purelib"] == "true"
        assert tags.get_all("Tag") == ["py3-none-any"]
        metadata = _headers(archived, "METADATA")
        check_all(metadata)
        check_links(metadata)


def check_links(metadata: Message) -> None:
    """The README is in the wheel, and where the project has an address, no link of it is relative."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.startswith("# resumable"), f"the wheel has no README: {text[:40]!r}"
    if any(url.startswith("Source,") for url in metadata.get_all("Project-URL", [])):
        relative = re.findall(r"\]\((?!https?:|#)[^)]*\)", text)
        assert not relative, f"an index cannot follow {relative}"


def check_all(metadata: Message) -> None:
    """The extra `all` has what each of the others has, but for those that are left out."""
    needed = defaultdict(set)
    for line in metadata.get_all("Requires-Dist", []):
        requirement, _, condition = line.partition(";")
        if extra := re.search(r"extra == '([\w-]+)'", condition):
            needed[extra[1]].add(requirement.strip())
    every = {name: needed[name] for name in metadata.get_all("Provides-Extra", [])}
    in_all = every.pop("all")
    assert every.keys() >= NOT_IN_ALL, f"no extra any more: {NOT_IN_ALL - every.keys()}"
    expected = set().union(*(every[name] for name in every.keys() - NOT_IN_ALL))
    assert in_all == expected, f"`all` differs from the others in {sorted(in_all ^ expected)}"


def _headers(archived: zipfile.ZipFile, name: str) -> Message:
    (path,) = (path for path in archived.namelist() if path.endswith(f".dist-info/{name}"))
    return Parser().parsestr(archived.read(path).decode())


if __name__ == "__main__":
    check(Path(sys.argv[1]))
