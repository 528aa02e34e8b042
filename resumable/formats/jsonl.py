"""Decode JSON lines, with the place of a malformed one in the error."""

from __future__ import annotations

import json
from typing import Any

from ..errors import MalformedItem
from .lines import LocatedLine

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse_json_line(line: LocatedLine) -> Any:
    """The value of one JSON line, encoded in UTF-8.

    Raises:
      MalformedItem: with file, line and column, if it is not one JSON value.
    """
    data = line.data
    if line.number == 1 and data.startswith(BYTE_ORDER_MARK):
        data = data[len(BYTE_ORDER_MARK) :]
    try:
        return json.loads(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        column, reason = error.colno, error.msg
    except UnicodeDecodeError as error:
        column, reason = error.start + 1, f"not UTF-8: {error.reason}"
    except RecursionError:
        column, reason = 1, "nested too deeply"
    except ValueError as error:  # a number with too many digits
        column, reason = 1, str(error)
    raise MalformedItem(f"{line.path}, line {line.number}, column {column}: {reason}")
