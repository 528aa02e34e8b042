"""Full, forbidden and exhausted disks, as the system itself makes them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import run_code

import resumable as rs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")

CAMPAIGN = Path(__file__).parents[1] / "campaigns" / "strace_faults.py"
ROOTS = [str(Path(rs.__file__).parents[1]), str(CAMPAIGN.parents[1])]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}

# A loop in a process of its own, which the limits are set for. It is in the folder that it saves
# to, so that it may lose the right to the folders above.
SAVE_AGAINST_REFUSAL = """
import errno, os, resource, subprocess
import resumable as rs

def descriptors():
    return sorted(os.listdir("/proc/self/fd"))

def limit(which, most):
    resource.setrlimit(which, (most, resource.getrlimit(which)[1]))

def first_free():
    descriptor = os.dup(0)
    os.close(descriptor)
    return descriptor

store = rs.Directory(".")
checkpointer = rs.Checkpointer(store, rs.EverySteps(1), save_at_end=False)
loop = checkpointer.resume(rs.range(9))
assert [next(loop) for _ in range(3)] == [0, 1, 2]
kept = {step: store.load(step) for step in store.steps()}
before = descriptors()
IMPOSE
for _ in range(2):
    try:
        next(loop)
    except rs.SaveError as error:
        assert (error.step, error.errno) == (3, errno.CODE), error
    else:
        raise AssertionError("it was saved")
LIFT
assert descriptors() == before
assert not [name for name in os.listdir(".") if name.startswith(".tmp-")]
assert {step: store.load(step) for step in store.steps()} == kept
assert [next(loop), next(loop)] == [3, 4]
checkpointer.close()
with rs.Checkpointer(store, rs.EverySteps(1)) as again:
    assert list(again.resume(rs.range(9))) == [4, 5, 6, 7, 8]
"""


def save_against_refusal(folder: Path, impose: str, lift: str, code: int) -> None:
    """Save in ``folder`` before ``impose``, under it, and after ``lift``."""
    script = SAVE_AGAINST_REFUSAL.replace("IMPOSE", impose).replace("LIFT", lift)
    script = script.replace("CODE", errno.errorcode[code])
    done = run_code(script, folder=folder)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path, *, leave: int) -> None:
    """Let only ``leave`` bytes be free, a multiple of the block size."""
    status = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(status.f_bavail * status.f_frsize - leave))


def test_a_write_that_half_fits_on_the_disk_leaves_nothing(small_disk: Path) -> None:
    store = rs.Directory(small_disk)
    store.save(1, b"old")
    block = os.statvfs(small_disk).f_frsize
    fill(small_disk, leave=block)
    data = os.urandom(3 * block)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        store.save(2, data)
    assert os.statvfs(small_disk).f_bavail == 1
    assert sorted(os.listdir(small_disk)) == ["ballast", "input-000000000001.ckpt"]
    (small_disk / "ballast").unlink()
    store.save(2, data)
    assert (store.load(1), store.load(2)) == (b"old", data)


def test_a_loop_goes_on_once_a_full_disk_has_room(small_disk: Path) -> None:
    save_against_refusal(
        small_disk,
        "free = os.statvfs('.')\n"
        "with open('ballast', 'wb') as ballast:\n"
        "    ballast.write(bytes(free.f_bavail * free.f_frsize))\n",
        "os.unlink('ballast')",
        errno.ENOSPC,
    )


def test_a_loop_goes_on_once_a_read_only_disk_is_writable(small_disk: Path) -> None:
    # No disk is made read-only, unless by its own errors, while a file of it is open for writing.
    save_against_refusal(
        small_disk,
        "checkpointer._lock.close()\nbefore = descriptors()\n"
        f"subprocess.run(['mount', '-o', 'remount,ro', {str(small_disk)!r}], check=True)",
        f"subprocess.run(['mount', '-o', 'remount,rw', {str(small_disk)!r}], check=True)",
        errno.EROFS,
    )


def test_a_loop_goes_on_once_files_may_grow(tmp_path: Path) -> None:
    save_against_refusal(
        tmp_path,
        "limit(resource.RLIMIT_FSIZE, 10)",
        "limit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[1])",
        errno.EFBIG,
    )


def test_a_loop_goes_on_once_descriptors_are_free(tmp_path: Path) -> None:
    save_against_refusal(
        tmp_path,
        "limit(resource.RLIMIT_NOFILE, first_free())",
        "limit(resource.RLIMIT_NOFILE, 100)",
        errno.EMFILE,
    )


def test_a_loop_goes_on_once_the_folder_is_writable(tmp_path: Path) -> None:
    drop_rights, take_rights = ("", "")
    if os.geteuid() == 0:  # who may write anywhere
        drop_rights, take_rights = "os.seteuid(65534)\n", "os.seteuid(0)\n"
    save_against_refusal(
        tmp_path,
        "os.chmod('.', 0o555)\n" + drop_rights,
        take_rights + "os.chmod('.', 0o755)",
        errno.EACCES,
    )


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file" / "below", Path("/proc/self/below")):
        with pytest.raises(OSError, match=r"file|below"):
            rs.Directory(folder)


@pytest.mark.deep
def test_real_faults_break_no_promise() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is missing")
    process = subprocess.run(
        [sys.executable, str(CAMPAIGN), "--quick"], env=ENVIRONMENT, capture_output=True, text=True
    )
    if process.returncode == 2:
        pytest.skip(process.stdout.strip())
    assert process.returncode == 0, process.stdout + process.stderr
    assert " 0 promises broken" in process.stdout
