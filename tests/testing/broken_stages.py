"""A stage that is right, and ten that are each broken in one way."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from dataclasses import dataclass
from typing import Any

import resumable as rs
from resumable.core.block import block_items
from resumable.state.value import unpack


@dataclass(frozen=True, eq=False, repr=False)
class Numbered(rs.Transform[Any]):
    """Items with the number of those before them, summed up over windows of two."""

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return NumberedIterator(self, epoch)


class NumberedIterator(rs.TransformIterator[Any]):
    """Right: it saves its count and the item it holds back."""

    def __init__(self, stage: Any, epoch: int) -> None:
        super().__init__(stage, epoch)
        self.position = 0
        self.held: list[Any] = []

    def pull(self, count: int) -> list[Any]:
        delivered: list[Any] = []
        while len(delivered) < count:
            items = block_items(self._upstream.pull(1 if self.held else 2))
            self.held += items
            if len(self.held) < 2:
                break
            delivered.append((self.position, self.held.pop(0), self.held[0]))
            self.position += 1
        return delivered

    def get_state(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "held": list(self.held),
            "upstream": self._upstream.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        position, held, upstream = unpack(self._stage, state, "position", "held", "upstream")
        if type(position) is not int or not isinstance(held, list):
            raise rs.StateMismatch(f"saved position={position!r}, held={held!r}", self._stage)
        self.position, self.held = position, list(held)
        self._upstream.set_state(upstream)


class OffByOne(NumberedIterator):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "position": max(self.position - 1, 0)}


class AliasedState(NumberedIterator):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "held": self.held}


class LostBuffer(NumberedIterator):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "held": []}


class SideEffect(NumberedIterator):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        self.position += 1
        return state


class NoneForTheEnd(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        delivered: list[Any] = []
        while len(delivered) < count and (item := next(self._upstream, None)) is not None:
            delivered.append(item)
        return delivered


class PassNotSaved(rs.TransformIterator[Any]):
    """Goes through upstream twice, and does not save which pass it is in."""

    def __init__(self, stage: Any, epoch: int) -> None:
        super().__init__(stage, epoch)
        self.second = False

    def pull(self, count: int) -> list[Any]:
        items = [(self.second, item) for item in block_items(self._upstream.pull(count))]
        if len(items) < count and not self.second:
            self.second = True
            self._upstream.close()
            self._upstream = self._stage.upstream.start(1)
            items += self.pull(count - len(items))
        return items


class UnseededShuffle(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        return [(random.random(), item) for item in block_items(self._upstream.pull(count))]


class WrongShape(NumberedIterator):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        return {"count": state["position"], "held": state["held"], "upstream": state["upstream"]}


class HalfRestored(NumberedIterator):
    def set_state(self, state: dict[str, Any]) -> None:
        with contextlib.suppress(rs.StateMismatch, KeyError):
            self.position = state["position"]
            self.held = list(state["held"])
            self._upstream.set_state(state["upstream"])


class ThreadLeftBehind(NumberedIterator):
    def __init__(self, stage: Any, epoch: int) -> None:
        super().__init__(stage, epoch)
        self.stop = threading.Event()
        STOPS.append(self.stop)
        threading.Thread(target=self.stop.wait, args=(30,), name="left", daemon=True).start()


class IteratesColumns(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        return list(self._upstream.pull(count))  # of columns in a dict these are the keys


class SkipsTooFar(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        return list(block_items(self._upstream.pull(count)))

    def skip(self, count: int) -> int:
        return self._upstream.skip(count + 1) and count


class NamesItsProcess(rs.TransformIterator[Any]):
    """Its items are right, and its state is another one in another process."""

    def pull(self, count: int) -> list[Any]:
        return list(block_items(self._upstream.pull(count)))

    def get_state(self) -> dict[str, Any]:
        return {"process": os.getpid(), "upstream": self._upstream.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._upstream.set_state(state["upstream"])


STOPS: list[threading.Event] = []


@dataclass(frozen=True, eq=False, repr=False)
class Broken(rs.Transform[Any]):
    """A stage whose iterator is of the class ``motion``."""

    motion: type[rs.TransformIterator[Any]]

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return self.motion(self, epoch)
