"""A state is refused where a file has other content under the same name and of the same size."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from formats.facts.tar import of_one_size
from formats.records_of_formats import numbered_lines
from support.format_facts import FORMAT_FACTS
from support.s3_server import s3_server

import resumable as rs
from resumable.formats import contents
from resumable.formats.index import packs, record_index
from resumable.state.value import State

FILES = 3


ONE_SIZE = FORMAT_FACTS.merged(lambda facts: facts.one_size)
PACKAGES = FORMAT_FACTS.merged(lambda facts: dict.fromkeys(facts.one_size, facts.package))


@pytest.fixture(params=ONE_SIZE)
def kind(request: pytest.FixtureRequest) -> str:
    if (package := PACKAGES[request.param]) is not None:
        pytest.importorskip(package, reason=f"{package} is not installed")
    return str(request.param)


@pytest.fixture
def paths(kind: str, tmp_path: Path) -> list[Path]:
    """Files of one size."""
    files = ONE_SIZE[kind]
    written = [tmp_path / "data" / files.name.format(number) for number in range(FILES)]
    written[0].parent.mkdir()
    for number, path in enumerate(written):
        path.write_bytes(files.content(number))
    assert len({path.stat().st_size for path in written}) == 1
    return written


def state_of(pipeline: rs.Pipeline[Any]) -> State:
    with iter(pipeline) as iterator:
        list(islice(iterator, 2))
        return rs.loads(rs.dumps(iterator.get_state()))


def exchange(one: Path, other: Path) -> None:
    contents_of_one = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(contents_of_one)


def without_evidence(state: State) -> State:
    """The same as earlier versions would have saved it."""
    node = bare(json.loads(state["fingerprint"]))
    return {**state, "fingerprint": json.dumps(node, separators=(",", ":"))}


def bare(node: Any) -> Any:
    """A node of a fingerprint without evidence."""
    if isinstance(node, dict):
        return {name: value for name, value in node.items() if name != "contents"}
    return list(map(bare, node)) if isinstance(node, list) else node


def test_exchanged_files_are_refused_by_name(kind: str, paths: list[Path]) -> None:
    read = ONE_SIZE[kind].read
    state = state_of(read(paths))
    exchange(paths[1], paths[2])
    with pytest.raises(
        rs.StateMismatch, match=f"{paths[1].name} has other content than at the save"
    ):
        read(paths).resume(state)


def test_a_copy_is_the_same_data(kind: str, paths: list[Path], tmp_path: Path) -> None:
    read = ONE_SIZE[kind].read
    state = state_of(read(paths))
    rest = list(read(paths))[2:]
    copies = [tmp_path / "copy" / path.name for path in paths]
    copies[0].parent.mkdir()
    for path, copy in zip(paths, copies, strict=True):
        shutil.copyfile(path, copy)
        os.utime(copy, ns=(0, 0))
    found = list(read(copies).resume(state))
    if kind == "paths":
        rest = [str(copy) for copy in copies][2:]
    assert repr(found) == repr(rest)


def test_a_state_without_evidence_is_compared_by_names_and_sizes(
    kind: str, paths: list[Path]
) -> None:
    read = ONE_SIZE[kind].read
    state = state_of(read(paths))
    assert "contents" in state["fingerprint"]
    exchange(paths[1], paths[2])
    rest = list(read(paths))[2:]
    assert repr(list(read(paths).resume(without_evidence(state)))) == repr(rest)


def test_ranks_save_over_files_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(numbered_lines(1))
    store = rs.Memory()

    def run(rank: int, steps: int) -> list[Any]:
        pipeline = rs.lines(tmp_path / "*.txt").shard(rank, 2)
        with rs.Checkpointer(store, rs.EverySteps(1), rank=rank, ranks=2) as checkpointer:
            return list(islice(checkpointer.resume(pipeline), steps))

    first = [run(rank, 3) for rank in range(2)]
    rest = [run(rank, 99) for rank in range(2)]
    assert sorted(line for lines in first + rest for line in lines) == sorted(
        rs.lines(tmp_path / "*.txt")
    )


def test_images_that_were_exchanged_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "cat" / "1.png", tmp_path / "dog" / "2.png"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(path.name.encode())
    state = state_of(rs.image_folder(tmp_path))
    exchange(*paths)
    with pytest.raises(rs.StateMismatch, match=r"1\.png has other content"):
        rs.image_folder(tmp_path).resume(state)


def test_the_digest_is_the_same_however_an_index_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(numbered_lines(1, 300) + b"\n\n")
    scanned = rs.lines(path).fingerprint
    monkeypatch.setattr(record_index, "SMALLEST_CACHED", 1)
    assert rs.lines(path).fingerprint == scanned
    assert (tmp_path / "a.txt.lines.idx").exists()
    assert rs.lines(path).fingerprint == scanned
    monkeypatch.setattr(record_index, "write_index", lambda *_: None)
    os.unlink(tmp_path / "a.txt.lines.idx")
    assert rs.lines(path).fingerprint == scanned
    monkeypatch.setattr(packs, "FEWEST_PACKED", 1)
    monkeypatch.setattr("resumable.formats.record_file.FEWEST_PACKED", 1)
    monkeypatch.setattr(packs, "SMALLEST_CACHED", 1)
    for _ in range(2):
        assert rs.lines(path).fingerprint == scanned
        assert (tmp_path / ".folder.lines.idx").exists()


def test_what_only_moved_in_the_middle_of_an_indexed_file_is_noticed(tmp_path: Path) -> None:
    path, ends = tmp_path / "a.txt", b"y" * 5000
    path.write_bytes(ends + b"\none\ntwoo\n" + ends)
    state = state_of(rs.lines(path))
    path.write_bytes(ends + b"\nonee\ntwo\n" + ends)
    with pytest.raises(rs.StateMismatch, match=r"a\.txt has other content .* by its index"):
        rs.lines(path).resume(state)


@pytest.mark.parametrize("place", [0, 4095, -4096, -1])
def test_a_byte_at_either_end_counts(tmp_path: Path, place: int) -> None:
    path, data = tmp_path / "a.bin", bytearray(20_000)
    path.write_bytes(data)
    state = state_of(rs.files(path))
    data[place] = 1
    path.write_bytes(data)
    with pytest.raises(rs.StateMismatch, match=r"a\.bin has other content .* by its ends"):
        rs.files(path).resume(state)


def test_what_cannot_be_read_is_an_error_of_its_item(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.bin").write_bytes(b"%d" % number)
    files = rs.files(tmp_path / "*.bin", read=True)
    state = state_of(rs.files(tmp_path / "*.bin", read=True))
    os.unlink(tmp_path / "1.bin")
    assert "contents" not in files.fingerprint
    with files.resume(state) as iterator:
        assert list(iterator) == [b"2"]
    with pytest.raises(FileNotFoundError):
        list(files)


def test_of_very_many_files_some_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_READ", 10)
    for number in range(25):
        (tmp_path / f"{number:02}.bin").write_bytes(b"%02d" % number)
    read: list[str] = []
    real = contents._read_ends

    def noting(file: Any) -> list[bytes]:
        read.append(file.path[-6:-4])
        return real(file)

    monkeypatch.setattr(contents, "_read_ends", noting)
    state_of(rs.files(tmp_path / "*.bin"))
    assert read == [f"{number:02}" for number in range(0, 25, 3)]


# Remote files.


@pytest.fixture
def remote() -> str:
    """A new folder of fsspec's file system in memory, which has times of change only."""
    for package in ("fsspec", "aiohttp"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return f"memory://{uuid.uuid4().hex}"


def put(folder: str, files: dict[str, bytes]) -> None:
    import fsspec

    for name, content in files.items():
        fsspec.filesystem("memory").pipe_file(f"/{folder[9:]}/{name}", content)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_remote_file_without_a_version_is_known_by_its_ends(
    remote: str, indexed: bool, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"index_dir": tmp_path} if indexed else {}
    shards = {f"{number}.tar": of_one_size(number) for number in range(FILES)}
    put(f"{remote}/a", shards)
    state = state_of(rs.tar(f"{remote}/a/*.tar", **options))
    put(f"{remote}/b", shards)
    assert len(list(rs.tar(f"{remote}/b/*.tar", **options).resume(state))) == 5 * FILES - 2
    put(f"{remote}/a", {"0.tar": shards["2.tar"], "2.tar": shards["0.tar"]})
    with pytest.raises(rs.StateMismatch, match=r"0\.tar has other content"):
        rs.tar(f"{remote}/a/*.tar", **options).resume(state)


def test_what_was_indexed_on_a_disk_is_the_same_behind_a_url(remote: str, tmp_path: Path) -> None:
    (tmp_path / "0.tar").write_bytes(of_one_size(0))
    put(remote, {"0.tar": of_one_size(0)})
    local = rs.tar(tmp_path / "*.tar")
    assert local.fingerprint == rs.tar(f"{remote}/*.tar", index_dir=tmp_path / "index").fingerprint


def test_versions_of_s3_are_compared_for_the_same_urls() -> None:
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    with s3_server({f"a/{number}.tar": of_one_size(number) for number in range(FILES)}) as address:
        client: Any = boto3.client("s3", endpoint_url=address)
        options = {"endpoint_url": address}

        def a() -> rs.Pipeline[Any]:
            return rs.tar("s3://bucket/a/*.tar", storage_options=options)

        state = state_of(a())
        assert "ETag" in state["fingerprint"]
        assert len(rs.dumps(state)) < 350
        # The ETag of an object that was sent in parts is no digest of its content.
        for number in range(FILES):
            key = f"b/{number}.tar"
            upload = client.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
            part = client.upload_part(
                Bucket="bucket", Key=key, UploadId=upload, PartNumber=1, Body=of_one_size(number)
            )
            client.complete_multipart_upload(
                Bucket="bucket", Key=key, UploadId=upload,
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
            )  # fmt: skip
        copy = rs.tar("s3://bucket/b/*.tar", storage_options=options)
        assert len(list(copy.resume(state))) == 5 * FILES - 2
        client.put_object(Bucket="bucket", Key="a/1.tar", Body=of_one_size(2))
        with pytest.raises(rs.StateMismatch, match=r"1\.tar has other content .* by its ETag"):
            a().resume(state)
        client.put_object(Bucket="bucket", Key="a/1.tar", Body=of_one_size(1))
        assert len(list(a().resume(state))) == 5 * FILES - 2
        client.put_object(Bucket="bucket", Key="a/9.tar", Body=of_one_size(9))
        assert len(list(a())) == 5 * (FILES + 1)
        client.close()


def test_a_pipeline_is_built_of_the_files_that_are_there_now(remote: str) -> None:
    """The listing that the process has made before says otherwise."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class Listing(MemoryFileSystem):  # type: ignore[misc]
        """The files in memory, by listings that are kept, as file systems over a network do."""

        protocol = "listing"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(super()._strip_protocol(path.removeprefix("listing://")))

        def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
            path = self._strip_protocol(path)
            if path not in self.dircache:
                self.dircache[path] = super().ls(path, detail=True, **options)
            found = self.dircache[path]
            return found if detail else [info["name"] for info in found]

        def info(self, path: str, **options: Any) -> Any:
            path = self._strip_protocol(path)
            known = self.dircache.get(self._parent(path), [])
            listed = [info for info in known if info["name"] == path]
            return listed[0] if listed else super().info(path, **options)

    fsspec.register_implementation("listing", Listing, clobber=True)
    folder = f"listing://{remote[9:]}"
    put(remote, {"0.txt": b"0\n", "1.txt": b"1\n"})
    assert list(rs.lines(f"{folder}/*.txt")) == ["0", "1"]
    assert list(rs.lines(f"{folder}/1.txt")) == ["1"]
    put(remote, {"2.txt": b"2\n", "1.txt": b"one\n"})
    assert list(rs.lines(f"{folder}/1.txt")) == ["one"]
    assert list(rs.lines(f"{folder}/*.txt")) == ["0", "one", "2"]
