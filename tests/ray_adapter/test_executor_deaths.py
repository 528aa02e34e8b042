"""Whatever dies, every item comes once and in order, with the states of a run without workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import BrokenExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from ray_adapter.nodes import Nodes
from resumable_ray import RayExecutor
from support.command import WITH_ADAPTERS
from support.waiting import wait_until

import resumable as rs
from resumable.testing.laws import states_along

ITEMS = 240
POISON = 70
UPSTREAM = rs.range(ITEMS).shuffle(1)


def slow(item: int) -> int:
    time.sleep(0.003)
    return item * item


def mapped(fn: Any, **options: Any) -> rs.Pipeline[int]:
    return UPSTREAM.map(fn, **options)


def in_partitions(fn: Any, **options: Any) -> rs.Pipeline[int]:
    return UPSTREAM.partition(4, lambda part: part.map(fn), **options)


def pids(executor: RayExecutor, count: int) -> list[int]:
    """The processes of the actors, once ``count`` of them run."""
    found: set[int] = set()

    def enough() -> bool:
        futures = [executor.submit(os.getpid) for _ in range(4 * count)]
        found.update(future.result() for future in futures)
        return len(found) >= count

    wait_until(enough)
    return sorted(found)


@pytest.mark.parametrize("victim", ["node", "actor"])
def test_a_death_in_mid_epoch_loses_and_repeats_nothing(nodes: Nodes, victim: str) -> None:
    with RayExecutor() as executor:
        for build in (mapped, in_partitions):
            alone = build(lambda item: item * item)
            states = states_along(alone, ITEMS)
            present, got = pids(executor, 3), []
            with iter(build(slow, workers=3, executor=executor)) as iterator:
                for item in iterator:
                    got.append(item)
                    assert rs.dumps(iterator.get_state()) == states[len(got)]
                    if len(got) == 60 and victim == "node":
                        assert nodes.kill_one() & set(present)
                    elif len(got) == 60:
                        os.kill(present[0], signal.SIGKILL)
            assert got == list(alone)
            nodes.complete()
        assert len(pids(executor, 3)) == 3, "another actor has taken the place of each that died"


def deadly(item: int) -> int:
    if item == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_an_item_that_ends_its_actor_each_time_is_blamed_alone(nodes: Nodes) -> None:
    rest = [item for item in range(120) if item != POISON]
    with RayExecutor(num_actors=2) as executor:
        for on_error in ("raise", "skip"):
            pipeline = rs.range(120).map(deadly, workers=2, executor=executor, on_error=on_error)
            got: list[int] = []
            with iter(pipeline) as iterator:
                if on_error == "raise":
                    with pytest.raises(
                        rs.WorkerError, match=f"worked on item {POISON}, .*nothing else"
                    ):
                        got.extend(iterator)
                    assert got == list(range(POISON))
                    assert iterator.skip(1) == 1
                got.extend(iterator)
                assert sum(iterator.skipped.values()) == (on_error == "skip")
            assert got == rest


def test_such_an_item_of_a_partition_is_named_or_dropped(nodes: Nodes) -> None:
    def parts(on_error: str) -> rs.Pipeline[int]:
        return rs.range(120).partition(
            4, lambda part: part.map(deadly, on_error=on_error), workers=1, executor=executor
        )

    with RayExecutor(num_actors=2) as executor:
        got: list[int] = []
        named = pytest.raises(rs.WorkerError, match=rf"worked on .*item {POISON} .*partition 2")
        with iter(parts("raise")) as iterator, named:
            got.extend(iterator)
        assert got == list(range(POISON))
        assert sorted(parts("skip")) == [item for item in range(120) if item != POISON]


def test_once_no_actor_is_left_the_loop_is_told_at_once(nodes: Nodes) -> None:
    got: list[int] = []
    with RayExecutor(num_actors=1, max_restarts=0) as executor:
        (present,) = pids(executor, 1)
        with iter(mapped(slow, workers=2, executor=executor)) as iterator:
            got += islice(iterator, 20)
            os.kill(present, signal.SIGKILL)
            with pytest.raises(rs.WorkerError, match="no actor left"):
                got.extend(iterator)
            state = iterator.get_state()
        with pytest.raises(BrokenExecutor, match="no actor left"):
            executor.submit(abs, 1)
    assert got + list(mapped(lambda item: item * item).resume(state)) == list(
        mapped(lambda item: item * item)
    )


@pytest.mark.parametrize("build", [mapped, in_partitions])
def test_an_actor_that_stops_is_an_error_in_time_and_another_one_goes_on(
    nodes: Nodes, build: Any
) -> None:
    expected = list(build(lambda item: item * item))
    got: list[int] = []
    with RayExecutor(num_actors=1, timeout=10) as executor:
        (present,) = pids(executor, 1)
        with iter(build(slow, workers=1, executor=executor)) as iterator:
            got += islice(iterator, 60)
            os.kill(present, signal.SIGSTOP)
            with pytest.raises(
                rs.WorkerError, match=r"no answer for 10 s .*, at (item|partition) "
            ):
                got.extend(iterator)
            assert got == expected[: len(got)] != expected
            state = iterator.get_state()
            pids(executor, 1)  # another actor has started
            rest = list(iterator)
    assert got + rest == expected
    assert list(build(lambda item: item * item).resume(state)) == rest
    wait_until(lambda: not os.path.exists(f"/proc/{present}"))


DEAD_NODE = """
    import logging, os, signal, time
    import psutil, ray
    import resumable as rs
    from resumable_ray import RayExecutor

    def slow(item):
        time.sleep(0.001)
        return item

    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    with RayExecutor() as executor:
        numbers = rs.range(10**6).map(slow, workers=1, executor=executor)
        iterator = iter(numbers)
        got = [next(iterator) for _ in range(20)]
        (raylet,) = [p for p in psutil.Process().children() if p.name() == "raylet"]
        raylet.kill()
        try:
            got.extend(iterator)
        except rs.WorkerError as error:
            print(error, flush=True)
        assert got == list(range(len(got)))
        rest = rs.range(10**6).map(slow).resume(iterator.get_state())
        assert next(rest) == len(got)
    os._exit(0)
