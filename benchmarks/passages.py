"""The tables and sentences of the pages that have figures; each is made from the published results."""

# A passage has the name of its function, with hyphens. What pages say around it must not depend on a figure.

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from benchmarks.discovery import BARE, OURS
from benchmarks.elastic_loaders import ITEMS
from benchmarks.published import NONE, Published, Ratios, figure, table_of, with_quartiles
from benchmarks.timings import spread

__all__ = ["PASSAGES"]


class Speed(NamedTuple):
    """A work of the table of speeds."""

    says: str
    workload: str
    variant: str


SPEEDS: Final = (
    Speed("50,000 images in arrays, shuffled, in batches of 256", "columns", "columns"),
    Speed(
        "a Python function of a million shuffled integers, in batches of 256", "python_map", "python-map"
    ),
    Speed("a function and a filter, item by item", "item_by_item", "item-by-item"),
    Speed(
        "a stream shuffled in a window of 10,000, in batches of 256", "stream_shuffle", "stream-shuffle"
    ),
    Speed("a million JSON lines on disk, shuffled, parsed, in batches of 256", "text", "text"),
    Speed("arrays of 1 MiB from two processes", "parallel", "arrays 2 process"),
    Speed("arrays of 1 MiB from two threads", "parallel", "arrays 2 thread"),
    Speed("compression in two processes", "parallel", "zlib 2 process"),
)  # fmt: skip
IMAGES, LINES = SPEEDS[0], SPEEDS[4]

GLOBAL, BUFFERED = "everything shuffled", "a stream shuffled in a buffer of 10,000"
"""The works of the resumes."""
POSITIONS: Final = ("100", "10000", "1000000")
"""The items handed out before the resumes of the tables."""
ANEW: Final = "resumable, a stream read anew"

COLUMNS: Final = {
    OURS: OURS,
    "Grain": "Grain",
    "infinibatch": "infinibatch",
    "torch DataLoader": "torch",
    "torchdata": "torchdata",
    "tf.data": "tf.data",
    "datasets": "Hugging Face datasets",
    "MosaicML Streaming": "MosaicML Streaming",
}
"""The loaders of the README's table, and what they are called there."""
NODES: Final = {"torchdata": "torchdata.nodes"}
"""Loaders that have another name in races."""
ELASTIC: Final = {
    OURS: OURS,
    "Grain": "Grain, slices",
    "torchdata": "torchdata StatefulDataLoader",
    "tf.data": "tf.data",
    "datasets": "datasets in a StatefulDataLoader",
    "MosaicML Streaming": "MosaicML Streaming",
}
"""The loaders that were resumed with other ranks and workers, by the names of the README's table."""
GRAINS_OTHER: Final = "Grain, experimental ElasticIterator"


def comparison(found: Published) -> str:
    """The table of the README."""
    passages: list[tuple[str, Callable[[str], str]]] = [
        ("a shuffled stream resumes with the same items", lambda name: _goes_on(found, name)),
        ("bytes of its state, buffer of 10⁶ integers", lambda name: _state_bytes(found, name)),
        (
            "ms to resume after 10⁶ items, everything shuffled",
            lambda name: _milliseconds(found, GLOBAL, name),
        ),
        (
            "ms to resume after 10⁶ items, a stream shuffled in a buffer of 10⁴",
            lambda name: _milliseconds(found, BUFFERED, name),
        ),
        (
            "2 workers at the save, 3 on the resume",
            lambda name: _after_change(found, "2 workers, then 3", name),
        ),
        (
            "4 ranks at the save, 3 on the resume",
            lambda name: _after_change(found, "4 ranks, then 3", name),
        ),
        (f"{IMAGES.says}: time ÷ that of a plain loop", lambda name: _speed(found, IMAGES, name)),
        (f"{LINES.says}: time ÷ that of a plain loop", lambda name: _speed(found, LINES, name)),
    ]
    rows = [(says, *(cell(name) for name in COLUMNS)) for says, cell in passages]
    return table_of(("", *COLUMNS.values()), rows).replace(f"| {OURS} |", f"| `{OURS}` |")


