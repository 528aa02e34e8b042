"""Ask a model many questions at once, and keep each answer exactly once in SQLite.

    python answers_to_sqlite.py                  # ten thousand questions
    python answers_to_sqlite.py --questions 500

Answers come in any order. Some answers and the state in which their questions are done are
committed in one transaction. So a start asks exactly the questions without an answer again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
from typing import Any

import resumable as rs

SCHEMA = """
pragma locking_mode = exclusive;  -- a second job is refused for as long as this one runs
begin exclusive;
create table if not exists answers (question integer primary key, answer text not null);
create table if not exists position (id integer primary key check (id = 1), state blob not null);
commit;
"""


async def ask(lease: rs.Lease[int]) -> tuple[rs.Lease[int], str]:
    """The answer of a model, after a random time. Put the request to your server here."""
    with open("calls.txt", "a") as calls:
        calls.write(f"{lease.number}\n")
    for _ in range(random.randrange(9)):
        await asyncio.sleep(0)
    return lease, f"the square of {lease.item} is {lease.item**2}"


async def answer_all(leases: rs.Leases[int], database: sqlite3.Connection) -> None:
    """Keep as many questions open as ``leases`` allow, and commit what was answered."""
    asked: set[asyncio.Task[Any]] = set()
    while not leases.finished:
        asked |= {asyncio.create_task(ask(lease)) for lease in leases.available()}
        if not asked:
            continue
        answered, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        rows = {lease.number: answer for lease, answer in (task.result() for task in answered)}
        state = rs.dumps(leases.get_state(done=rows))
        with database:  # both, or none
            database.executemany("insert into answers values (?, ?)", rows.items())
            database.execute("replace into position values (1, ?)", [state])
        leases.done(*rows)


def main() -> None:
    """Ask all questions without an answer, and say how many calls there were."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=64, help="questions asked at a time")
    parser.add_argument("--database", default="answers.sqlite")
    options = parser.parse_args()

    database = sqlite3.connect(options.database)
    database.executescript(SCHEMA)
    saved = database.execute("select state from position").fetchone()
    pipeline = rs.range(options.questions).shuffle(seed=0)
    state = rs.loads(saved[0]) if saved else None
    with rs.Leases(pipeline, max_open=options.open, state=state) as leases:
        print(f"starting after answer {leases.counts.done:,}", flush=True)
        asyncio.run(answer_all(leases, database))
    answers = database.execute("select count(*) from answers").fetchone()[0]
    with open("calls.txt") as calls:
        print(f"{answers:,} answers, {sum(1 for _ in calls) / answers:.3f} calls an answer")
    database.close()


if __name__ == "__main__":
    main()