"""


def test_the_death_of_the_drivers_own_node_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DEAD_NODE)],
        env={**os.environ, "PYTHONPATH": WITH_ADAPTERS, "RAY_USAGE_STATS_ENABLED": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the Ray node of this process is dead" in done.stdout


def test_actors_that_cannot_start_are_given_up(nodes: Nodes) -> None:
    environment = {"env_vars": {"PYTHONPATH": "/nowhere"}}  # so that this library is not found
    with RayExecutor(num_actors=1, max_restarts=1, runtime_env=environment) as executor:
        future = executor.submit(abs, 1)
        with pytest.raises(BrokenExecutor, match="no actor left"):
            future.result()


TRAINING = """
    import os, signal, sys, time
    import ray
    import resumable as rs
    from resumable_ray import RayExecutor

    def slow(item):
        time.sleep(0.001)
        return item * item

    with RayExecutor(num_actors=1) as executor:
        pipeline = rs.range(240).shuffle(1).partition(
            4, lambda part: part.map(slow), workers=1, executor=executor
        )
        with rs.Checkpointer("run", rs.EverySteps(20)) as checkpointer:
            for item in checkpointer.resume(pipeline):
                print(checkpointer.step, item, flush=True)
                if checkpointer.step == int(sys.argv[1]):
                    os.kill(os.getpid(), signal.SIGKILL)
        with iter(pipeline) as iterator:
            next(iterator)
            ray.shutdown()
            try:
                list(iterator)
            except rs.WorkerError as error:
                print("ended", error, file=sys.stderr)
        assert not ray.is_initialized()
"""


def test_a_killed_driver_goes_on_from_its_checkpoint_and_one_without_ray_is_told(
    nodes: Nodes, tmp_path: Path
) -> None:
    def run(killed_at: int) -> tuple[int, str, list[tuple[int, int]]]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(TRAINING), str(killed_at)],
            env={**os.environ, "PYTHONPATH": WITH_ADAPTERS, "RAY_ADDRESS": nodes.address},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = [json.loads(f"[{line.replace(' ', ',')}]") for line in done.stdout.splitlines()]
        return done.returncode, done.stderr, [(step, item) for step, item in lines]

    expected = list(enumerate(in_partitions(lambda item: item * item), 1))
    status, _, first = run(70)
    assert status == -signal.SIGKILL
    assert first == expected[:70]
    nodes.wait_until_idle()
    status, said, second = run(-1)
    assert status == 0, said
    assert second == expected[60:]
    assert "ended" in said, "that Ray was shut down is said, not waited for"
