"""Handlers: they note, they chain, and they leave everything as it was."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from checkpoint.saving_loops import run_loop
from support.command import run_code

import resumable as rs
from resumable.triggers.signals import SignalRecorder

TERM, USR1 = signal.SIGTERM, signal.SIGUSR1
NUMBERS = rs.range(1000).shuffle(0)


@pytest.fixture
def received() -> Iterator[list[int]]:
    """What a handler that was there before has received."""
    numbers: list[int] = []
    before = signal.signal(TERM, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(TERM, before)


def signalled(
    store: rs.Store, trigger: rs.Trigger, at: dict[int, int], **options: Any
) -> list[int]:
    """Loop for 10 steps, and receive the signal ``at[step]`` within each step in ``at``."""

    def receive(step: int) -> None:
        if step in at:
            os.kill(os.getpid(), at[step])

    return run_loop(
        NUMBERS.take(10), store, trigger, after_step=receive, save_at_end=False, **options
    )


def test_each_signal_saves_once_at_the_next_step_boundary(received: list[int]) -> None:
    store = rs.Memory()
    assert len(signalled(store, rs.OnSignal(TERM), {3: TERM, 7: TERM})) == 10
    assert store.steps() == [3, 7]


def test_the_loop_ends_cleanly_if_asked_to(received: list[int]) -> None:
    ended: list[int] = []

    class Ended(rs.CheckpointListener):
        def end(self, step: int) -> None:
            ended.append(step)

    store = rs.Memory()
    first = signalled(store, rs.OnSignal(TERM), {3: TERM}, stop_on_signal=True, listeners=[Ended()])
    assert (len(first), store.steps(), ended) == (3, [3], [3])
    rest = signalled(store, rs.OnSignal(TERM), {}, stop_on_signal=True)
    assert first + rest == NUMBERS[:10]


def test_the_handler_before_is_called_and_back_afterwards(received: list[int]) -> None:
    handler = signal.getsignal(TERM)
    signalled(rs.Memory(), rs.OnSignal(TERM), {3: TERM, 7: TERM})
    assert received == [TERM, TERM]
    assert signal.getsignal(TERM) is handler
    os.kill(os.getpid(), TERM)
    assert len(received) == 3


def test_only_the_signals_of_the_trigger_are_handled(received: list[int]) -> None:
    handler, other = signal.getsignal(TERM), signal.getsignal(USR1)
    with rs.Checkpointer(rs.Memory(), rs.OnSignal(USR1) | rs.EverySteps(5)) as checkpointer:
        next(checkpointer.resume(NUMBERS))
        assert signal.getsignal(TERM) is handler
        assert signal.getsignal(USR1) is not other
    assert signal.getsignal(USR1) is other


def test_what_the_handler_before_raises_is_raised_after_the_save(received: list[int]) -> None:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit(143)

    signal.signal(TERM, leave)
    for stop_on_signal in (False, True):
        store = rs.Memory()
        with pytest.raises(SystemExit, match="143"):
            signalled(store, rs.OnSignal(TERM), {3: TERM}, stop_on_signal=stop_on_signal)
        assert store.steps() == [3]
        assert signal.getsignal(TERM) is leave


def test_an_interrupt_saves_instead_of_raising_and_is_itself_again_afterwards() -> None:
    store = rs.Memory()
    assert len(signalled(store, rs.OnSignal(signal.SIGINT), {3: signal.SIGINT})) == 10
    assert store.steps() == [3]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_handler_installed_meanwhile_stays(received: list[int]) -> None:
    later: list[int] = []
    with rs.Checkpointer(rs.Memory(), rs.OnSignal(TERM)) as checkpointer:
        next(checkpointer.resume(NUMBERS))
        ours: Any = signal.getsignal(TERM)

        def theirs(number: int, frame: Any) -> None:
            later.append(number)
            ours(number, frame)

        signal.signal(TERM, theirs)
    assert signal.getsignal(TERM) is theirs
    os.kill(os.getpid(), TERM)
    assert (later, received) == ([TERM], [TERM]), "it goes on to the one before"


def test_a_loop_that_is_dropped_leaves_no_handler(received: list[int]) -> None:
    handler = signal.getsignal(TERM)
    checkpointer = rs.Checkpointer(rs.Memory(), rs.OnSignal(TERM))
    next(checkpointer.resume(NUMBERS))
    assert signal.getsignal(TERM) is not handler
    del checkpointer
    gc.collect()
    assert signal.getsignal(TERM) is handler


def test_a_signal_before_the_first_step_ends_the_loop_before_it(received: list[int]) -> None:
    for saved in ([], [5]):
        store = rs.Memory()
        if saved:
            with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
                for _ in checkpointer.resume(NUMBERS):
                    if checkpointer.step == 5:
                        break
        with rs.Checkpointer(
            store, rs.OnSignal(TERM), stop_on_signal=True, save_at_end=False
        ) as checkpointer:
            loop = checkpointer.resume(NUMBERS)
            os.kill(os.getpid(), TERM)
            assert list(loop) == []
        assert store.steps() == (saved or [0])


def test_a_long_step_can_look_for_signals_and_save_at_once(received: list[int]) -> None:
    store = rs.Memory()
    with rs.Checkpointer(store, rs.OnSignal(TERM), save_at_end=False) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            assert checkpointer.signals == frozenset()
            os.kill(os.getpid(), TERM)
            assert checkpointer.signals == {TERM}
            assert checkpointer.save() == "memory:1"
            break
    assert store.steps() == [1]


def test_with_and_the_loop_ends_at_the_first_save_after_the_signal(received: list[int]) -> None:
    store = rs.Memory()
    trigger = rs.OnSignal(TERM) & rs.When(lambda progress: progress.step % 4 == 0)
    assert len(signalled(store, trigger, {5: TERM}, stop_on_signal=True)) == 8
    assert store.steps() == [8]


def test_a_pipeline_that_fails_after_the_signal_ends_with_a_save(received: list[int]) -> None:
    def die_at_3(item: int) -> int:
        if item == 3:
            os.kill(os.getpid(), TERM)
            raise RuntimeError("worker died")
        return item

    store = rs.Memory()
    with (
        rs.Checkpointer(store, rs.OnSignal(TERM), stop_on_signal=True) as checkpointer,
        pytest.warns(RuntimeWarning, match="failed after a signal to stop, at step 3"),
    ):
        assert list(checkpointer.resume(rs.range(10).map(die_at_3))) == [0, 1, 2]
    assert store.steps() == [3]
    again = rs.Checkpointer(store, rs.AtEnd())
    assert list(again.resume(rs.range(10).map(abs))) == list(range(3, 10))
    again.close()


def test_outside_the_main_thread_it_is_refused_and_nothing_is_left() -> None:
    handler = signal.getsignal(TERM)
    problems: list[Exception] = []

    def resume() -> None:
        try:
            rs.Checkpointer(rs.Memory(), rs.OnSignal(TERM)).resume(NUMBERS.prefetch(2))
        except rs.InvalidArgument as error:
            problems.append(error)

    thread = threading.Thread(target=resume, name="trainer")
    thread.start()
    thread.join()
    assert "SIGTERM can only be received in the main thread, got 'trainer'" in str(problems[0])
    assert signal.getsignal(TERM) is handler


def test_closing_in_another_thread_passes_signals_on(received: list[int]) -> None:
    recorder = SignalRecorder([TERM])
    recorder.open()
    thread = threading.Thread(target=recorder.close)
    thread.start()
    thread.join()
    os.kill(os.getpid(), TERM)
    assert (received, recorder.received.total()) == ([TERM], 0)


FORKED = """
import os, signal, sys, time
import resumable as rs

with rs.Checkpointer(rs.Memory(), rs.OnSignal(signal.SIGTERM)) as checkpointer:
    for _ in checkpointer.resume(rs.range(3)):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, b"x")
            while True:  # one long sleep would not notice a signal that comes just before it
                time.sleep(0.01)
        os.read(reading, 1)
        os.kill(child, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == -signal.SIGTERM, status
        assert not checkpointer.signals
"""


def test_forked_children_are_ended_by_the_signal_as_ever() -> None:
    done = run_code(FORKED)
    assert done.returncode == 0, done.stderr


def test_stopping_needs_a_signal_to_stop_for() -> None:
    with pytest.raises(
        rs.InvalidArgument, match=r"needs a trigger with OnSignal\(...\), got Every"
    ):
        rs.Checkpointer(rs.Memory(), rs.EverySteps(5), stop_on_signal=True)
