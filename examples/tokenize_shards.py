"""Tokenise a corpus into shards, each written exactly once, however often the job is killed.

    python tokenize_shards.py                  # 200,000 documents, which it writes first
    python tokenize_shards.py --documents 2000 --rows 64 --workers 2

One item of the pipeline is one shard, so a checkpoint of step k says that k shards are done. A
shard gets its name when it is whole and on the disk, and the checkpoint counts it after that. A
start removes what lies beyond its checkpoint, and goes on with that shard.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs

END_OF_DOCUMENT = 256
TOKENS_A_ROW = 1024
DOCUMENTS_A_FILE = 10_000


def tokenize(document: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The tokens of a document: its bytes here, where your tokenizer would be called."""
    text = np.frombuffer(document["text"].encode(), np.uint8)
    return np.append(text, END_OF_DOCUMENT).astype(np.uint16)


def write_shards(shards: rs.Pipeline[Any], folder: Path) -> None:
    """Write those that ``folder`` does not have yet."""
    checkpoints = rs.Checkpointer(folder, rs.EverySteps(1), retention=rs.Retention(latest=2))
    with checkpoints:
        missing = checkpoints.resume(shards)  # from here on a second job is refused
        done = missing.step
        print(f"starting after shard {done:,}", flush=True)
        remove_beyond(folder, done)
        for number, shard in enumerate(missing, done):
            replace_durably(folder / name_of(number), shard["tokens"])


def name_of(number: int) -> str:
    """The file of a shard; by name they are in order."""
    return f"tokens-{number:06d}.npy"


def remove_beyond(folder: Path, done: int) -> None:
    """Remove what a kill left between a shard and its checkpoint: a part of a shard, or all of it."""
    for path in folder.glob("tokens-*"):
        if path.name >= name_of(done):
            path.unlink()


def replace_durably(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write a file that a power cut leaves as it was, or as it is afterwards."""
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    names = os.open(path.parent, os.O_RDONLY)
    os.fsync(names)
    os.close(names)


def main() -> None:
    """Write the corpus if it is not there, and tokenise it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=200_000, help="size of the corpus")
    parser.add_argument("--rows", type=int, default=4096, help="rows of tokens in a shard")
    parser.add_argument("--workers", type=int, default=0, help="threads that tokenise")
    parser.add_argument("--output", type=Path, default="shards")
    options = parser.parse_args()

    corpus = Path(f"corpus-{options.documents}")
    write_corpus(corpus, options.documents)
    shards = (
        rs.jsonl(f"{corpus}/*.jsonl")
        .shuffle(seed=0)
        .map(tokenize, workers=options.workers)
        .pack(TOKENS_A_ROW, how="concatenate", pad=END_OF_DOCUMENT)
        .batch(options.rows)
    )
    write_shards(shards, options.output)
    written = sorted(options.output.glob("tokens-*.npy"))
    rows = sum(len(np.load(path, mmap_mode="r")) for path in written)
    print(f"{len(written):,} shards, {rows:,} rows of {TOKENS_A_ROW:,} tokens")


def write_corpus(folder: Path, documents: int) -> None:
    """Some documents: the same every time, in files that are whole or not there."""
    words = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed"]
    folder.mkdir(exist_ok=True)
    for start in range(0, documents, DOCUMENTS_A_FILE):
        path = folder / f"{start:09d}.jsonl"
        if path.exists():
            continue
        rng = random.Random(start)
        unfinished = path.with_suffix(".part")
        with unfinished.open("w") as file:
            for number in range(start, min(start + DOCUMENTS_A_FILE, documents)):
                text = " ".join(rng.choices(words, k=rng.randint(1, 400)))
                file.write(json.dumps({"id": number, "text": text}) + "\n")
        os.replace(unfinished, path)


if __name__ == "__main__":
    main()