def _goes_on(found: Published, name: str) -> str:
    exact = found.by_title("resume_time", BUFFERED, "exact") | found.by_title("state_size", "exact")
    if name == "MosaicML Streaming":
        return "yes, of its own files"
    if name not in exact:
        return "has no such shuffle"
    return "yes" if exact[name] == "yes" else "no, its buffer is lost"


def _state_bytes(found: Published, name: str) -> str:
    sizes = found.by_title("state_size", "bytes")
    return f"{sizes[name][-1]:,}" if name in sizes else NONE


def _milliseconds(found: Published, work: str, name: str) -> str:
    seconds = found.by_title("resume_time", work, "seconds")
    if name == OURS and work == BUFFERED:
        says = {OURS: "", ANEW: ", replayed"}
        return "; ".join(
            figure(1e3 * statistics.median([*seconds[each].values()][-1])) + says[each]
            for each in says
            if each in seconds
        )
    if name not in seconds:
        return NONE
    return figure(1e3 * statistics.median([*seconds[name].values()][-1]))


def _after_change(found: Published, change: str, name: str) -> str:
    if name not in ELASTIC:
        return NONE
    outcomes = found.by_title("elastic")
    says = _outcome(outcomes[ELASTIC[name]][change])
    if name == "Grain" and says != "exact":
        return f"{says}; {_outcome(outcomes[GRAINS_OTHER][change])} with `ElasticIterator`"
    return says


def _outcome(measured: dict[str, Any]) -> str:
    """What became of the items, in words."""
    lost, repeated, error = measured["lost"], measured["repeated"], measured["error"]
    if error:
        return f"refused (`{error.partition(':')[0]}`)"
    said = [f"{count} {word}" for count, word in ((lost, "lost"), (repeated, "repeated")) if count]
    return ", ".join(said) + f" of {ITEMS:,}" if said else "exact"


def _speed(found: Published, work: Speed, name: str) -> str:
    best = found.race(work.workload, work.variant).best()
    name = NODES.get(name, name)
    return figure(best[name][0]) if name in best else NONE


def tar_in_words(found: Published) -> str:
    """The row of tar archives of the README: only one other loader reads them."""
    title = "20,000 samples of 20,000 bytes"
    race = Ratios(found.raw("tar", title))
    by_hand = "tarfile, by hand"
    ours, shuffled, others = (
        figure(race.over(way, by_hand)[0]) for way in (OURS, "resumable, shuffled", "WebDataset")
    )
    return (
        f"Samples of 20 kB in tar archives take `resumable` {ours} times the processor time of a loop over "
        f"`tarfile`, or {shuffled} times with all of them shuffled, and WebDataset {others} times."
    )


def where(found: Published) -> str:
    """Where the README's figures come from."""
    first = found.runs[0].machine
    system = first["system"].partition("-")[0]  # without what a distribution adds to the version
    said = (
        f"Measured on {first['cores']} cores of a virtual machine ({first['processor']}, {system}, "
        f"Python {first['Python']})"
    )
    if len(found.measured_in()) == 1:
        return f"{said}, in one run, with {_versions(first)}."
    return (
        f"{said}, in {len(found.measured_in())} runs with different versions, partly while the machine had other "
        "work: so only large differences mean something. `benchmarks/results/results.md` has them all."
    )


def _versions(machine: dict[str, str]) -> str:
    general = {"processor", "cores", "system", "Python"}
    return ", ".join(f"{name} {value}" for name, value in machine.items() if name not in general)


def versions(found: Published) -> str:
    """A column for each set of versions."""
    runs: dict[str, list[Any]] = {}
    for run in found.runs:
        runs.setdefault(str(sorted(run.machine.items())), []).append(run)
    columns = [several[0].machine for several in runs.values()]
    names = {name: None for machine in columns for name in machine}
    titles = [", ".join(_workloads(several)) for several in runs.values()]
    header = ("", *(titles if len(titles) > 1 else ["all"]))
    rows = [(name, *(machine.get(name, "") for machine in columns)) for name in names]
    rows.append(("measured", *(max(run.date for run in several) for several in runs.values())))
    return table_of(header, rows)


