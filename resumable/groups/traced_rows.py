"""Rows of documents together with their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..core.block import Indices
from ..core.origin import PackedOrigin, Segment, TokenSpan
from ..shadows.traced import Traced
from .documents import PLAIN, Documents
from .row_format import Capacity, RowFormat
from .segments import Segments

ORIGIN: Final = "\0origin"
"""The field of a document with its origin, a name that no user has."""


def with_origin(traced: Traced[Any]) -> dict[str, Any]:
    """The document of ``traced``, with a field for its origin."""
    document = traced.item
    fields = document if isinstance(document, Mapping) else {PLAIN: document}
    return {**fields, ORIGIN: traced.origin}


def traced_rows(
    rows: Sequence[dict[str, Any]],
    documents: Documents,
    segments: Segments,
    numbers: Indices,
    form: RowFormat,
) -> list[Traced[dict[str, Any]]]:
    """The ``rows`` with their origins.

    Args:
      rows: after `add_values`.
      documents: the documents of the segments.
      segments: of the documents.
      numbers: the row of each segment, shape (segments,).
      form: of the rows.
    """
    placed, firsts = segments.by_row(numbers, len(rows))
    bounds = firsts.tolist()
    begins = documents.before[placed.numbers] + placed.begins
    made = []
    for row, first, last in zip(rows, bounds, bounds[1:], strict=False):
        origins = row.pop(ORIGIN)[: last - first]
        spans = [dict[str | None, TokenSpan]() for _ in origins]
        for place, capacity in enumerate(form.capacities):
            starts = _starts(row, capacity)
            for segment, span in enumerate(spans):
                at = first + segment, place
                begin, length = begins[at], placed.lengths[at]
                if length:
                    span[capacity.field] = TokenSpan(
                        int(begin), int(begin + length), starts[segment + 1]
                    )
        found = map(Segment, origins, spans)
        made.append(Traced(row, PackedOrigin(tuple(found))))
    return made


def _starts(row: Mapping[str, Any], capacity: Capacity) -> dict[int, int]:
    """Where the segment with each id begins in ``row``."""
    ids, places = np.unique(row[capacity.segment_ids], return_index=True)
    return dict(zip(ids.tolist(), places.tolist(), strict=True))
