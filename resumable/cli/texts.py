"""Format times and errors for the commands."""

from __future__ import annotations

import time
from typing import Final

UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def explain(error: Exception) -> str:
    """The message of ``error``, without the number of an operating system error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def show_time(seconds: float, *, brief: bool = False) -> str:
    """``seconds`` since 1970 as local date and time; if ``brief``, without the date of today."""
    try:
        then = time.localtime(seconds)
        is_today = then[:3] == time.localtime()[:3]
        return time.strftime("%H:%M:%S" if brief and is_today else "%Y-%m-%d %H:%M:%S", then)
    except (ValueError, OverflowError, OSError):
        return f"at {seconds} seconds since the epoch"


def show_age(seconds: float) -> str:
    """``seconds`` in the two largest units."""
    if not abs(seconds) < 1e15:
        return f"{seconds} s"
    sign, rest = ("-" if seconds < 0 else ""), round(abs(seconds))
    days, rest = divmod(rest, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((n for n, (count, _) in enumerate(parts) if count), 3)
    return sign + " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])


def show_duration(seconds: float) -> str:
    """``seconds`` in a suitable unit, with three digits."""
    size, unit = next((one for one in UNITS if seconds >= one[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
