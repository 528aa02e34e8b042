"""How Sphinx builds the pages: ``sphinx-build -W -b dirhtml docs build/docs``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "adapters"), str(Path(__file__).parent / "extensions")]

import resumable  # noqa: E402
from resumable import from_files, pipeline  # noqa: E402, F401  # they fill `built_by`
from resumable.views.explained import built_by  # noqa: E402

project = "resumable"
author = "the authors of resumable"
copyright = author
release = version = resumable.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "folded",
    "overview",
]
exclude_patterns = ["build", "extensions", "inventories"]
# A link that leads nowhere fails the build, but for names of frameworks.
nitpicky = True
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(?:client|fsspec|tf|tensorflow|torch|jax|orbax|ocp|grain|lightning|transformers|hypothesis|distributed|dist|ray)(?:\..*)?"
        r"|(?:BackupAndRestore|CheckpointSaverListener|ModelCheckpoint|Saver|UploadFn|ValidationTaskConfig|Mesh|Sharding|Tree|Stateful|HasState|Tokens|ToGlobal|CheckpointUploadMode)"
        r"|resumable\.(?:core\.foreseen\.PartUses|core\.indexed\.EpochAt|groups\.padding\.Padded|formats\.example\.ExampleDecoder)|resumable\.testing\.laws\.ResumedItems|resumable_torch\.rank_states\.Stateful",
    ),
]

# Excerpts of the inventories of these projects, with the names that the pages use: the pages are built
# without a network. The build says what is missing.
intersphinx_mapping = {
    name: (address, f"inventories/{name}.txt")
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "torch": "https://docs.pytorch.org/docs/stable/",
    }.items()
}

add_module_names = False  # each page says in which module its names are
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# In docstrings, a name between single backquotes is a link to what it names.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
autodoc_class_signature = "mixed"
autodoc_mock_imports = [
    "torch", "torchtitan", "lightning", "transformers", "tensorflow", "hypothesis", "jax", "orbax", "grain", "etils", "ray", "pyarrow",
]  # fmt: skip
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

myst_enable_extensions = ["colon_fence", "attrs_inline", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"resumable {release}"
html_static_path = ["_static"]
html_css_files = ["resumable.css"]
html_theme_options = {"navigation_with_keys": True}
html_search_scorer = str(Path(__file__).parent / "extensions/scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_here_doc_delimiter = "EOF"
copybutton_only_copy_prompt_lines = True


ROOTS = ("resumable", "resumable_torch", "resumable_tf", "resumable_jax", "resumable_ray", "rs")
"""The packages that names in the text begin with."""


MADE_BY = {
    name: f"resumable.{made.__qualname__}"
    for kind, made in built_by.items()
    for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")
}
"""The method or function that makes a stage and explains it, by the name of the stage's class."""


def link_to_what_is_documented(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Follow a name that is written without its module, or with the one that defines it.

    A docstring says `freeze` or `resumable.core.stage.Stage`, as its module does; the page says
    where that is found by whoever uses it. The class of a stage is explained where it is made.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    target = MADE_BY.get(node["reftarget"], node["reftarget"])
    parts = target.split(".")
    for start in range(len(parts)):
        found = domain.find_obj(env, None, None, ".".join(parts[start:]), None, searchmode=1)
        if found:
            # If there are several, take the one with the shortest name: a class comes before a method.
            name, _ = min(found, key=lambda pair: (pair[0].count("."), len(pair[0]), pair[0]))
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
        if parts[0] not in ROOTS:
            break
    return content if re.fullmatch(r"[A-Z](?:_co)?", parts[-1]) else None  # a variable of types


ELSEWHERE = {
    "concurrent.futures._base.": "concurrent.futures.",
    "numpy.random._generator.": "numpy.random.",
    "np.": "numpy.",
    "DataLoader": "torch.utils.data.DataLoader",
    "dist.": "torch.distributed.",
}
"""Beginnings of the names of other projects, and how their documentation calls them."""


def name_as_others_do(app: Any, env: Any, node: Any, content: Any) -> None:
    """Give a name of another project the module in which its documentation has it."""
    target = node.get("reftarget", "").removesuffix("()")
    for ours, theirs in ELSEWHERE.items():
        if target.startswith(ours):
            target = theirs + target.removeprefix(ours)
            break
    node["reftarget"] = target


def keep_the_first_sentence(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """In an attribute's docstring, keep what stands before a colon as text: it is not the type."""
    if what in ("attribute", "data", "property") and lines:
        lines.insert(0, "\\ ")  # nothing, in a line without a colon


def signature_of_the_class(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: Any
) -> Any:
    """Give a class whose base stands in for a framework's the signature of its own ``__init__``."""
    if what != "class" or signature != "(*args, **kwargs)" or "__init__" not in vars(obj):
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(plain)), returns


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("missing-reference", name_as_others_do, priority=100)
    app.connect("missing-reference", link_to_what_is_documented)
    app.connect("autodoc-process-signature", signature_of_the_class)
    app.connect("autodoc-process-docstring", keep_the_first_sentence, priority=100)
