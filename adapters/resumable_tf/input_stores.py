"""Several inputs saved under one step, each in a store of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import resumable as rs
from resumable.checkpoint.envelope import Checkpoint, decode, encode
from resumable.checkpoint.reading import read_valid
from resumable.checkpoint.store import StoreLock
from resumable.state.value import State

__all__ = ["InputStores"]


class InputStores(rs.Store):
    """A store for a state with one part for each input; each part is a checkpoint of its own.

    If the store of a part is empty, as for a new input, that part is not loaded.

    Args:
      stores: the store of each part, by the part's key in the state.
      after: called with the step once all parts are stored; the save fails if it raises.

    Attributes:
      stores: the argument.
    """

    def __init__(
        self, stores: Mapping[str, rs.Store], after: Callable[[int], object] | None = None
    ) -> None:
        self.stores = dict(stores)
        self._after = after
        # The step that was loaded or saved last, and its parts, which are not stored again.
        self._stored: tuple[int, set[str]] = (-1, set())

    def lock(self) -> StoreLock:
        with ExitStack() as undo:
            locks = []
            for store in self.stores.values():
                locks.append(store.lock())
                undo.callback(locks[-1].close)
            undo.pop_all()
        return _Locks(locks)

    def save(self, step: int, data: bytes) -> str:
        whole = decode(data)
        if self._stored[0] != step:
            self._stored = step, set()
        for key, store in self.stores.items():
            if key not in self._stored[1]:
                state: Any = whole.state[key]
                store.save(step, encode(replace(whole, state=state)))
                self._stored[1].add(key)
        if self._after is not None:
            self._after(step)
        return repr(self)

    def completed(self, step: int, joined: Mapping[str, State]) -> Checkpoint:
        """The checkpoint of ``step``, with ``joined`` in place of what the stores of these parts hold.

        Raises:
          NoValidCheckpoint: if another part that was begun has none for ``step``, or a damaged one.
        """
        own = [key for key in self._begun if key not in joined]
        read = {key: read_valid(self.stores[key], step) for key in own}
        self._stored = step, {key for key, store in self.stores.items() if step in store.steps()}
        saved_at = min((part.time for part in read.values()), default=time.time())
        return Checkpoint(step, saved_at, {**joined, **{k: part.state for k, part in read.items()}})

    def load(self, step: int) -> bytes:
        parts = {key: decode(store.load(step)) for key, store in self._begun.items()}
        self._stored = step, set(parts)
        for part in parts.values():
            return encode(Checkpoint(step, part.time, {k: p.state for k, p in parts.items()}))
        raise FileNotFoundError(f"there is no checkpoint for step {step} in {self!r}")

    def steps(self) -> list[int]:
        steps = [set(store.steps()) for store in self._begun.values()]
        return sorted(set.intersection(*steps)) if steps else []

    def remove(self, step: int) -> None:
        for store in self._with(step):
            store.remove(step)

    def set_aside(self, step: int, reason: str) -> str:
        return ", ".join(store.set_aside(step, reason) for store in self._with(step))

    def has_damaged(self) -> bool:
        return any(store.has_damaged() for store in self.stores.values())

    def remove_unfinished(self) -> None:
        for store in self.stores.values():
            store.remove_unfinished()

    def __repr__(self) -> str:
        return ", ".join(map(repr, self.stores.values()))

    @property
    def _begun(self) -> dict[str, rs.Store]:
        return {key: store for key, store in self.stores.items() if store.steps()}

    def _with(self, step: int) -> list[rs.Store]:
        return [store for store in self.stores.values() if step in store.steps()]


class _Locks(StoreLock):
    def __init__(self, locks: list[StoreLock]) -> None:
        self._locks = locks

    @property
    def is_held(self) -> bool:
        return bool(self._locks) and all(lock.is_held for lock in self._locks)

    def close(self) -> None:
        for lock in self._locks:
            lock.close()
