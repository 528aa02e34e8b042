"""Read the stats of each rank of a run, noted at each save by `Checkpointer(stats=True)`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from .last_lines import last_lines
from .names import parse_file_name, stats_among

MOST: Final = 2**63
"""Larger than any count or time in a line."""
PATIENCE: Final = 60.0
"""Seconds allowed between a checkpoint and its line: a remote file may look shorter for a while."""
MOST_MISSING: Final = 64
"""Missing ranks shown beyond the ranks that have saved; a file name may contain any number."""

Numbers: TypeAlias = Mapping[str, "float | None"]
Group: TypeAlias = tuple[str, int]
"""The name of an input, and the number of ranks that save the input."""


@final
@dataclass(frozen=True)
class StatsLine:
    """The stats of a rank at a save; None for a missing entry.

    Attributes:
      step: of the checkpoint.
      time: of the save, in seconds since 1970 by the clock of the rank.
      host: of the rank.
      items: number of items handed out so far.
      elapsed: seconds of the loop so far.
      wait_seconds: seconds of ``elapsed`` spent waiting for items.
      wait_p99: 99th percentile of the seconds waited in a call.
      skipped: items dropped in this epoch.
      inputs: items given by the inputs of mixtures, by name.
      passes: passes through each input, by name.
      tokens: tokens counted by the loop, by input.
      of_rank: inputs that count the items of this rank alone, with their lengths.
    """

    step: int
    time: float
    host: str | None = None
    items: float | None = None
    elapsed: float | None = None
    wait_seconds: float | None = None
    wait_p99: float | None = None
    skipped: int | None = None
    inputs: Numbers = field(default_factory=dict)
    passes: Numbers = field(default_factory=dict)
    tokens: Numbers = field(default_factory=dict)
    of_rank: Numbers = field(default_factory=dict)


@final
@dataclass(frozen=True)
class RankProgress:
    """The progress of a rank, by its last lines or by the names of its checkpoints.

    Attributes:
      name: of the input.
      rank: of the save.
      ranks: number of ranks.
      step: of the last save; None before the first save.
      time: of the last save, in seconds since 1970; None before the first save.
      last: the last line; None without lines.
      before: the line before ``last``.
    """

    name: str
    rank: int
    ranks: int
    step: int | None = None
    time: float | None = None
    last: StatsLine | None = None
    before: StatsLine | None = None

    @property
    def rate(self) -> float | None:
        """Items a second, since the previous save if known."""
        return self._each_second("items")

    @property
    def wait_share(self) -> float | None:
        """The share of the time spent waiting for items, since the previous save if known."""
        return self._each_second("wait_seconds")

    def _each_second(self, name: str) -> float | None:
        """The field ``name`` of a line per second of the loop, since the previous line if known."""
        recent = self._since_before(name)
        if recent is not None:
            return recent
        return self.last and _ratio(getattr(self.last, name), self.last.elapsed)

    def _since_before(self, name: str) -> float | None:
        last, before = self.last, self.before
        if last is None or before is None:
            return None
        values = [getattr(line, each) for each in (name, "elapsed") for line in (last, before)]
        if None in values:
            return None
        # A run resumed from an earlier checkpoint counts from there again.
        more, longer = values[0] - values[1], values[2] - values[3]
        return _ratio(more, longer) if more >= 0 else None


def run_progress(folder: Path, now: float) -> list[RankProgress]:
    """The progress of each rank, for each input in ``folder``.

    Only the ranks of the latest save are reported: a run may have resumed with another number of
    ranks. Each rank has an entry, even before its first save.

    Args:
      folder: of the checkpoints.
      now: in seconds since 1970.

    Raises:
      OSError: if the folder cannot be read.
    """
    names = os.listdir(folder)
    saved, noted = _latest(_by_checkpoints(folder, names)), _latest(_by_lines(folder, names))
    newest: dict[str, dict[int, RankProgress]] = {}
    for group in sorted({*saved, *noted}):
        ranks = _joined(saved.get(group, {}), noted.get(group, {}), now)
        name, _ = group
        if name not in newest or _time_of(ranks) > _time_of(newest[name]):
            newest[name] = ranks
    return [one for ranks in newest.values() for one in _all_ranks(ranks)]


def inputs_of_ranks(found: Sequence[RankProgress]) -> Iterator[tuple[str, Sequence[float | None]]]:
    """Items, passes and tokens of each input of a mixture, over all ranks.

    None if a rank lacks them.
    """
    lines = [one.last for one in found if one.last is not None]
    newest = max(lines, key=lambda line: line.step, default=None)
    if newest is None:
        return

    def added(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(found) else None

    for name in dict.fromkeys(name for line in lines for name in (*line.inputs, *line.tokens)):
        items, passes = newest.inputs.get(name), newest.passes.get(name)
        if name in newest.of_rank:
            items = added(line.inputs.get(name) for line in lines)
            passes = _ratio(items, added(line.of_rank.get(name) for line in lines))
        tokens = added(line.tokens.get(name, 0 if line.tokens else None) for line in lines)
        yield name, (items, passes, tokens)


def parse_stats_line(line: bytes) -> StatsLine | None:
    """The stats in a line; None if `Checkpointer` did not write the line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    step, time = found.get("step"), _number(found.get("time"))
    if type(step) is not int or not 0 <= step < MOST or time is None:
        return None
    host, waited, looped = found.get("host"), found.get("wait_seconds"), found.get("loop_seconds")
    wait_seconds, loop_seconds = _number(waited), _number(looped)
    known = wait_seconds is not None and loop_seconds is not None
    return StatsLine(
        step,
        time,
        host if isinstance(host, str) else None,
        _number(found.get("items")),
        wait_seconds + loop_seconds if known else None,  # type: ignore[operator]
        wait_seconds,
        _number(found.get("wait_p99")),
        _sum(found.get("skipped")),
        **{name: _numbers(found.get(name)) for name in ("inputs", "passes", "tokens", "of_rank")},
    )


