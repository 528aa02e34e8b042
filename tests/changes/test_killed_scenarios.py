"""A run is killed by SIGKILL at any moment, changed as `resumable amend` says, and goes on, as a user does it.

What it has learned in the end is what a run from nothing learns with the last program.
"""

from __future__ import annotations

import json
import random
import re
import signal
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from changes.test_scenarios import write_records
from examples.lives import Program
from support.command import call_command
from support.tiers import is_deep

COUNTS = {"books": 60, "web": 70, "code": 30}

TRAIN = """
import json
import os
from contextlib import ExitStack

import resumable as rs

{constants}


def pipeline(rank=0, ranks=RANKS):
    {body}


def train():
    with ExitStack() as stack:
        checkpointers = [
            stack.enter_context(
                rs.Checkpointer("run", rs.EverySteps(3), rank=rank, ranks=RANKS)
            )
            for rank in range(RANKS)
        ]
        loops = [one.resume(pipeline(rank)) for rank, one in enumerate(checkpointers)]
        print(f"starting after step {{checkpointers[0].step}}", flush=True)
        learn(after=checkpointers[0].step)
        for batches in zip(*loops):
            learn(step=checkpointers[0].step, ids=[list(batch["id"]) for batch in batches])


def learn(**entry):
    model = os.open("learned.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(model, json.dumps(entry).encode() + b"\\n")
    os.close(model)


if __name__ == "__main__":
    train()
"""


@dataclass(frozen=True)
class Scenario:
    """A program, and how it is changed.

    Args:
      body: of its function `pipeline`.
      eras: the constants of each program, with what is to hold from where the run stands.
      argument: which one `resumable amend` tells.
      written: the constant with the position filled in, from what `amend` says and the one before.
    """

    body: str
    eras: Sequence[Mapping[str, str]]
    argument: str
    written: Callable[[dict[str, Any], Mapping[str, str], Mapping[str, str]], Mapping[str, str]]


def as_told(name: str) -> Any:
    """The constant ``name`` is what `amend` says to write."""

    def written(told: dict[str, Any], _: Mapping[str, str], era: Mapping[str, str]) -> Any:
        return {**era, name: told["write"].partition("=")[2]}

    return written


def from_epoch(
    told: dict[str, Any], before: Mapping[str, str], era: Mapping[str, str]
) -> Mapping[str, str]:
    """The data are as before in the epochs that were begun."""
    kept = {
        first: names
        for first, names in literal_eval(before["DATA"]).items()
        if first < told["may_change_from"]
    }
    (new,) = literal_eval(era["DATA"]).values()
    return {**era, "DATA": str({**kept, told["may_change_from"]: new})}


SCENARIOS = {
    "weights and shards": Scenario(
        body="""shards = {name: rs.jsonl(f"{name}.jsonl").shuffle(1) for name in NAMES}
    return rs.mix(shards, weights=WEIGHTS, seed=2).shard(rank, ranks).batch(5)""",
        eras=(
            {
                "NAMES": '["books", "web"]',
                "WEIGHTS": '{0: {"books": 1, "web": 1}}',
                "RANKS": "2",
            },
            {
                "NAMES": '["books", "web", "code"]',
                "WEIGHTS": '{0: {"books": 0, "web": 3, "code": 2}}',
                "RANKS": "3",
            },
            {
                "NAMES": '["books", "web", "code"]',
                "WEIGHTS": '{0: {"books": 1, "web": 6, "code": 1}}',
                "RANKS": "1",
            },
        ),
        argument="weights",
        written=as_told("WEIGHTS"),
    ),
    "exclusions": Scenario(
        body="""kept = rs.jsonl("books.jsonl").shuffle(1).repeat(3).exclude(RECORDS)
    return kept.shard(rank, ranks).map(dict, workers=2).batch(5)""",
        eras=(
            {"RECORDS": "{}", "RANKS": "1"},
            {"RECORDS": "{0: [3, 7, 31]}", "RANKS": "2"},
            {"RECORDS": "{0: [*range(20, 50)]}", "RANKS": "1"},
        ),
        argument="records",
        written=as_told("RECORDS"),
    ),
    "epochs": Scenario(
        body="""chosen = {
        first: rs.concatenate(*(rs.jsonl(f"{name}.jsonl") for name in names)).shuffle(1)
        for first, names in DATA.items()
    }
    return rs.by_epoch(chosen).repeat(4).shard(rank, ranks).batch(5)""",
        eras=(
            {"DATA": '{0: ["code"]}', "RANKS": "1"},
            {"DATA": '{0: ["books", "code"]}', "RANKS": "2"},
            {"DATA": '{0: ["books"]}', "RANKS": "1"},
        ),
        argument="pipelines",
        written=from_epoch,
    ),
}


