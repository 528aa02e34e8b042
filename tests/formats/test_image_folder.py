"""Folders of images: classes and order as those of torchvision."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pytest
from support.tiers import examples

import resumable as rs

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def torchvision_samples(folder: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Classes and samples by the rule that torchvision documents and follows."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        for root, _, names in sorted(os.walk(os.path.join(folder, name), followlinks=True)):
            for file in sorted(names):
                if file.lower().endswith(SUFFIXES):
                    samples.append((os.path.join(root, file), label))
    return classes, samples


def make_folder(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def test_classes_and_order_are_those_of_torchvision(tmp_path: Path) -> None:
    rng = random.Random(0)
    parts = ["a", "b-c", "b", "B", "1", "10", "2", "\u00e9", "a.jpg", ".hidden", "x y"]
    for number in range(examples()):
        folder = tmp_path / str(number)
        names = [
            "/".join([*rng.choices(parts, k=rng.randint(1, 4)), f"{rng.choice(parts)}~{suffix}"])
            for suffix in rng.choices((*SUFFIXES, ".JPG", ".txt", "", ".jpgx"), k=30)
        ]
        classes = {name.split("/")[0] for name in names}
        make_folder(folder, [*names, *(f"{name}/sure.png" for name in classes)])
        (folder / "not a class.png").write_bytes(b"")
        expected_classes, samples = torchvision_samples(str(folder))
        assert rs.image_classes(folder) == expected_classes
        assert list(rs.image_folder(folder)) == samples
        images = [(Path(path).read_bytes(), label) for path, label in samples]
        assert list(rs.image_folder(str(folder), decode=bytes)) == images


def test_links_are_followed_but_never_in_circles(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", ["cat/1.png", "dog/2.png"])
    make_folder(tmp_path / "more", ["deep/3.png"])
    (folder / "cat" / "more").symlink_to(tmp_path / "more")
    _, samples = torchvision_samples(str(folder))
    assert len(samples) == 3
    (folder / "cat" / "up").symlink_to(folder)
    (tmp_path / "more" / "self").symlink_to(".")
    assert list(rs.image_folder(folder)) == samples


def test_a_state_goes_on_in_another_folder_and_not_with_other_images(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", ["cat/1.png", "cat/2.png", "dog/2.png"])
    images = rs.image_folder(folder, decode=len).shuffle(0)
    iterator = iter(images)
    first = next(iterator)
    state = iterator.get_state()
    images = rs.image_folder(folder.rename(tmp_path / "moved"), decode=len).shuffle(0)
    assert [first, *images.resume(state)] == list(images)
    (tmp_path / "moved" / "dog").rename(tmp_path / "moved" / "cow")
    with pytest.raises(rs.StateMismatch, match=r"ImageFolder at .*files"):
        rs.image_folder(tmp_path / "moved", decode=len).shuffle(0).resume(state)


def test_what_is_added_after_pickling_is_none_of_the_images(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, ["cat/2.png", "dog/2.png"])
    paths, decoded = rs.image_folder(folder), rs.image_folder(folder, decode=bytes)
    expected, packed = [list(paths), list(decoded)], pickle.dumps([paths, decoded])
    make_folder(folder, ["ant/1.png", "cat/1.png"])
    found = pickle.loads(packed)
    assert [list(pipeline) for pipeline in found] == expected
    assert [pipeline.fingerprint for pipeline in found] == [paths.fingerprint, decoded.fingerprint]
    (folder / "cat" / "2.png").write_bytes(b"changed")
    assert next(iter(pickle.loads(packed)[1])) == (b"changed", 0), "it was not looked at again"


def test_one_class_counts_towards_the_identity(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", ["cat/1.png"])
    state = iter(rs.image_folder(folder)).get_state()
    (folder / "cat").rename(folder / "dog")
    with pytest.raises(rs.StateMismatch):
        rs.image_folder(folder).resume(state)


def test_an_image_that_cannot_be_decoded_is_an_error_with_its_file_or_is_skipped(
    tmp_path: Path,
) -> None:
    folder = make_folder(tmp_path, ["cat/1.png", "cat/bad.png", "dog/2.png"])

    def decode(data: bytes) -> str:
        if b"bad" in data:
            raise rs.MalformedItem("not an image")
        return data.decode()

    with pytest.raises(rs.MalformedItem, match=r"cat.bad\.png: not an image"):
        list(rs.image_folder(folder, decode=decode))
    skipped = []
    images = rs.image_folder(
        folder,
        decode=decode,
        on_error="skip",
        on_skip=lambda number, error: skipped.append((number, str(error))),
    )
    assert list(images) == [("cat/1.png", 0), ("dog/2.png", 1)]
    assert skipped == [(1, f"{folder / 'cat' / 'bad.png'}: not an image")]


def test_folders_that_are_no_image_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(rs.InvalidArgument, match="sub-folder for each class, got"):
        rs.image_folder(tmp_path)
    make_folder(tmp_path, ["cat/1.png", "dog/notes.txt"])
    with pytest.raises(rs.InvalidArgument, match=r"each class .* got none in 'dog'"):
        rs.image_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        rs.image_classes(tmp_path / "nowhere")
    with pytest.raises(rs.InvalidType, match="folder must be a path, got 5"):
        rs.image_folder(5)  # type: ignore[arg-type]