def _by_checkpoints(folder: Path, names: Iterable[str]) -> Iterator[RankProgress]:
    """The last checkpoint of each rank, by the names and times of the files: none is read."""
    for file_name in names:
        found = parse_file_name(file_name)
        if found is None or found.aside is not None:
            continue
        try:
            time = os.lstat(folder / file_name).st_mtime
        except OSError:  # removed meanwhile
            continue
        yield RankProgress(found.name, found.part.rank, found.part.ranks, found.step, time)


def _by_lines(folder: Path, names: Iterable[str]) -> Iterator[RankProgress]:
    for file_name, (name, rank, ranks) in stats_among(names).items():
        try:
            lines = last_lines(folder / file_name, 2, parse_stats_line)
        except OSError:  # removed meanwhile, or not readable now
            continue
        if lines:
            last, before = lines[-1], lines[-2] if len(lines) > 1 else None
            yield RankProgress(name, rank, ranks, last.step, last.time, last, before)


def _latest(found: Iterable[RankProgress]) -> dict[Group, dict[int, RankProgress]]:
    groups: dict[Group, dict[int, RankProgress]] = {}
    for one in sorted(found, key=lambda one: one.time or 0.0):
        groups.setdefault((one.name, one.ranks), {})[one.rank] = one
    return groups


def _joined(
    saved: dict[int, RankProgress], noted: dict[int, RankProgress], now: float
) -> dict[int, RankProgress]:
    return {rank: _both(saved.get(rank), noted.get(rank), now) for rank in sorted({*saved, *noted})}


def _both(saved: RankProgress | None, noted: RankProgress | None, now: float) -> RankProgress:
    """The progress of a rank by its last checkpoint and its last lines together."""
    if saved is None or noted is None:
        found = saved or noted
        assert found is not None
        return found
    assert saved.time is not None
    assert noted.time is not None
    # A line has the time of the save, and the file of the checkpoint is written a little later.
    if saved.step == noted.step or saved.time <= noted.time:
        return noted
    if now - saved.time < PATIENCE:
        return replace(noted, step=saved.step, time=saved.time)
    return saved  # the run continues without stats


def _all_ranks(found: dict[int, RankProgress]) -> Iterator[RankProgress]:
    """Each known rank, and the missing ranks if few enough to be real."""
    one = next(iter(found.values()))
    if one.ranks <= 2 * len(found) + MOST_MISSING:
        for rank in range(one.ranks):
            yield found.get(rank) or RankProgress(one.name, rank, one.ranks)
    else:
        yield from found.values()


def _time_of(ranks: dict[int, RankProgress]) -> float:
    return max(one.time for one in ranks.values() if one.time is not None)


def _number(value: Any) -> float | None:
    if type(value) not in (int, float) or not -MOST < value < MOST:
        return None
    return float(value)


def _numbers(value: Any) -> Numbers:
    found = value if isinstance(value, dict) else {}
    return {name: _number(each) for name, each in found.items()}


def _sum(value: Any) -> int | None:
    counts = list(value.values()) if isinstance(value, dict) else [value]
    return sum(counts) if all(type(one) is int and 0 <= one < MOST for one in counts) else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole is not None and whole > 0 else None