def _workloads(runs: list[Any]) -> list[str]:
    return [f"`{result.name}`" for run in runs for result in run.results]


def speeds(found: Published) -> str:
    """A row for each work."""
    rows = []
    for work in SPEEDS:
        best = found.race(work.workload, work.variant).best()
        ours = best.pop(OURS)
        fastest, *others = best.items()
        far = [figure(ratio[0]) for _, ratio in others]
        rows.append(
            (
                work.says,
                with_quartiles(ours),
                f"{fastest[0]} {with_quartiles(fastest[1])}",
                " to ".join(dict.fromkeys([far[0], far[-1]])) if far else NONE,
            )
        )
    return table_of(("work", f"`{OURS}`", "the fastest other", "the others"), rows)


def memory_and_imports(found: Published) -> str:
    """What lines and the import take."""
    private = found.raw("text", "text", "private_bytes")
    mib = {name: f"{private[name] / 2**20:,.0f}" for name in (OURS, "torch", "torchdata")}
    imports = found.raw("imports")
    own, needed = (
        spread([1e3 * each for each in imports[name]]) for name in (OURS, "numpy and msgpack")
    )
    return (
        f"The lines take this library {mib[OURS]} MiB of memory. torch and torchdata have no source of lines, hold "
        f"all of them in a list, and take {mib['torch']} and {mib['torchdata']} MiB. `import resumable` takes "
        f"{with_quartiles(own)} ms, next to the {with_quartiles(needed)} ms of NumPy and msgpack, since modules are "
        "imported when they are first used."
    )


def language_models(found: Published) -> str:
    """Packing and bucketing."""
    rows = []
    for variant, title, names in (
        (
            "packed whole",
            "packed whole",
            {
                "torch DataLoader, packing written by hand": "the same packing written by hand, in torch's `DataLoader`",
                "Grain": "Grain's own packers, the fastest",
            },
        ),
        (
            "bucketed",
            "batches of like length",
            {"infinibatch": "infinibatch", "tf.data": "tf.data"},
        ),
    ):
        raw = found.raw("language_model", variant)
        race = Ratios(raw["seconds"])
        shown = {BARE: "a plain loop", OURS: f"`{OURS}`"} | names
        labels = {start: _best_of(race, start) for start in shown}
        for start in sorted(shown, key=lambda start: race.over(labels[start], OURS)[0]):
            label = labels[start]
            rows.append(
                (
                    f"{title}: {shown[start]}",
                    with_quartiles(race.over(label, OURS)),
                    f"{100 * raw['delivered'][label]['padding']:.2f} %",
                )
            )
    header = ("", f"time ÷ that of `{OURS}`", "padding")
    return table_of(header, rows)


def _best_of(race: Ratios, start: str) -> str:
    """The fastest configuration whose label begins so."""
    labels = [label for label in race.seconds if label == start or label.startswith(f"{start},")]
    return min(labels, key=lambda label: race.over(label, OURS)[0])


def token_file(found: Published) -> str:
    """Windows of a file of tokens."""
    race = Ratios(found.raw("token_file", "seconds"))
    usual, plain = "by hand, slices of the memmap", "by hand, slices of a plain array"
    return (
        "Windows of 1,025 tokens out of a file of 2·10⁸, shuffled, in batches of 16, take "
        f"{with_quartiles(race.over(OURS, usual))} times as long as the usual loop over a `numpy.memmap`, and "
        f"{with_quartiles(race.over(OURS, plain))} times as long as one over a plain array of the same file."
    )


def state_bytes(found: Published) -> str:
    """The bytes of states."""
    sizes, exact = found.by_title("state_size", "bytes"), found.by_title("state_size", "exact")
    rows = [
        (_title(name, exact), *(f"{sizes[name][buffer]:,}" for buffer in (0, 1, -1)))
        for name in sorted(sizes, key=lambda name: (not name.startswith(OURS), sizes[name][-1]))
    ]
    return table_of(("bytes, by items in the buffer", "1,000", "10,000", "1,000,000"), rows)


