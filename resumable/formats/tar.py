"""Samples of tar archives: consecutive members with names that differ only in the extension."""

# Members are grouped as WebDataset does (`base_plus_ext` and `group_by_keys` in webdataset/tariterators.py),
# without its regular expressions, which take time quadratic in the length of a name.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ..core.arguments import check_callable
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .record import ByteReader, Format, FoundRecords, LocatedRecord
from .tar_members import BLOCK, Blocks, DamagedArchive, members, shown

Sample: TypeAlias = dict[str, Any]
Decoders: TypeAlias = Mapping[str, Callable[[bytes], Any]]

MOST_AT_ONCE: Final = 1024
"""Samples after which the scan hands out the records found so far; a MiB has the same effect."""

KEY: Final = "__key__"

MOST_PARTS: Final = 16
MOST_KNOWN: Final = 1024
"""Most parts of an extension, and most extensions; a hostile archive may have any number."""

SHORT: Final = 8 * BLOCK - 1
"""Bytes of a record cut short by damage: no multiple of a block, so decoding the record raises."""


def split_name(name: bytes) -> tuple[bytes, bytes] | None:
    """The key and the extension in a member's name, as in WebDataset; None without an extension.

    The extension begins after the first dot of the last component. A leading dot counts only if the
    component before has no dot, as in ``folder/.txt``.
    """
    slash = name.rfind(b"/")
    dot = name.find(b".", slash + 1)
    if dot < 0:
        return None
    if dot == slash + 1 and (slash < 0 or b"." in name[name.rfind(b"/", 0, slash) + 1 : slash]):
        return None
    if name[:2] == b"__":
        first = name.partition(b"/")[0]
        if len(first) >= 4 and first.endswith(b"__"):
            return None  # members such as ``__index__/...`` describe the archive
    return name[:dot], name[dot + 1 :]


def scan_tar(reader: ByteReader, offset: int = 0) -> Iterator[FoundRecords]:
    """The samples of an archive; see `resumable.formats.record.Scan`.

    A record reaches from the first header of a sample to the first header of the next sample. Zeros
    between archives are records that are passed over, along with members directly before the zeros
    that belong to no sample. An archive without samples is one record that is passed over, since
    every file with bytes has a record. Damage within or directly after a sample cuts the record
    short, since the sample may be incomplete.
    """
    blocks = Blocks(reader, offset)
    found = _Found(offset)
    try:
        for member in members(blocks):
            if member.start > found.stop:
                found.gap(member.start)
            if member.regular and (split := split_name(member.name)) is not None:
                found.member(split[0], member.start)
            found.stop = member.stop
            if len(found.ends) >= MOST_AT_ONCE or member.stop - found.handed_out >= 1 << 20:
                yield found.hand_out()
        found.close(found.stop)
        has_records = found.samples or found.begin
        if not has_records and not offset and blocks.seen:
            found.gap(blocks.seen)
    except DamagedArchive as damage:
        if damage.start > found.stop:
            found.gap(damage.start)
        found.ends.append(min(found.begin + SHORT, blocks.seen))
    yield found.hand_out()


class _Found:
    """The samples found so far; the last sample may have further members.

    Attributes:
      ends: of the records not yet handed out.
      samples: number of samples so far.
      begin: offset of the current record.
      stop: offset after the last member.
      handed_out: the value of ``stop`` when records were last handed out.
    """

    def __init__(self, offset: int) -> None:
        self.ends: list[int] = []
        self.begin = self.stop = self.handed_out = offset
        self._key: bytes | None = None
        self.samples = 0
        self._passed_over: list[int] = []

    def member(self, key: bytes, start: int) -> None:
        """Note that the member at ``start`` belongs to the sample ``key``."""
        if key != self._key:
            self.close(start)
            self._key = key

    def close(self, end: int) -> None:
        """End the current sample, if any, at ``end``."""
        if self._key is not None:
            self.ends.append(end)
            self.samples += 1
            self.begin, self._key = end, None

    def gap(self, start: int) -> None:
        """Pass over the rest of an archive, up to ``start``."""
        self.close(self.stop)
        self.ends.append(start)
        self._passed_over.append(self.samples)
        self.begin = self.stop = start

    def hand_out(self) -> FoundRecords:
        ends, passed_over = self.ends, self._passed_over
        self.ends, self._passed_over, self.handed_out = [], [], self.stop
        return FoundRecords(np.array(ends, np.int64), np.array(passed_over, np.int64))


