"""What MosaicML Streaming and LitData write and read as shards, and what we read."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats import of_litdata, of_mosaicml
from support.pages import DOCS, blocks

import resumable as rs

torch = pytest.importorskip("torch", reason="torch is not installed")

# Both packages leave files open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def streaming() -> Any:
    try:
        return of_mosaicml.mosaicml()
    except ImportError as error:
        pytest.skip(f"mosaicml-streaming is not installed: {error}")


def check_same(ours: Any, theirs: Any) -> None:
    """Check that values are equal and of one type, and those in them."""
    theirs = bytes(theirs) if isinstance(theirs, memoryview) else theirs
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        check_same(list(ours.values()), list(theirs.values()))
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            check_same(one, other)
    elif isinstance(ours, (np.ndarray, torch.Tensor)):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tolist() == theirs.tolist()
    elif hasattr(ours, "tobytes") and hasattr(ours, "mode"):
        assert (ours.mode, ours.size, ours.tobytes()) == (
            theirs.mode,
            theirs.size,
            theirs.tobytes(),
        )
    else:
        assert ours == theirs


def check_read(ours: rs.Pipeline[Any], theirs: Sequence[Any]) -> None:
    """Check that all items are the same, in their order and in another."""
    found = list(ours)
    check_same(found, list(theirs))
    order = np.random.default_rng(0).permutation(len(found))
    check_same(list(ours.gather(order)), [theirs[place] for place in order.tolist()])
    shuffled = list(ours.shuffle(3))
    places = list(rs.range(len(found)).shuffle(3))
    check_same(shuffled, [theirs[place] for place in places])


@pytest.mark.parametrize("compression", [None, "zstd:7", "gz", "bz2:1"])
def test_samples_of_every_encoding_are_those_of_streaming(
    streaming: Any, tmp_path: Path, compression: str | None
) -> None:
    samples = [of_mosaicml.sample(number) for number in range(100)]
    ours = of_mosaicml.write(
        tmp_path / "ours", samples, compression=compression, size_limit=20_000, hashes=["sha1"]
    )
    plain = of_mosaicml.write(tmp_path / "plain", samples, size_limit=20_000)
    dataset = streaming.LocalDataset(str(plain))
    check_read(rs.mds(ours), [dataset[number] for number in range(len(dataset))])


def test_every_encoding_that_streaming_has_is_tried(streaming: Any) -> None:
    from streaming.base.format.mds.encodings import get_mds_encodings

    ours = [*of_mosaicml.COLUMNS.values(), *of_mosaicml.IMAGES.values(), "jpegarray", "pkl"]
    assert {name.partition(":")[0] for name in ours} == get_mds_encodings()


def test_images_are_those_of_streaming(streaming: Any, tmp_path: Path) -> None:
    samples = [of_mosaicml.images(number) for number in range(9)]
    columns = {
        "jpegarray" if name == "jpeg_array" else name: kind
        for name, kind in of_mosaicml.IMAGES.items()
    }
    for sample in samples:
        sample["jpegarray"] = sample["jpeg_array"]
    folder = of_mosaicml.write(tmp_path, samples, columns | {"jpegarray": "jpegarray"})
    dataset = streaming.LocalDataset(str(folder))
    check_read(rs.mds(folder), [dataset[number] for number in range(len(dataset))])


def test_samples_are_those_of_a_streaming_dataset(streaming: Any, tmp_path: Path) -> None:
    folder = of_mosaicml.write(tmp_path, compression="zstd", keep_local=True)
    expected = list(rs.mds(folder))
    dataset = streaming.StreamingDataset(local=str(folder), batch_size=1, shuffle=False)
    check_same(expected, list(dataset))
    del dataset
    streaming.base.util.clean_stale_shared_memory()
    # It has decompressed the shards, and left the compressed ones where they were, or not.
    check_same(list(rs.mds(folder)), expected)


def ported(page: str, call: str) -> str:
    """The lines of a ``page`` that begin with this ``call``, which replace those of the other loader."""
    texts = [block.text for block in blocks(DOCS / "coming-from" / page) if block.info == "py"]
    (text,) = [each for each in texts if f"pipeline = {call}" in each]
    return text.replace("    ...", "    batches.append(batch)")


def test_what_the_pages_show_is_read(
    streaming: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    monkeypatch.chdir(tmp_path)
    items = [{"x": number, "a": np.full(2, number)} for number in range(100)]
    of_mosaicml.write(tmp_path / "mds", items, {"x": "int", "a": "ndarray"})
    of_litdata.write(tmp_path / "data", items, 30)
    for page, call in (("mosaicml.md", 'rs.mds("mds")'), ("litdata.md", 'rs.litdata("data")')):
        batches: list[Any] = []
        for rank in range(2):
            exec(ported(page, call), {"rs": rs, "rank": rank, "ranks": 2, "batches": batches})
        found = np.concatenate([batch["x"] for batch in batches])
        assert sorted(found.tolist()) == list(range(100))
        assert all((batch["a"] == batch["x"][:, None]).all() for batch in batches)


def test_a_compression_that_is_not_read_is_refused(streaming: Any, tmp_path: Path) -> None:
    for compression in ("br", "snappy"):
        folder = of_mosaicml.write(tmp_path / compression, compression=compression)
        with pytest.raises(rs.InvalidArgument, match=f"compressed by '{compression}'"):
            rs.mds(folder)


def of_lit(folder: Path, **options: Any) -> list[Any]:
    """The items that LitData gives, of a copy, since it puts decompressed chunks in the place of the others."""
    from litdata import StreamingDataset

    copy = shutil.copytree(folder, folder / "copy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about tensors that may not be written to
        return list(StreamingDataset(str(copy), shuffle=False, **options))


MANY = 700
"""More than the 256 rows of one record batch, and of one batch that is compressed."""


@pytest.mark.parametrize("name", ["plain", *of_litdata.COMPRESSED])
def test_items_of_every_serializer_are_those_of_litdata(tmp_path: Path, name: str) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    some = [of_litdata.numbers(number) for number in range(300)]
    options = of_litdata.COMPRESSED.get(name, {})
    folder = of_litdata.write(tmp_path, some, 90, **options)
    check_read(rs.litdata(folder), of_lit(folder))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_rows_of_tables_are_those_of_litdata(tmp_path: Path, compression: str | None) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    some = [of_litdata.rows(number) for number in range(MANY)]
    folder = of_litdata.write(tmp_path, some, 600, compression=compression)
    check_read(rs.litdata(folder), of_lit(folder))


Make = Callable[[int], Any]


@pytest.mark.parametrize("make", [of_litdata.tensors, of_litdata.images])
def test_tensors_and_images_are_those_of_litdata(tmp_path: Path, make: Make) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    folder = of_litdata.write(tmp_path, [make(number) for number in range(20)])
    theirs = of_lit(folder)
    check_read(rs.litdata(folder, tensors="torch"), theirs)
    for item, other in zip(rs.litdata(folder), theirs, strict=True):
        pairs = zip(leaves(item), leaves(other), strict=True)
        assert all(
            one.tolist() == two.tolist() for one, two in pairs if isinstance(two, torch.Tensor)
        )


def leaves(item: Any) -> list[Any]:
    if isinstance(item, (dict, list)):
        inside = item.values() if isinstance(item, dict) else item
        return [leaf for each in inside for leaf in leaves(each)]
    return [item]


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "compression_level": "chunk"}])
@pytest.mark.parametrize("of_torch", [False, True])
@pytest.mark.parametrize("block_size", [1, 4, 7])
def test_blocks_of_tokens_are_those_of_tokens_loader(
    tmp_path: Path, of_torch: bool, block_size: int, options: dict[str, Any]
) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    from litdata.streaming.item_loader import TokensLoader

    folder = of_litdata.write_tokens(tmp_path / "tokens", of_torch, **options)
    ours = list(rs.litdata(folder, block_size=block_size, tensors="torch"))
    check_same(ours, of_lit(folder, item_loader=TokensLoader(block_size)))


def test_every_serializer_of_litdata_is_read_or_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("litdata", reason="litdata is not installed")
    from litdata.streaming.serializers import _SERIALIZERS

    from resumable.formats.shards.litdata_leaves import READ

    refused = {"video", "audio", "nifti", "mesh", "pdf", "graph", "tifffile"}
    assert set(READ) == set(_SERIALIZERS) - refused
