"""Checkpoints in memory, for tests and for states carried by another saver."""

from __future__ import annotations

from typing import final

from .ranks.part import WHOLE, RankPart
from .store import Store


@final
class Memory(Store):
    """Checkpoints in a dict, with the lifetime of the process.

    >>> store = rs.Memory()
    >>> with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> store.steps()
    [2, 4, 5]
    """

    def __init__(self) -> None:
        self._saved: dict[int, bytes] = {}
        self._aside: list[tuple[int, str, bytes]] = []
        # One store for each part; all parts share this dict.
        self._parts: dict[RankPart, Memory] = {WHOLE: self}

    def save(self, step: int, data: bytes) -> str:
        if self._saved.get(step, data) != data:
            raise FileExistsError(f"there is a checkpoint for step {step} already")
        self._saved[step] = bytes(data)
        return f"memory:{step}"

    def load(self, step: int) -> bytes:
        return self._saved[self._present(step)]

    def steps(self) -> list[int]:
        return sorted(self._saved)

    def remove(self, step: int) -> None:
        del self._saved[self._present(step)]

    def set_aside(self, step: int, reason: str) -> str:
        self._aside.append((step, reason, self._saved.pop(self._present(step))))
        return f"memory:{step}.{reason}"

    def has_damaged(self) -> bool:
        aside = [entry for one in self._parts.copy().values() for entry in one._aside]
        return any(reason == "damaged" for _, reason, _ in aside)

    def part(self, part: RankPart) -> Memory:
        one = self._parts.setdefault(part, Memory())
        one._parts = self._parts
        return one

    def parts(self) -> list[tuple[int, RankPart]]:
        return [(step, part) for part, one in self._parts.copy().items() for step in one.steps()]

    def __repr__(self) -> str:
        return "Memory()"

    def _present(self, step: int) -> int:
        if step not in self._saved:
            raise FileNotFoundError(f"there is no checkpoint for step {step}")
        return step
