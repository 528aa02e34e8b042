"""Imports point one way, importing is light, and the public names are what they are."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import resumable as rs

PACKAGE = Path(rs.__file__).parent

# A module may import from its own layer and from those before it.
LAYERS = [
    {"errors"},
    {"arguments", "bounds", "drawing", "table"},
    {"block", "state"},
    {"order", "external", "encoding"},
    {"stage"},
    {"transform", "fingerprint", "state_tree"},
    {"indexed", "description", "graph"},
    {"sources", "stages"},
    {"iterator"},
    {"pipeline", "triggers"},
    {"checkpoint", "consumed", "target"},
    {"testing"},
    {"verify"},
    {"bench"},
    {"cli", "__init__", "__main__"},
]
PUBLIC = {
    "AtEnd", "AtSteps", "Checkpoint", "CheckpointListener", "Checkpointer", "CorruptCheckpoint",
    "Directory", "EverySeconds", "EverySteps", "ExternalStateError", "InvalidArgument",
    "InvalidType", "IteratorClosed", "MalformedItem", "Memory", "MissingDependency",
    "NewerFormat", "NoValidCheckpoint", "OnSignal", "Pipeline", "PipelineIterator", "Progress",
    "ResumableError", "Remote", "Retention", "SaveError", "Stage", "StageIterator", "StateMismatch",
    "Store", "Transform", "TransformIterator", "Trigger", "UnencodableState", "UnknownLength",
    "When", "WorkerError", "concatenate", "dumps", "every", "from_arrays", "from_iterable",
    "from_sequence", "interleave", "jsonl", "lines", "loads", "mix", "range", "task_name",
    "zip",
}  # fmt: skip


def layer_of(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise AssertionError(f"{name} stands in no layer")


def imported_parts(path: Path) -> set[str]:
    """The first parts, below `resumable`, of what a module imports."""
    depth = len(path.relative_to(PACKAGE).parts) - 1
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {name.split(".")[0] for name in names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add(path.relative_to(PACKAGE).parts[0])
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_one_way(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for part in imported_parts(path) - {"__version__"}:
        assert layer_of(part) <= layer_of(own), f"{own} imports {part}"


def test_only_pipeline_knows_more_than_one_stage() -> None:
    stages = {path.stem for path in (PACKAGE / "stages").glob("*.py")}
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "stages" or path.name == "pipeline.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            node.module.removeprefix("stages.")
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
        }
        assert len(imported & stages) <= 1, path


def test_importing_loads_no_framework_and_starts_no_thread() -> None:
    code = (
        "import sys, threading, resumable\n"
        "assert 'numpy' not in sys.modules\n"
        "resumable.range, resumable.Checkpointer\n"
        "heavy = {'torch', 'tensorflow', 'pandas', 'hypothesis', 'tqdm', 'pytest', 'dask', 'fsspec',\n"
        "    'loky', 'matplotlib', 'multiprocessing'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_pinned() -> None:
    assert {name for name in dir(rs) if not name.startswith("_")} == PUBLIC
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


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_documented(name: str) -> None:
    assert (getattr(rs, name).__doc__ or "").strip()


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
