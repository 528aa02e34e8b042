"""Imports point one way, importing is light, and the public names are what they are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import resumable as rs
from resumable import core

PACKAGE = Path(rs.__file__).parent

# A module may import from its own package and from those in earlier lines, not from its neighbours.
CHAIN = [
    {"errors"},
    {"state"},
    {"core"},
    {"order", "views", "shadows"},
    {"windows", "workers", "groups", "file_cache"},
    {"sources", "formats", "stages"},
    {"pipeline", "triggers"},
    {"leases"},
    {"from_files", "consumed", "checkpoint", "monitoring"},
    {"testing"},
    {"verify"},
    {"bench"},
    {"cli"},
    {"__init__", "__main__"},
]
PUBLIC = {
    "AtEnd", "AtSteps", "Checkpoint", "CheckpointListener", "Checkpointer", "CorruptCheckpoint",
    "Directory", "EverySeconds", "EverySteps", "ExternalStateError", "FileCache", "InvalidArgument",
    "InvalidType", "IteratorClosed", "Lease", "LeaseCounts", "Leases", "MalformedItem", "Memory", "MissingDependency", "MissingFile",
    "NameInUse", "NewerFormat", "NoValidCheckpoint", "OnSignal", "Pipeline", "PipelineIterator", "Progress", "ReadError",
    "ResumableError", "Remote", "Retention", "SaveError", "Stage", "StageIterator", "StateMismatch",
    "Store", "Transform", "TransformIterator", "Trigger", "UnencodableState", "UnknownLength",
    "When", "WorkerError", "array_record", "arrow", "by_epoch", "concatenate", "csv", "decoders", "dumps", "every", "files",
    "from_arrays", "from_iterable", "from_sequence", "image_classes", "image_folder", "interleave",
    "jsonl", "lance", "lines", "litdata", "loads", "mds", "megatron", "merge_states", "metrics", "mix", "origins", "padded", "parquet", "partition", "range", "read_exclusions", "tar", "task_name", "tfrecord", "warc",
    "zip",
}  # fmt: skip


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules below `resumable` that a module takes names from, also inside functions."""
    path = MODULES[module]
    package = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
        origin = ".".join(filter(None, base))
        for alias in node.names:
            inner = f"{origin}.{alias.name}".lstrip(".")
            found.add(inner if inner in MODULES else origin or "__init__")
    return frozenset(found)


def package_of(module: str) -> str:
    return module.split(".")[0]


def place_of(module: str) -> int:
    (place,) = [place for place, packages in enumerate(CHAIN) if package_of(module) in packages]
    return place


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    for imported in imports_of(module) - {"__init__"}:
        inside = package_of(imported) == package_of(module)
        assert inside or place_of(imported) < place_of(module), f"{module} imports {imported}"


def test_there_are_no_import_cycles() -> None:
    rest = {module: imports_of(module) - {"__init__"} for module in MODULES}
    while free := [module for module, imported in rest.items() if not imported & rest.keys()]:
        for module in free:
            del rest[module]
    assert not rest, f"in an import cycle, or behind one: {sorted(rest)}"


def test_the_root_is_a_front_door() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 6


# What they tell a user, or try, depends on the kind of stage.
EXPLAIN_STAGES = {
    *("bench/advice.py", "verify/deals.py", "verify/hints.py", "verify/flow.py"),
    "checkpoint/exclusion_place.py",
}


def test_only_pipeline_and_what_explains_stages_know_more_than_one() -> None:
    stages = {module for module in MODULES if package_of(module) == "stages"}
    for module, path in MODULES.items():
        if path.parent.name == "stages" or path.name == "pipeline.py":
            continue
        if path.relative_to(PACKAGE).as_posix() in EXPLAIN_STAGES:
            continue
        assert len(imports_of(module) & stages) <= 1, path


FRAMEWORKS = re.compile(
    "torch|accelerate|lightning|tensorflow|keras|jax|grain|datasets|mosaicml|litdata", re.IGNORECASE
)


def texts_of(path: Path) -> list[str]:
    """The strings of a module that are no docstrings, and its names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]
    return strings + [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def test_the_core_and_the_state_know_no_framework_by_name() -> None:
    for folder in ("core", "state"):
        for path in (PACKAGE / folder).glob("*.py"):
            assert not [text for text in texts_of(path) if FRAMEWORKS.search(text)], path


def test_stages_import_what_authors_have_from_where_authors_find_it() -> None:
    kit = set(vars(core))
    for path in (PACKAGE / "stages").glob("*.py"):
        beneath = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("core.")
            for alias in node.names
        }
        assert not beneath & kit, path


def test_all_that_authors_of_stages_have_is_on_the_page_for_them() -> None:
    page = (PACKAGE.parent / "docs/reference/core.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. (?:auto|py:)\w+:: (\w+)$", page, re.MULTILINE))
    tree = ast.parse(Path(core.__file__).read_text(encoding="utf-8"))
    kit = {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    # The errors have another page, and the last two are no names for authors.
    elsewhere = {"annotations", "StateMismatch", "TYPE_CHECKING", "deprecated_name"}
    missing = kit - described - elsewhere
    assert not missing, f"{sorted(missing)} must be in docs/reference/core.md"


def test_importing_loads_no_framework_and_starts_no_thread() -> None:
    code = (
        "import sys, threading, resumable\n"
        "assert 'numpy' not in sys.modules\n"
        "resumable.range, resumable.Checkpointer\n"
        "heavy = {'torch', 'tensorflow', 'pandas', 'hypothesis', 'tqdm', 'pytest', 'dask', 'ray',\n"
        "    'fsspec', 'loky', 'matplotlib', 'multiprocessing'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_pinned() -> None:
    changed = {name for name in dir(rs) if not name.startswith("_")} ^ PUBLIC
    assert not changed, f"{changed} must be in PUBLIC of this file, or not be public"
    assert set(rs.__all__) == PUBLIC
    tree = ast.parse(Path(rs.__file__).read_text(encoding="utf-8"))
    for_type_checkers = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level and node.module
        for alias in node.names
    }
    assert set(for_type_checkers) == PUBLIC
    for name, module in for_type_checkers.items():
        assert getattr(rs, name) is getattr(import_module(f"resumable.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rs.nothing  # noqa: B018


def test_the_overview_has_every_public_name() -> None:
    words = set(re.findall(r"\w+", rs.__doc__ or ""))
    assert words >= PUBLIC


def test_documented_packages_are_found_from_the_root_when_they_are_asked_for() -> None:
    packages = "testing", "core", "order", "consumed"
    code = (
        "import sys, resumable as rs\n"
        f"packages = {packages}\n"
        "assert not [name for name in packages if f'resumable.{name}' in sys.modules]\n"
        "for name in packages:\n"
        "    assert getattr(rs, name) is sys.modules[f'resumable.{name}']\n"
        "assert 'hypothesis' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kept", ["stage", "items", "state_at", "pull_as_moved"])
def test_what_is_for_authors_is_there_but_not_offered_to_users(kept: str) -> None:
    pipeline = rs.range(3)
    user = pipeline if kept == "stage" else iter(pipeline)
    assert hasattr(user, kept)
    assert kept not in dir(user)
    assert {"map", "batch"} <= {*dir(pipeline)}
    assert {"get_state", "step", "stats"} <= {*dir(iter(pipeline))}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_documented(name: str) -> None:
    assert (getattr(rs, name).__doc__ or "").strip()


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