def write(folder: Path, scenario: Scenario, constants: Mapping[str, str]) -> None:
    lines = "\n".join(f"{name} = {value}" for name, value in constants.items())
    text = TRAIN.format(constants=lines, body=scenario.body)
    (folder / "train.py").write_text(text)


def learned(folder: Path) -> list[str]:
    """The ids of the records that the model has learned, as it goes back to where each life begins."""
    steps = dict[int, list[list[str]]]()
    for line in (folder / "learned.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "after" in entry:
            steps = {step: ids for step, ids in steps.items() if step <= entry["after"]}
        else:
            steps[entry["step"]] = entry["ids"]
    assert sorted(steps) == list(range(1, len(steps) + 1))
    return [each for step in sorted(steps) for ids in steps[step] for each in ids]


def amended(
    folder: Path, scenario: Scenario, before: Mapping[str, str], era: Mapping[str, str]
) -> Mapping[str, str] | None:
    """The program of ``era`` with the position filled in; None if nothing was saved yet."""
    asks_as = era
    if (
        scenario.written is from_epoch
    ):  # items are counted here, and `before` says how many an epoch had
        asks_as = from_epoch({"may_change_from": 1}, before, era)
    write(folder, scenario, asks_as)
    asked = call_command(folder, "amend", "run", "train.py:pipeline", "--json")
    if asked.returncode == 2:
        assert re.search("there is no checkpoint|by all of its ranks yet|RUN must be", asked.stderr)
        return None
    found = json.loads(asked.stdout)["arguments"]
    (told,) = (one for one in found if one["argument"] == scenario.argument)
    # Another weight, record or file: only before the first item it may be as if it had always been so.
    return asks_as if told["agrees"] else scenario.written(told, before, era)


@pytest.mark.parametrize(
    "name", [*list(SCENARIOS)[:2], pytest.param("epochs", marks=pytest.mark.deep)]
)
def test_killed_at_any_moment_a_run_that_is_changed_learns_what_one_from_nothing_does(
    name: str, tmp_path: Path
) -> None:
    scenario = SCENARIOS[name]
    for run in range(3 if is_deep() else 1):
        folder = tmp_path / f"{run}"
        folder.mkdir()
        for source, count in COUNTS.items():
            write_records(folder, source, count)
        rng, constants = random.Random(f"{name} {run}"), scenario.eras[0]
        write(folder, scenario, constants)
        lives, changes, left_out = list[int](), 0, 0
        for number, era in enumerate(scenario.eras if is_deep() else scenario.eras[:2]):
            now = amended(folder, scenario, constants, era) if number else era
            changes += now is not None and number > 0
            constants = constants if now is None else now
            write(folder, scenario, constants)
            for _ in range(rng.randint(1, 3) if is_deep() else 1):
                life = Program(str(folder / "train.py")).live(folder, rng.randint(50, 110))
                assert life.status in (-signal.SIGKILL, 0), life.said
                lives.append(life.status)
                if (
                    life.status == 0
                ):  # several ranks end together, so their last round may be left out
                    left_out = max(left_out, int(constants["RANKS"]) - 1)
        write(folder, scenario, {**constants, "RANKS": "1"})
        Program(str(folder / "train.py")).whole(folder)
        assert is_deep() or (lives[0] == -signal.SIGKILL and changes)
        got = Counter(learned(folder))
        for entry in ("learned.jsonl", "run"):
            (folder / entry).rename(folder / f"{entry}.killed")
        Program(str(folder / "train.py")).whole(folder)
        expected = Counter(learned(folder))
        assert got <= expected
        assert (expected - got).total() <= left_out
