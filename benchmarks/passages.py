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
        says = {OURS: "", ANEW: ", read anew"}
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
        "work: so only large differences mean something. The page [Benchmarks](docs/benchmarks.md#versions) has them all."
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
                "datasets, packing written by hand": "the same packing written by hand, in datasets",
                "Grain": "Grain's own packers, the fastest",
            },
        ),
        ("packed as a stream", "cut from a stream", {"Grain": "Grain"}),
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
                    f"{raw['items'] / statistics.median(race.seconds[label]):,.0f}",
                    with_quartiles(race.over(label, OURS)),
                    f"{100 * raw['delivered'][label]['padding']:.2f} %",
                )
            )
    header = ("", "documents a second", f"time ÷ that of `{OURS}`", "padding")
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


def tar(found: Published) -> str:
    """Samples of tar archives."""
    titles = (
        "20,000 samples of 2,000 bytes",
        "20,000 samples of 20,000 bytes",
        "4,000 samples of 200,000 bytes",
    )
    ways = {"tarfile, by hand": "`tarfile`, by hand", "WebDataset": "WebDataset"}
    return _by_processor_time(found, "tar", titles, ways)


def tfrecord(found: Published) -> str:
    """Records of TFRecord files."""
    titles = (
        "200,000 records of 100 bytes",
        "20,000 records of 10,000 bytes",
        "2,000 records of 200,000 bytes",
    )
    ways = {"a loop by hand": "a loop by hand", "tf.data": "tf.data, `as_numpy_iterator`"}
    return _by_processor_time(found, "tfrecord", titles, ways)


def _by_processor_time(
    found: Published, workload: str, titles: tuple[str, ...], ways: dict[str, str]
) -> str:
    raw = found.raw(workload)
    ways = {OURS: f"`{OURS}`, in order", "resumable, shuffled": f"`{OURS}`, shuffled"} | ways
    rows = []
    for way, says in ways.items():
        cells = []
        for title in titles:
            race = Ratios(raw[title])
            if way == OURS:
                count = int(title.split()[0].replace(",", ""))
                each = spread([1e6 * seconds / count for seconds in race.seconds[way]])
                cells.append(f"1, {with_quartiles(each)} µs")
            else:
                cells.append(with_quartiles(race.over(way, OURS)) if way in race.seconds else NONE)
        rows.append((says, *cells))
    what = {"tar": "tar, bytes a sample", "tfrecord": "TFRecord, bytes a record"}[workload]
    return table_of((what, *(title.split()[-2] for title in titles)), rows)


def many_files(found: Published) -> str:
    """Ten thousand files of ten lines."""
    first, again = found.raw("many_files", "first"), found.raw("many_files", "again")
    lines = 10 * 10_000
    rows = []
    for way, runs in again.items():
        rows.append(
            (
                f"`{way}`" if way == OURS else way,
                with_quartiles(spread([run[0] for run in first[way]])),
                with_quartiles(spread([run[0] for run in runs])),
                with_quartiles(spread([1e3 * run[1] for run in runs])),
                with_quartiles(spread([1e6 * (run[1] + run[2]) / lines for run in runs])),
                f"{max(max(run[3], run[4]) for run in runs)}",
            )
        )
    header = (
        "", "opened first, s", "opened again, s", "first batch, ms", "a line, µs", "more descriptors",
    )  # fmt: skip
    return table_of(header, rows)


def large_files(found: Published) -> str:
    """Ten thousand files of many lines."""
    large = found.raw("many_files", "large")
    opened, first = spread([run[0] for run in large]), spread([1e3 * run[1] for run in large])
    return (
        "Where all lines fit into memory, a list of them is the fastest. 10,000 files of 100,000 lines, which hardly "
        f"fit, are opened again in {with_quartiles(opened)} s with their indexes, and the first shuffled batch comes "
        f"{with_quartiles(first)} ms later."
    )