TAR: Final = Format("tar", "sample", scan_tar)


class DecodeSample:
    """Makes a sample of a record: the key, and the decoded data of each member by extension.

    Args:
      decode: functions by extension; the longest matching end of an extension decides.

    Raises:
      InvalidArgument: if an extension begins with a dot.
      InvalidType: if ``decode`` is not a dict of functions by extension.
    """

    def __init__(self, decode: Decoders | None = None) -> None:
        if decode is None:
            decode = {}
        if not isinstance(decode, Mapping):
            raise InvalidType(f"decode must be a dict of functions, got {shorten(decode)}")
        for extension, function in decode.items():
            if not isinstance(extension, str):
                raise InvalidType(f"decode must have extensions as keys, got {shorten(extension)}")
            if extension.startswith("."):
                raise InvalidArgument(
                    f"decode must have extensions without the first dot, got {extension!r}"
                )
            check_callable(f"decode[{extension!r}]", function)
        self._decode = {extension.lower(): function for extension, function in decode.items()}
        # The function for each extension met so far; None for an extension without a function.
        self._known = dict[str, Callable[[bytes], Any] | None]()

    def __call__(self, record: LocatedRecord) -> Sample:
        """The sample.

        Raises:
          MalformedItem: with file and number, if the record is damaged, or cannot be decoded.
        """
        try:
            sample = _sample(record.data)
        except DamagedArchive as damage:
            reason = str(damage)
            if len(record.data) == SHORT:
                reason = "the archive is cut short or damaged in it or right after it"
            raise record.malformed(reason, TAR.record) from None
        except ValueError as error:
            raise record.malformed(str(error), TAR.record) from None
        if self._decode:
            for extension, data in sample.items():
                function = self._function(extension) if extension != KEY else None
                if function is not None:
                    try:
                        sample[extension] = function(data)
                    except Exception as error:
                        reason = _reason(sample, extension, error)
                        raise record.malformed(reason, TAR.record) from error
        return sample

    def _function(self, extension: str) -> Callable[[bytes], Any] | None:
        if extension in self._known:
            return self._known[extension]
        parts = extension.split(".")[-MOST_PARTS:]
        ends = (".".join(parts[first:]) for first in range(len(parts)))
        function = next((self._decode[end] for end in ends if end in self._decode), None)
        if len(self._known) < MOST_KNOWN:
            self._known[extension] = function
        return function

    def __repr__(self) -> str:
        return f"DecodeSample({shorten(self._decode) if self._decode else ''})"


def _sample(data: bytes) -> Sample:
    """The sample in the bytes of a record.

    Raises:
      DamagedArchive: if a member cannot be read.
      ValueError: if the members make no sample.
    """
    sample: Sample = {}
    first: bytes | None = None
    for member in members(Blocks(None, 0, data)):
        if not member.regular or (split := split_name(member.name)) is None:
            continue
        key, extension = split
        if first is None:
            first = key
            sample[KEY] = _text(key)
        elif key != first:
            raise ValueError("it has changed since the file was indexed")
        if member.sparse:
            raise ValueError(f"{shown(member.name)} is a sparse file, which is not supported")
        name = _text(extension).lower()
        if name in sample:
            raise ValueError(f"{shown(member.name)} is a second {shorten(name)} in it")
        sample[name] = data[member.data : member.data + member.size]
    if first is None or len(data) % BLOCK:
        raise ValueError("it is cut short")
    return sample


def _reason(sample: Sample, extension: str, error: Exception) -> str:
    kind = "" if isinstance(error, MalformedItem) else f"{type(error).__name__}: "
    return f"{shorten(extension)} of {shorten(sample[KEY])}: {kind}{error}"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
