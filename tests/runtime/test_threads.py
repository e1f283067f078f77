"""threads: every task runs once, from any number of callers, after fork, and around interrupts."""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numstax.runtime.threads import Workers, scratch_address

WORKERS = Workers(4)


def run(workers, tasks, grain, counts):
    def chunk(lo, hi, scratch):
        del scratch
        counts[lo:hi] += 1

    workers.parallel_for(chunk, tasks, grain)


@given(st.integers(0, 5000), st.integers(0, 700))
def test_every_task_runs_exactly_once(tasks, grain):
    counts = np.zeros(tasks, np.int64)
    run(WORKERS, tasks, grain, counts)
    assert (counts == 1).all()


def test_chunks_respect_the_grain():
    sizes = []
    WORKERS.parallel_for(lambda lo, hi, _: sizes.append(hi - lo), 1000, 300)
    assert sum(sizes) == 1000
    assert sorted(sizes)[1:] == [300] * 3


def test_several_threads_take_part():
    seen, both = set(), threading.Barrier(2, timeout=10)

    def chunk(lo, hi, _):
        seen.add(threading.get_ident())
        if lo < 2:
            both.wait()

    Workers(2).parallel_for(chunk, 2)
    assert len(seen) == 2


def test_one_thread_runs_everything_at_once_in_the_caller():
    calls = []
    Workers(1).parallel_for(lambda lo, hi, _: calls.append((lo, hi, threading.get_ident())), 100)
    assert calls == [(0, 100, threading.get_ident())]


def test_concurrent_callers_and_nested_jobs():
    wrong = []

    def caller(seed):
        for step in range(100):
            counts = np.zeros(50 + seed + step, np.int64)

            def outer(lo, hi, _, counts=counts):
                run(WORKERS, hi - lo, 1, counts[lo:hi])

            WORKERS.parallel_for(outer, len(counts), 7)
            if not (counts == 1).all():
                wrong.append(seed)

    threads = [threading.Thread(target=caller, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong
    assert not any(t.is_alive() for t in threads)


def test_a_forked_child_gets_workers_of_its_own():
    workers = Workers(3)
    run(workers, 100, 1, np.zeros(100, np.int64))
    pid = os.fork()
    if pid == 0:
        workers.after_fork()
        counts = np.zeros(1000, np.int64)
        run(workers, 1000, 1, counts)
        os._exit(0 if (counts == 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_exception_in_the_caller_waits_for_running_chunks():
    running, caller = [], threading.get_ident()
    worker_started = threading.Event()

    def chunk(lo, hi, _):
        if threading.get_ident() == caller:
            assert worker_started.wait(10)
            raise KeyboardInterrupt
        running.append(lo)
        worker_started.set()
        time.sleep(0.05)
        running.remove(lo)

    with pytest.raises(KeyboardInterrupt):
        Workers(2).parallel_for(chunk, 100)
    assert running == []
    counts = np.zeros(100, np.int64)
    run(Workers(2), 100, 1, counts)
    assert (counts == 1).all()


def test_scratch_is_aligned_and_grows():
    small = scratch_address(100)
    assert small % 64 == 0
    assert scratch_address(50) == small
    assert scratch_address(1 << 20) % 64 == 0
    other = []
    thread = threading.Thread(target=lambda: other.append(scratch_address(100)))
    thread.start()
    thread.join()
    assert other[0] != scratch_address(100)
