"""What the tests of every format know of `image_folder`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formats.records_of_formats import files_in
from support.format_facts import FormatFacts, Mutation, Pipelines
from support.samples import bytes_over_size, without_folder

import resumable as rs


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    (folder / "cat").mkdir(exist_ok=True)
    for path in files_in(folder / "cat", ".png"):
        path.write_bytes(data)
    return rs.image_folder(folder, decode=bytes)


def pipelines(folder: Path) -> Pipelines:
    return {
        "image folder": lambda: (
            rs.image_folder(folder / "images").map(without_folder).shuffle(1).repeat(2)
        ),
        "image folder skipping": lambda: rs.image_folder(
            folder / "images", decode=bytes_over_size, on_error="skip"
        ).repeat(3),
    }


def write(folder: Path) -> None:
    for number, name in enumerate(("cat/1.png", "cat/deep/2.JPG", "dog/3.png", "dog/4.webp")):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89" * number)


FACTS = FormatFacts(
    damaged=dict,  # every content is right
    one_size={},  # `test_contents.py` has a folder of images
    removed={"image_folder": written},
    pipelines=pipelines,
    write=write,
    mutations=[
        Mutation("formats/image_folder.py", "in sorted(_walk(folder)):", "in _walk(folder):"),
    ],
)