def state_bytes(found: Published) -> str:
    """The bytes of states."""
    sizes, exact = found.by_title("state_size", "bytes"), found.by_title("state_size", "exact")
    rows = [
        (_title(name, exact), *(f"{size:,}" for size in sizes[name]))
        for name in sorted(sizes, key=lambda name: (not name.startswith(OURS), sizes[name][-1]))
    ]
    return table_of(
        ("bytes, by items in the buffer", "1,000", "10,000", "100,000", "1,000,000"), rows
    )


def _title(name: str, exact: dict[str, str]) -> str:
    remark = " (loses the buffer)" if exact.get(name) == "no" else ""
    remark = " (its files, shuffled in blocks)" if name == "MosaicML Streaming" else remark
    return f"{name.replace(OURS, f'`{OURS}`')}{remark}"


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
        positions = [*next(iter(seconds.values()))]
        rows = [
            (
                _title(name, exact),
                *(with_quartiles(spread([1e3 * each for each in taken])) for taken in seconds[name].values()),
            )
            for name in sorted(
                seconds,
                key=lambda name: (not name.startswith(OURS), statistics.median([*seconds[name].values()][-1])),
            )
        ]  # fmt: skip
        header = (f"{work}: ms, by items handed out", *(f"{int(each):,}" for each in positions))
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


def partitions(found: Published) -> str:
    """Seconds and processor seconds of an epoch."""
    spent = found.raw("partitions", "spent")
    basis = "one process / resumable"
    says = {
        "one process / resumable": f"`{OURS}`, one process",
        "one process / bare": "a plain loop",
        "2 processes call the function / resumable": f"`{OURS}`, `map` in two processes",
        "2 processes do the chain / resumable": f"`{OURS}`, 16 partitions in two processes",
    }
    rows = []
    for key, each in spent.items():
        title = says.get(key) or key.partition(" / ")[2] + ", the chain in two processes"
        pairs = zip(each, spent[basis], strict=True)
        rows.append(
            (
                title,
                figure(statistics.median(seconds for seconds, _ in each)),
                with_quartiles(spread([mine[0] / theirs[0] for mine, theirs in pairs])),
                figure(statistics.median(processor for _, processor in each)),
            )
        )
    rows.sort(key=lambda row: (OURS not in row[0], float(row[1].replace(",", ""))))
    return table_of(("", "seconds", "times one process", "processor seconds"), rows)


def saves(found: Published) -> str:
    """How much slower loops are that save."""
    raw = found.raw("save_overhead")
    rows = []
    for title, says, labels in (
        (
            "steps of 5 ms of waiting",
            "steps of 5 ms that wait, as for an accelerator",
            ("every 100, synchronous", "every 10, asynchronous"),
        ),
        (
            "steps of 5 ms of Python code",
            "steps of 5 ms of Python code",
            ("every 100, synchronous", "every 10, asynchronous"),
        ),
        (
            "the loop of python_map",
            "steps that do nothing",
            ("every 100, synchronous", "every 100, asynchronous", "every 100, by hand"),
        ),
    ):
        for label in labels:
            pairs = zip(raw[title][label], raw[title]["no saves"], strict=True)
            more = spread([100 * (mine / none - 1) for mine, none in pairs])
            how = label.replace("asynchronous", "in a thread").replace("synchronous", "in the loop")
            rows.append((says, how.replace(",", " steps,"), f"{with_quartiles(more)} %"))
    return table_of(("loop", "saves", "slower by"), rows)


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


def parquet(found: Published) -> str:
    """Rows of Parquet files, once they are measured."""
    kinds = found.by_title("parquet", "seconds")
    if not kinds:
        return "Parquet files are not measured yet."
    by_hand = "pyarrow by hand, in order"
    races = {kind: Ratios(seconds) for kind, seconds in kinds.items()}
    rows = [
        (
            way.replace(OURS, f"`{OURS}`"),
            *(with_quartiles(race.over(way, by_hand)) for race in races.values()),
        )
        for way in next(iter(races.values())).seconds
        if way != by_hand
    ]
    header = ("time ÷ that of pyarrow by hand, which reads in order", *races)
    return "400,000 rows of a Parquet file come in batches of 256:\n\n" + table_of(header, rows)


