"""Gives a package index a README whose links and pictures work there."""

# In the repository they are relative. An index has no folders, so while a wheel or an sdist is built they become
# addresses below `Source` of `[project.urls]`, the one place where the project's address stands.

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]\n]*)\]\((?P<path>(?!https?:|#)[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Fills in `readme`, which is dynamic in `pyproject.toml`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, source) if source else text,
        }


def absolute(text: str, source: str) -> str:
    """``text`` with its relative links made absolute, for a repository at ``source``."""

    def link(found: re.Match[str]) -> str:
        view = "raw" if found["picture"] else "blob"
        address = f"{source.rstrip('/')}/{view}/HEAD/{found['path']}"
        return f"{found['picture']}[{found['text']}]({address})"

    return RELATIVE.sub(link, text)