def _title(name: str, exact: dict[str, str]) -> str:
    remark = " (loses the buffer)" if exact.get(name) == "no" else ""
    remark = " (its files, shuffled in blocks)" if name == "MosaicML Streaming" else remark
    return f"{name.replace(OURS, f'`{OURS}`').replace('a stream read anew', 'a stream replayed')}{remark}"


def six_stages(found: Published) -> str:
    """The state of a pipeline that looks up by index."""
    stages = "range, shuffle, map, batch(64), repeat, take"
    costs = [
        cost
        for title in (": number of items, at batch 1,000", ": position in batches, of 10¹² items")
        for cost in found.raw("state", f"{stages}{title}").values()
    ]

    def least_and_most(key: str, factor: float, digits: int) -> str:
        values = [f"{factor * cost[key]:,.{digits}f}" for cost in costs]
        ordered = sorted(values, key=lambda value: float(value.replace(",", "")))
        return " to ".join(dict.fromkeys([ordered[0], ordered[-1]]))

    return (
        "The state of a pipeline that looks items up by index does not depend on the data: "
        f"{least_and_most('bytes', 1, 0)} bytes for six stages, {least_and_most('take', 1e6, 1)} µs to take, and "
        f"{least_and_most('restore', 1e3, 2)} ms to restore up to the first batch, from 10³ to 10¹² items and from "
        "position 0 to 10⁹."
    )


def resumes(found: Published) -> str:
    """A table for each work."""
    tables = []
    for work in (GLOBAL, BUFFERED):
        seconds = found.by_title("resume_time", work, "seconds")
        exact = found.by_title("resume_time", work, "exact")
        rows = [
            (
                _title(name, exact),
                *(
                    figure(1e3 * statistics.median(seconds[name][position]))
                    for position in POSITIONS
                ),
            )
            for name in sorted(
                seconds,
                key=lambda name: (not name.startswith(OURS), statistics.median([*seconds[name].values()][-1])),
            )
        ]  # fmt: skip
        header = (f"{work}: ms, by items handed out", *(f"{int(each):,}" for each in POSITIONS))
        tables.append(table_of(header, rows))
    return "\n\n".join(tables)


def other_ranks(found: Published) -> str:
    """What becomes of the items."""
    outcomes = found.by_title("elastic")
    changes = ("4 ranks, then 3", "2 workers, then 3", "2 workers, then 0")
    rows = [
        (title.replace(OURS, f"`{OURS}`"), *(_outcome(each[change]) for change in changes))
        for title, each in outcomes.items()
    ]
    return table_of(("", *changes[:2], "2 workers, then none"), rows)


def noise(found: Published) -> str:
    """What else ran on the machine."""
    if len(found.measured_in()) == 1:
        return (
            "All figures are from one run. Times vary by a tenth and more "
            "between runs on such machines. Compare ratios, and only large ones."
        )
    return (
        "The figures are from several runs, with different versions. While the files of records, the text and the "
        "resumes were measured, other programs kept the cores busy, and times varied by a factor of two. Compare "
        "ratios, and only large ones."
    )


def unmet(found: Published) -> str:
    """How many of the project's limits the published results keep."""
    met = [claim.met for run in found.runs for result in run.results for claim in result.claims]
    return f"Of {len(met)} limits that the project sets itself, {len(met) - met.count(False)} are kept."


def two_processes(found: Published) -> str:
    """How many times as fast two processes compress as one."""
    one, two = (
        found.raw("parallel", f"zlib {workers} process", "seconds", OURS) for workers in (1, 2)
    )
    return with_quartiles(
        spread([single / double for single, double in zip(one, two, strict=True)])
    )


PASSAGES: Final[dict[str, Callable[[Published], str]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        comparison, tar_in_words, where, speeds, memory_and_imports, language_models, token_file,
        state_bytes, six_stages, resumes, other_ranks, noise, two_processes, unmet,
    )
}  # fmt: skip
