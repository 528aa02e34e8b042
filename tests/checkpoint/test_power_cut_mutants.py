"""Each part of the commit is needed: without it a power cut does harm, and the checks say so."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from checkpoint.crash_checks import (
    DAMAGED,
    FEWER,
    LEFT,
    LOST,
    Scenario,
    Subject,
    check_scenario,
    save_twice,
    train,
)

from resumable.checkpoint import directory, files


@dataclass(frozen=True)
class Mutant:
    """Edits of the source of a store, each old text by its new one, and what they must break."""

    broken: str
    directory: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    scenario: Scenario = train

    def subject(self) -> Subject:
        changed_files = edited(files, self.files)
        changed_directory = edited(directory, self.directory)
        taken_over = vars(directory).keys() & dict(inspect.getmembers(files, inspect.isfunction))
        for name in taken_over:
            vars(changed_directory)[name] = vars(changed_files)[name]
        return Subject(changed_directory, changed_files)


def edited(module: ModuleType, edits: Mapping[str, str]) -> ModuleType:
    source = re.sub(" *# .*", "", inspect.getsource(module))  # a comment may change
    for old, new in edits.items():
        assert source.count(old) == 1, f"{module.__name__} has changed, this is not there: {old}"
        source = source.replace(old, new)
    copy = ModuleType(module.__name__)
    copy.__package__ = module.__package__
    exec(compile(source, str(module.__file__), "exec"), vars(copy))
    return copy


LINK = "            give_new_name(left.temporary, path)\n            left.named = True\n"
SYNC_FOLDER = "            sync_folder(self.folder)\n        except"
UNLINK = """            with suppress(OSError):
                os.unlink(left.temporary)
"""
WRITE = "            write_new_file(left.temporary, data)\n"
REFUSING = "        os.link(old, new, follow_symlinks=False)\n"
NEW_NAME = "        left = _Unacknowledged("
SYNC_FILE = "        os.fsync(descriptor)\n    finally"
FIRST_WRITE = "        rest = memoryview(data)\n"

MUTANTS = {
    "the file is not synced": Mutant(DAMAGED, files={SYNC_FILE: "    finally"}),
    "the file is written after the sync": Mutant(
        DAMAGED,
        files={
            SYNC_FILE: "    finally",
            FIRST_WRITE: "        os.fsync(descriptor)\n" + FIRST_WRITE,
        },
    ),
    "the folder is not synced": Mutant(LOST, {SYNC_FOLDER: "        except"}),
    "the folder is synced before the link": Mutant(
        LOST,
        {
            SYNC_FOLDER: "        except",
            LINK: "            sync_folder(self.folder)\n" + LINK,
        },
    ),
    "parents of a new folder are not synced": Mutant(
        LOST, files={"    try:\n        sync_folder(folder.parent)\n": "    try:\n        pass\n"}
    ),
    "the file is written under its final name": Mutant(
        DAMAGED, {WRITE + LINK + UNLINK: WRITE.replace("left.temporary", "path")}
    ),
    "a checkpoint is renamed over the old one": Mutant(
        LOST,
        files={REFUSING: "        os.rename(old, new)\n"},
        scenario=save_twice,
    ),
    "all checkpoints have one name": Mutant(
        LOST,
        {
            "self._names.of(step)": '"latest"',
            "    def _path(self, step: int)": "    def steps(self) -> list[int]:\n"
            "        if not os.path.lexists(self._path(0)):\n"
            "            return []\n"
            "        from .envelope import decode\n"
            "        return [decode(self.load(0)).step]\n"
            "    def _path(self, step: int)",
        },
        {REFUSING: "        os.rename(old, new)\n"},
    ),
    "the old one is removed before the commit": Mutant(
        FEWER,
        {
            NEW_NAME: "        for old in self.steps():\n            os.unlink(self._path(old))\n"
            + NEW_NAME
        },
    ),
    "unfinished files are left": Mutant(LEFT, {"os.unlink(self.folder / file)": "pass"}),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_each_part_of_the_commit_is_needed(tmp_path: Path, mutant: Mutant) -> None:
    with pytest.raises(AssertionError, match=mutant.broken):
        check_scenario(mutant.scenario, tmp_path, mutant.subject())


def test_a_store_that_is_only_copied_passes(tmp_path: Path) -> None:
    check_scenario(partial(train, items=2), tmp_path, Mutant("").subject())
