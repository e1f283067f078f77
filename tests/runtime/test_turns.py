"""Turns: one thread makes what the others wait for, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from numstax.runtime.turns import Turns
from tests.support import in_threads

PATIENT = 60.0
"""Seconds that a test does not take unless somebody waits in vain."""


def timed(*works: Callable[[], object]) -> float:
    start = time.monotonic()
    failed = [result for result in in_threads(*works) if result is not None]
    assert not failed
    return time.monotonic() - start


def test_one_makes_it_and_the_others_find_it() -> None:
    turns, made = Turns(PATIENT), list[int]()

    def work() -> None:
        with turns.turn("key"):
            if not made:
                time.sleep(0.05)
                made.append(threading.get_ident())

    timed(*[work] * 8)
    assert len(made) == 1


def test_different_things_are_made_at_once() -> None:
    turns, together = Turns(PATIENT), threading.Barrier(3)

    def work(key: int) -> None:
        with turns.turn(key):
            together.wait(PATIENT)

    assert timed(*(partial(work, k) for k in range(3))) < PATIENT / 2


def test_a_turn_within_a_turn() -> None:
    turns = Turns(PATIENT)

    def work() -> None:
        with turns.turn("a"), turns.turn("b"), turns.turn("a"):
            pass

    assert timed(work, work) < PATIENT / 2


def test_what_is_made_needs_what_the_other_one_makes() -> None:
    turns, together = Turns(PATIENT), threading.Barrier(2)

    def work(mine: str, other: str) -> None:
        with turns.turn(mine):
            together.wait(PATIENT)
            with turns.turn(other):
                pass

    assert timed(partial(work, "a", "b"), partial(work, "b", "a")) < PATIENT / 2


def test_a_lock_of_the_user() -> None:
    turns, users, holds = Turns(patience=0.05), threading.Lock(), threading.Event()

    def maker() -> None:
        with turns.turn("key"):
            holds.set()
            time.sleep(0.01)
            with users:
                pass

    def holder() -> None:
        with users:
            holds.wait()
            with turns.turn("key"):
                pass

    assert timed(maker, holder) < PATIENT / 2


def test_a_failure_ends_the_turn() -> None:
    turns = Turns(PATIENT)

    def work() -> None:
        with pytest.raises(ZeroDivisionError), turns.turn("key"):
            raise ZeroDivisionError

    assert timed(work, work, work) < PATIENT / 2


def test_a_child_does_not_wait_for_threads_that_it_does_not_have() -> None:
    turns, holds, ends = Turns(PATIENT), threading.Event(), threading.Event()

    def maker() -> None:
        with turns.turn("key"):
            holds.set()
            ends.wait(PATIENT)

    thread = threading.Thread(target=maker)
    thread.start()
    holds.wait(PATIENT)
    pid = os.fork()
    if pid == 0:
        turns.after_fork()
        start = time.monotonic()
        with turns.turn("key"):
            os._exit(time.monotonic() - start > PATIENT / 2)
    ends.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
