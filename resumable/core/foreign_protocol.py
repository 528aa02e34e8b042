"""The pairs of methods by which foreign objects save and restore their position."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..state.value import TakenState, freeze, take_state


class Protocol(NamedTuple):
    """The names of a pair of methods: ``get`` reads a position, ``set`` restores it."""

    get: str
    set: str

    def read(self, target: Any) -> Any:
        """The position of ``target`` now."""
        return getattr(target, self.get)()

    def write(self, target: Any, state: Any) -> None:
        """Move ``target`` to ``state``."""
        getattr(target, self.set)(state)

    def __str__(self) -> str:
        return f"{self.get}/{self.set}"


PROTOCOLS: Final = (
    Protocol("get_state", "set_state"),
    Protocol("state_dict", "load_state_dict"),  # torch, Hugging Face, Mosaic
    Protocol("getstate", "setstate"),  # infinibatch, random.Random
)


def protocol_of(target: Any) -> Protocol | None:
    """The first matching protocol of ``target``; None without a match."""
    for protocol in PROTOCOLS:
        if all(callable(getattr(target, name, None)) for name in protocol):
            return protocol
    return None


def taken_from(target: Any, protocol: Protocol) -> TakenState:
    """A copy of the position of ``target``, or the error raised by taking the position."""
    return take_state(lambda: freeze(protocol.read(target)))