def more(found: Published) -> str:
    """What the newest workloads have measured, as far as they are published."""
    said = [
        passage(found)
        for workload, passage in MORE.items()
        if any(
            result.raw
            for run in found.runs_of(workload)
            for result in run.results
            if result.name == workload
        )
    ]
    if not said:
        return (
            "The same run measures a cache of remote files, stats, origins, `device_prefetch` of the JAX adapter, and Ray "
            "Data next to a `map` on Ray's actors. The published results are older than that."
        )
    return "\n\n".join(said)


def _remote_cache(found: Published) -> str:
    rows = [
        (
            {"global": "everything"}.get(row["shuffle"], "blocks, each of a shard"),
            f"{row['cache']:.0%}".replace("%", " %"),
            *(f"{each:.2f}" for each in (row["fetched"][-1], row["by last use"][-1])),
        )
        for row in found.raw("remote_cache", "bytes")
    ]
    header = (
        "shuffled",
        "room for",
        "fetched in the second epoch, parts of the data",
        "by a cache of last use",
    )
    speeds = [*found.raw("remote_cache", "speeds").values()]
    ratios = [
        with_quartiles(spread([a / b for a, b in zip(each["remote"], each["local"], strict=True)]))
        for each in speeds
    ]
    return (
        "200 MB in 200 files lie in a store, and a cache has room for a part of them:\n\n"
        f"{table_of(header, rows)}\n\n"
        "From a store that answers after 20 ms, with 100 MB a second for each connection, the first epoch comes at "
        f"{ratios[0]} times the speed of local files, and at {ratios[-1]} times where each item is worked on."
    )


def _origins(found: Published) -> str:
    ahead, behind = (
        with_quartiles(spread([1e3 * each for each in found.raw("origins", key)]))
        for key in ("ahead", "behind")
    )
    return (
        f"To ask where the items of step 10⁹ came from takes {ahead} ms for what is looked up by index. Behind a "
        f"`pack`, {found.raw('origins', 'read'):,} documents are read again, in {behind} ms."
    )


def _device_prefetch(found: Published) -> str:
    steps = found.raw("device_prefetch", "found")
    said = [
        f"{with_quartiles(_times(taken, 'device_prefetch'))} at {step}"
        for step, taken in steps.items()
        if step != "none"
    ]
    return (
        "`device_prefetch` of the JAX adapter takes so many times as long as the same loop by hand, by the work of a "
        f"step: {', '.join(said)}."
    )


def _ray_data(found: Published) -> str:
    ours, theirs = "resumable, map on Ray's actors", "Ray Data, iter_batches"
    said = [
        f"{with_quartiles(spread([a / b for a, b in zip(taken[theirs], taken[ours], strict=True)]))} for {work}"
        for work, taken in found.raw("ray_data", "found").items()
    ]
    return (
        "On a Ray cluster of one machine, Ray Data takes so many times as long as a `map` on Ray's actors: "
        f"{', '.join(said)}."
    )


def _times(taken: dict[str, list[float]], way: str) -> tuple[float, float, float]:
    return spread([a / b for a, b in zip(taken[way], taken["by hand"], strict=True)])


MORE: Final[dict[str, Callable[[Published], str]]] = {
    "remote_cache": _remote_cache,
    "origins": _origins,
    "device_prefetch": _device_prefetch,
    "ray_data": _ray_data,
}


def unmet(found: Published) -> str:
    """The project's limits that the published results do not keep."""
    claims = [
        (result.name, claim)
        for run in found.runs
        for result in run.results
        for claim in result.claims
    ]
    rows = [
        (f"`{name}`", claim.text, f"{claim.figure:,.4g}")
        for name, claim in claims
        if claim.met is False
    ]
    said = f"Of {len(claims)} limits that the project sets itself, {len(claims) - len(rows)} are kept. These are not:"
    return f"{said}\n\n{table_of(('workload', 'limit', 'measured'), rows)}"


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
        comparison, tar_in_words, where, versions, speeds, memory_and_imports, language_models, token_file, tar,
        tfrecord, many_files, large_files, state_bytes, six_stages, resumes, other_ranks, partitions, saves,
        more, noise, parquet, two_processes, unmet,
    )
}  # fmt: skip
