"""Tables in the reference: an overview of a page, and the classes of stages.

`{overview}` lists what the page describes, each name with its first sentence, by section.
`{stage-classes}` lists the classes of stages, each with the method or function that makes it. A link to
such a class leads to that method, where everything about the stage stands.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes

from resumable.views.explained import built_by

HERE = {
    f"py:{kind}"
    for kind in (
        "function",
        "method",
        "class",
        "property",
        "attribute",
        "exception",
        "data",
        "type",
    )
}


class Overview(nodes.General, nodes.Element):
    """Stands where the table comes once the page is read."""


class OverviewDirective(Directive):
    """``{overview}``."""

    def run(self) -> list[nodes.Node]:
        return [Overview()]


class StageClassesDirective(Directive):
    """``{stage-classes}``."""

    def run(self) -> list[nodes.Node]:
        builders = sorted((path_of(kind), path_of(made)) for kind, made in built_by.items())
        rows = [[nodes.literal("", kind), reference_to(made)] for kind, made in builders]
        return [table(["class", "made by"], rows)]


def path_of(documented: Any) -> str:
    """Where users find it."""
    name: str = documented.__qualname__
    if isinstance(documented, type):
        return f"{documented.__module__}.{name}"
    return f"resumable.{name}"


def reference_to(path: str) -> nodes.Node:
    """A link to what is documented under ``path``."""
    name = path.removeprefix("resumable.")
    shown = nodes.literal("", name if name.startswith("Pipeline.") else f"rs.{name}")
    options = {"refdomain": "py", "reftype": "obj", "reftarget": path, "refexplicit": True}
    return addnodes.pending_xref("", shown, **options)


def table(heads: list[str], rows: list[list[nodes.Node]]) -> nodes.Node:
    """A table; without a head if ``heads`` are empty."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in heads], cols=len(heads))
    group += nodes.thead("", row([nodes.Text(head) for head in heads])) if any(heads) else []
    group += nodes.tbody("", *[row(cells) for cells in rows])
    return nodes.table("", group, classes=["overview"])


def row(cells: list[nodes.Node]) -> nodes.row:
    """A row of a table."""
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def fill_overviews(app: Any, doctree: nodes.document) -> None:
    """Put the tables in their places."""
    for place in list(doctree.findall(Overview)):
        found: list[nodes.Node] = []
        for section in doctree.findall(nodes.section):
            rows = [line for each in described(section) if (line := line_of(each))]
            if rows and section["ids"]:
                title = section.next_node(nodes.title)
                assert title is not None
                link = nodes.reference("", title.astext(), refid=section["ids"][0], internal=True)
                found += [
                    nodes.paragraph("", "", nodes.strong("", "", link)),
                    table(["", ""], rows),
                ]
        place.replace_self(nodes.container("", *found, classes=["overviews"]))


def described(section: nodes.section) -> list[addnodes.desc]:
    """The objects of a section, but not those of its own sections."""
    return [
        each
        for each in section.findall(addnodes.desc)
        if f"{each['domain']}:{each['objtype']}" in HERE and section_of(each) is section
    ]


def section_of(node: nodes.Node) -> nodes.Node | None:
    """The innermost section around ``node``."""
    above = node.parent
    while above is not None and not isinstance(above, nodes.section):
        above = above.parent
    return above


def line_of(description: addnodes.desc) -> list[nodes.Node] | None:
    """The name of what is described and its first sentence; None if it has none."""
    signature = description.next_node(addnodes.desc_signature)
    content = description.next_node(addnodes.desc_content)
    if signature is None or content is None or not signature["ids"]:
        return None
    own = (each for each in content.children if isinstance(each, nodes.paragraph))
    paragraph = next((each for each in own if not each.astext().startswith("Bases: ")), None)
    if paragraph is None:
        return None
    inside = isinstance(description.parent, addnodes.desc_content)
    name = signature.next_node(addnodes.desc_name)
    assert name is not None
    within = signature.next_node(addnodes.desc_addname)
    prefix = within.astext() if within is not None and "Pipeline" in within.astext() else ""
    text = ("." if inside or prefix else "") + name.astext()
    link = nodes.reference(
        "", "", nodes.literal("", text), refid=signature["ids"][0], internal=True
    )
    return [link, first_sentence(paragraph)]


def first_sentence(paragraph: nodes.paragraph) -> nodes.Node:
    """The inline nodes of a paragraph up to the end of its first sentence."""
    kept = nodes.inline()
    for child in paragraph.children:
        text = child.astext() if isinstance(child, nodes.Text) else ""
        end = text.replace("\n", " ").find(". ")
        if end >= 0:
            kept += nodes.Text(text[: end + 1])
            break
        kept += child.deepcopy()
    return kept


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_node(Overview)
    app.add_directive("overview", OverviewDirective)
    app.add_directive("stage-classes", StageClassesDirective)
    app.connect("doctree-read", fill_overviews)
    return {"parallel_read_safe": True}
