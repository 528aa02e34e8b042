"""Every page of the documentation does what it says; those of frameworks are run with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from formats.shard_files import mds_files
from support.pages import DOCS, matches, module_path, run_page
from support.s3_server import s3_server

PAGES = sorted(DOCS.glob("**/*.md"))
PACKAGES = {
    "guides/cache": "aiohttp",
    "guides/vision": "PIL",
    "guides/media": "av",
    "guides/scientific-arrays": "h5py",
    "guides/storage": "moto.server",
    "guides/waiting": "prometheus_client",
    "coming-from/dataloader": "torch",
    "coming-from/lance": "lance",
    "frameworks/pytorch": "torch",
    "frameworks/lightning": "lightning",
    "frameworks/torchtitan": "torchtitan",
    "frameworks/hugging-face": "trl",
    "frameworks/nemo": "megatron.core",
    "frameworks/tensorflow": "tensorflow",
    "frameworks/dask": "distributed",
    "frameworks/jax": "orbax.checkpoint",
    "frameworks/ray": "ray",
    "recipes/dataloader": "torch",
    "recipes/mixture-on-ranks": "torch",
    "recipes/s3-cache": "moto.server",
}
"""What a page needs beyond the library and its tests; it runs in the step that has it."""

CORPUS = {
    f"corpus/{part:02}.jsonl": b"".join(
        b'{"text": "document %d"}\n' % number for number in range(10 * part, 10 * part + 10)
    )
    for part in range(2)
}

SAMPLES = {
    f"train/{name}": content
    for name, content in mds_files([(n, "text") for n in range(1000)], per_shard=200).items()
}

BUCKETS = {"guides/storage.md": CORPUS, "recipes/s3-cache.md": SAMPLES}
"""What the bucket holds that a page reads."""

SLOW = {
    "examples/index-to-sqlite.md",
    "examples/tokenize-shards.md",
    "guides/any-loader.md",
    "guides/changing.md",
    "guides/debugging.md",
    "guides/preemption.md",
    "guides/shuffling.md",
    "guides/speed.md",
    "guides/testing.md",
    "recipes/bad-record.md",
    "start.md",
    "writing/format.md",
}
"""They start many interpreters, or measure; what they show is tested elsewhere too, in the quick tier."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.deep] if name in SLOW else [])
        for name in (page.relative_to(DOCS).as_posix() for page in PAGES)
    ],
)
def test_every_block_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start, package in PACKAGES.items():
        if page.startswith(start):
            pytest.importorskip(package, reason=f"{package} is not installed")
            monkeypatch.setenv("PYTHONPATH", module_path())  # it may start interpreters itself
    monkeypatch.chdir(tmp_path)
    if page in BUCKETS:
        with s3_server(BUCKETS[page]) as address:
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            run_page(DOCS / page, tmp_path)
        return
    run_page(DOCS / page, tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a 1.5 ms\nb", "a  20 µs\nb\n", True),
        ("a  3 s  7", "a  1 min 5 s  7", True),
        ("a  3 s  7", "a  1 min 5 s", False),
        ("a\n...\nb\n", "a\nx\ny\nb\n", True),
        ("a\n...\nb\n", "a\nx\ny\n", False),
        ("items 3", "lines 3", False),
        ("", "Traceback", False),
    ],
)
def test_what_a_command_prints_is_compared_but_for_numbers(
    expected: str, printed: str, same: bool
) -> None:
    assert matches(expected, printed) is same
