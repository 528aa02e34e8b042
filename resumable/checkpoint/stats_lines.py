"""Read what `Checkpointer(stats=True)` notes at each save: how each rank of a run is doing."""

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
"""No count and no time in a line comes near it."""
PATIENCE: Final = 60.0
"""Seconds after a checkpoint in which its line may come: over a network, a file may look shorter than it is."""
MOST_MISSING: Final = 64
"""So many ranks more than those that have saved are shown as missing; a file name may say any number."""

Numbers: TypeAlias = Mapping[str, "float | None"]
Group: TypeAlias = tuple[str, int]
"""The name of an input, and how many ranks save it."""


@final
@dataclass(frozen=True)
class StatsLine:
    """What a rank noted at a save; None for what it did not note.

    Attributes:
      step: of the checkpoint.
      time: of the save, in seconds since 1970 by the clock of the rank.
      host: on which the rank runs.
      items: handed out until then.
      elapsed: seconds of the loop until then.
      wait_seconds: those of them in which it waited for items.
      wait_p99: so many seconds or fewer were waited in 99 % of the calls.
      skipped: items that were dropped in this epoch.
      inputs: what the inputs of mixtures have given, by their names.
      passes: how often each of them was gone through.
      tokens: those of each input that the loop has counted.
      of_rank: the inputs that count the items of this rank alone, with their lengths.
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
    """How far a rank is, by its last lines or by the names of its checkpoints.

    Attributes:
      name: of the input.
      rank: that saves.
      ranks: how many save.
      step: of its last save; None if it has saved nothing yet.
      time: of that, in seconds since 1970; None likewise.
      last: the last line; None if there is none.
      before: the one before.
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
        """Items a second, since the save before if that is known."""
        return self._each_second("items")

    @property
    def wait_share(self) -> float | None:
        """The part of the time in which the loop waited for items, since the save before if that is known."""
        return self._each_second("wait_seconds")

    def _each_second(self, name: str) -> float | None:
        """What a line has as ``name``, in a second of the loop since the line before if that is known."""
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
        # A run that went on from an earlier checkpoint than its last one counts from there again.
        more, longer = values[0] - values[1], values[2] - values[3]
        return _ratio(more, longer) if more >= 0 else None


def run_progress(folder: Path, now: float) -> list[RankProgress]:
    """How far each rank is, of each input in ``folder``.

    Only those ranks are told of that saved last: a run may have gone on with another number of them.
    Of these, each has an entry, also if it has saved nothing yet.

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
    """The items, passes and tokens of each input of a mixture, over all ranks; None if some rank does not tell."""
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
    """What a line says; None if it is none of `Checkpointer`."""
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
        except OSError:  # it was removed meanwhile
            continue
        yield RankProgress(found.name, found.part.rank, found.part.ranks, found.step, time)


def _by_lines(folder: Path, names: Iterable[str]) -> Iterator[RankProgress]:
    for file_name, (name, rank, ranks) in stats_among(names).items():
        try:
            lines = last_lines(folder / file_name, 2, parse_stats_line)
        except OSError:  # it was removed meanwhile, or is not readable now
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
    """What a rank's last checkpoint and its last lines say together."""
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
    return saved  # it goes on without noting anything


def _all_ranks(found: dict[int, RankProgress]) -> Iterator[RankProgress]:
    """Each rank that is known of, and the others as far as they are few enough to be real."""
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
