"""Bytes of a saved state, over the size of the buffer of a shuffle."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Series, Table
from benchmarks.resuming import BATCH, made, measured, plain

MINUTES: Final = 6

WINDOWS = (10**3, 10**4, 10**5, 10**6)
TAKEN = 2  # windows of items before the save, as some loaders fill their buffer slowly


def states_of(make: str, windows: tuple[int, ...]) -> dict[str, tuple[int, bool]]:
    """For each window, the bytes of a state and whether a resume gives the same items."""
    found = {}
    for window in windows:
        loader = made(make, window, 5 * window)
        iterator, taken = loader.start(), TAKEN * window // BATCH
        for _ in islice(iterator, taken):
            pass
        saved = loader.save(iterator)
        expected = [plain(batch) for batch in islice(iterator, 3)]
        again = [plain(batch) for batch in islice(loader.restore(saved, taken), 3)]
        found[str(window)] = len(saved), again == expected
    return found


def run(options: Options) -> Result:
    """Measure all installed loaders that shuffle a stream."""
    windows = WINDOWS[:1] if options.quick else WINDOWS
    states: dict[str, dict[str, tuple[int, bool]]] = {}
    problems = []
    for title, (make, python) in measured(options, "window").items():
        call = partial(in_fresh_process, states_of, make, windows, python=python)
        try:
            states[title] = options.journal.once(title, measure=call)
        except Exception as error:
            problems.append(f"{title}: {error}")
    exact = {
        title: "yes" if all(same for _, same in each.values()) else "no"
        for title, each in states.items()
    }
    sizes = {title: [size for size, _ in each.values()] for title, each in states.items()}
    table = Table(
        "bytes, by items in the buffer",
        ("contestant", *(f"{window:,}" for window in windows), "goes on with the same items"),
        [(title, *(f"{size:,}" for size in each), exact[title]) for title, each in sizes.items()],
        ("The items are integers.",),
    )
    lines = [
        Series(title, [*windows], [float(size) for size in each]) for title, each in sizes.items()
    ]
    return Result(
        "state_size",
        (__doc__ or "").strip(),
        tables=[table],
        series={"bytes": lines},
        problems=problems,
        raw={"exact": exact, "bytes": sizes},
    )
