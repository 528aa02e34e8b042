"""How Sphinx builds the pages: ``sphinx-build -W -b dirhtml docs build/docs``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "adapters")]

import resumable  # noqa: E402

project = "resumable"
author = "the authors of resumable"
copyright = author
release = version = resumable.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["build"]
# A link that leads nowhere fails the build, but for names of Python's own and of other projects, whose
# pages are not at hand.
nitpicky = True
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(?:builtins|bytes|collections|concurrent|functools|math|os|pickle|queue|signal)\..*"
        r"|(?:len|next|repr|iter|range|zip|map|filter)(?:\(\))?"
        r"|(?:client|fsspec|numpy|tf|torch|jax|orbax|ocp|grain|lightning|transformers|hypothesis|distributed|ray)(?:\..*)?"
        r"|(?:BackupAndRestore|CheckpointSaverListener|DataLoader|ModelCheckpoint|Saver)"
        r"|.*\.T",
    ),
]

add_module_names = False  # each page says in which module its names are
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# In docstrings, a name between single backquotes is a link to what it names.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
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
html_title = "resumable"
html_static_path = ["_static"]
html_css_files = ["resumable.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_here_doc_delimiter = "EOF"
copybutton_only_copy_prompt_lines = True


ROOTS = ("resumable", "resumable_torch", "resumable_tf", "resumable_jax", "resumable_ray", "rs")
"""The packages that names in the text begin with."""


def link_to_what_is_documented(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Follow a name that is written without its module, or with the one that defines it.

    A docstring says `freeze` or `resumable.core.stage.Stage`, as its module does; the page says
    where that is found by whoever uses it.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    parts = node["reftarget"].split(".")
    for start in range(len(parts)):
        found = domain.find_obj(env, None, None, ".".join(parts[start:]), None, searchmode=1)
        if found:
            # If there are several, take the one with the shortest name: a class comes before a method.
            name, _ = min(found, key=lambda pair: (pair[0].count("."), len(pair[0]), pair[0]))
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)
        if parts[0] not in ROOTS:
            return None
    return None


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
    app.connect("missing-reference", link_to_what_is_documented)
    app.connect("autodoc-process-signature", signature_of_the_class)
    app.connect("autodoc-process-docstring", keep_the_first_sentence, priority=100)
