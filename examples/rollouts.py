"""Train on rollouts that finish in any order, filtered as DAPO does, each prompt exactly once.

    python rollouts.py                  # two thousand prompts
    python rollouts.py --prompts 200

A prompt whose rollouts all have the same reward teaches nothing: it is dropped, and another prompt
is drawn. The weights and the state of the leases are saved in one file after each update. So a
start generates again what was running, and neither loses a prompt nor trains on one twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import resumable as rs

GROUP = 8  # prompts in an update
SAMPLES = 4  # rollouts of a prompt


class Trained(NamedTuple):
    """What is saved together."""

    weights: list[int]
    updates: int
    leases: str | None


async def rollout(lease: rs.Lease[int]) -> tuple[rs.Lease[int], list[int]]:
    """The rewards of some answers to a prompt, after a random time. Generate text here."""
    for _ in range(random.randrange(12)):
        await asyncio.sleep(0)
    rng = random.Random(lease.item)
    return lease, [rng.randrange(2) for _ in range(SAMPLES)]


def updated(trained: Trained, group: dict[int, list[int]], leases: rs.Leases[int]) -> Trained:
    """The weights after a step on ``group``, with the state in which its prompts are done."""
    weights = list(trained.weights)
    for number, rewards in group.items():
        weights[number % len(weights)] += sum(rewards)  # your optimizer
    state = rs.dumps(leases.get_state(done=group)).hex()
    return Trained(weights, trained.updates + 1, state)


def save(trained: Trained, path: Path) -> None:
    """Replace the file at ``path`` in one step."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("w") as file:
        json.dump(trained, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


async def train(leases: rs.Leases[int], trained: Trained, path: Path) -> Trained:
    """Generate rollouts for all open prompts, and update from each finished group."""
    running: set[asyncio.Task[Any]] = set()
    group: dict[int, list[int]] = {}
    dropped = 0  # prompts since the last update
    while True:
        running |= {asyncio.create_task(rollout(lease)) for lease in leases.available()}
        if len(group) >= GROUP or not running:  # the last group may be smaller
            if group or dropped:
                trained = updated(trained, group, leases)
                save(trained, path)
            leases.done(*group)
            group, dropped = {}, 0
            if leases.finished:
                return trained
            continue
        ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for lease, rewards in (task.result() for task in ended):
            if len(set(rewards)) == 1:
                lease.drop()
                dropped += 1
            else:
                group[lease.number] = rewards


def main() -> None:
    """Train from where the last start came to, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=2_000)
    parser.add_argument("--file", type=Path, default=Path("trained.json"))
    options = parser.parse_args()

    trained = Trained([0] * 10, 0, None)
    if options.file.exists():
        trained = Trained(*json.loads(options.file.read_text()))
    state = rs.loads(bytes.fromhex(trained.leases)) if trained.leases else None
    prompts = rs.range(options.prompts).shuffle(seed=0)
    with rs.Leases(prompts, max_open=4 * GROUP, state=state) as leases:
        print(f"starting after update {trained.updates:,}", flush=True)
        if not leases.finished:
            trained = asyncio.run(train(leases, trained, options.file))
        done, dropped, _ = leases.counts
    print(f"{done:,} prompts done, {dropped:,} dropped, weights {trained.weights}")


if __name__ == "__main__":
    main()
