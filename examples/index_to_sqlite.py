"""Index a million lines of text in SQLite, each exactly once, however often the job is killed.

    python index_to_sqlite.py                  # a million lines, which it writes first
    python index_to_sqlite.py --lines 20000

The rows of a batch of lines and the position after that batch are committed in one transaction.
So the database always holds the rows of exactly the lines before its position. A start reads the
position and goes on there; there is nothing to repair.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import resumable as rs

LINES_A_FILE = 50_000

SCHEMA = """
pragma locking_mode = exclusive;  -- a second job is refused for as long as this one runs
pragma cache_size = -262144;  -- KiB
begin exclusive;
create table if not exists words (
    word text primary key,
    lines integer not null
) without rowid;
create table if not exists places (
    word text,
    line integer,
    primary key (word, line)
) without rowid;
create table if not exists position (
    id integer primary key check (id = 1),
    state blob not null
);
commit;
"""

COUNT = """
insert into words values (?, ?)
on conflict (word) do update set lines = lines + excluded.lines
"""


def index(pipeline: rs.Pipeline[Any], database: sqlite3.Connection) -> None:
    """Add the lines that ``database`` does not have yet."""
    saved = database.execute("select state from position").fetchone()
    batches = pipeline.resume(rs.loads(saved[0])) if saved else iter(pipeline)
    print(f"starting after batch {batches.step:,} of {len(pipeline):,}", flush=True)
    for batch in batches:
        places = sorted((word, line) for line, words in batch for word in words)
        counts = Counter(word for word, _ in places)
        state = rs.dumps(batches.get_state())  # after this batch
        with database:  # all three, or none
            database.executemany("insert into places values (?, ?)", places)
            database.executemany(COUNT, counts.items())
            database.execute("replace into position values (1, ?)", [state])


def words_of(line: str) -> set[str]:
    """The words to look a line up by."""
    return set(line.lower().split())


def main() -> None:
    """Write the corpus if it is not there, index it, and say what the index holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="size of the corpus")
    parser.add_argument("--batch-size", type=int, default=5_000, help="lines in a transaction")
    parser.add_argument("--database", default="index.sqlite")
    options = parser.parse_args()

    corpus = Path(f"corpus-{options.lines}")
    write_corpus(corpus, options.lines)
    lines = rs.lines(f"{corpus}/*.txt").map(words_of).enumerate()
    database = sqlite3.connect(options.database)
    database.executescript(SCHEMA)
    index(lines.batch(options.batch_size, collate=list), database)

    places, words = database.execute("select sum(lines), count(*) from words").fetchone()
    print(f"{len(lines):,} lines, {words:,} words, {places:,} places")
    database.close()


def write_corpus(folder: Path, lines: int) -> None:
    """Some text: the same every time, in files that are whole or not there."""
    syllables = ["ba", "co", "di", "fu", "ga", "lo", "mi", "ne", "ra", "su", "ti", "vo"]
    vocabulary = ["".join(word) for word in itertools.product(syllables, repeat=3)]
    folder.mkdir(exist_ok=True)
    for start in range(0, lines, LINES_A_FILE):
        path = folder / f"{start:09d}.txt"
        if path.exists():
            continue
        rng = random.Random(start)
        unfinished = path.with_suffix(".part")
        with unfinished.open("w") as file:
            for _ in range(start, min(start + LINES_A_FILE, lines)):
                file.write(" ".join(rng.choices(vocabulary, k=8)) + "\n")
        os.replace(unfinished, path)


if __name__ == "__main__":
    main()
