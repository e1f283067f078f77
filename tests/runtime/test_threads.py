"""threads: every task runs once, from any number of callers, after fork, and around interrupts."""

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numstax.runtime.cache import DiskCache
from numstax.runtime.dispatch import load_dispatch
from numstax.runtime.threads import Workers, scratch_address

DISPATCH = load_dispatch(DiskCache(None))
PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def new_workers(limit):
    return Workers(limit, lambda: DISPATCH)


def share(workers, chunk, tasks, grain=1, scratch=0):
    """Run a Python function over the tasks, called from native code."""
    function = PART(lambda words, lo, hi, memory: chunk(lo, hi, memory))
    workers.parallel_for(ctypes.cast(function, ctypes.c_void_p).value, b"", tasks, grain, scratch)


WORKERS = new_workers(4)


def run(workers, tasks, grain, counts):
    def chunk(lo, hi, scratch):
        del scratch
        counts[lo:hi] += 1

    share(workers, chunk, tasks, grain)


@given(st.integers(0, 5000), st.integers(0, 700))
def test_every_task_runs_exactly_once(tasks, grain):
    counts = np.zeros(tasks, np.int64)
    run(WORKERS, tasks, grain, counts)
    assert (counts == 1).all()


def test_chunks_respect_the_grain():
    sizes = []
    share(WORKERS, lambda lo, hi, _: sizes.append(hi - lo), 1000, 300)
    assert sum(sizes) == 1000
    assert sorted(sizes)[1:] == [300] * 3


def test_shares_are_equal_where_steps_are_not():
    sizes = []
    share(WORKERS, lambda lo, hi, _: sizes.append((lo, hi)), 400, 30)
    assert {lo for lo, _ in sizes} == {100 * k + step for k in range(4) for step in (0, 30, 60, 90)}


def threads_that_take_part(workers):
    seen, both = set(), threading.Barrier(2, timeout=10)

    def chunk(lo, hi, _):
        seen.add(threading.get_ident())
        if lo < 2:
            both.wait()

    share(workers, chunk, 2)
    return len(seen)


def test_several_threads_take_part():
    assert threads_that_take_part(new_workers(2)) == 2


def test_one_thread_runs_everything_at_once_in_the_caller():
    calls = []
    share(new_workers(1), lambda lo, hi, _: calls.append((lo, hi, threading.get_ident())), 100)
    assert calls == [(0, 100, threading.get_ident())]


def test_concurrent_callers_and_nested_jobs():
    wrong = []

    def caller(seed):
        for step in range(100):
            counts = np.zeros(50 + seed + step, np.int64)

            def outer(lo, hi, _, counts=counts):
                run(WORKERS, hi - lo, 1, counts[lo:hi])

            share(WORKERS, outer, len(counts), 7)
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
    workers = new_workers(3)
    run(workers, 100, 1, np.zeros(100, np.int64))
    pid = os.fork()
    if pid == 0:
        workers.after_fork()
        counts = np.zeros(1000, np.int64)
        run(workers, 1000, 1, counts)
        os._exit(0 if (counts == 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def sleep_deeply(workers):
    """Wait until no worker looks out for a job."""
    end = time.monotonic() + 10
    while any(workers._slots) and time.monotonic() < end:
        time.sleep(0.001)
    assert not any(workers._slots)


def test_idle_workers_sleep_and_wake_again():
    workers = new_workers(2)
    for _ in range(3):
        assert threads_that_take_part(workers) == 2
        sleep_deeply(workers)
        before = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - before < 0.1


def test_an_interrupt_while_workers_are_woken_runs_the_job_and_loses_no_worker():
    workers = new_workers(2)
    run(workers, 100, 1, np.zeros(100, np.int64))
    sleep_deeply(workers)
    queue = workers._wake[0]

    class Interrupted:
        def put(self, token):
            workers._wake[0] = queue
            raise KeyboardInterrupt

    workers._wake[0] = Interrupted()
    counts = np.zeros(100, np.int64)
    with pytest.raises(KeyboardInterrupt):
        run(workers, 100, 1, counts)
    assert (counts == 1).all()
    assert threads_that_take_part(workers) == 2


def test_scratch_is_private_to_each_thread():
    seen, both = {}, threading.Barrier(3, timeout=10)

    def chunk(lo, hi, memory):
        seen[threading.get_ident()] = memory
        both.wait()

    share(new_workers(3), chunk, 3, 1, 100)
    places = sorted(seen.values())
    assert all(b - a >= 100 for a, b in itertools.pairwise(places))
    assert all(place % 64 == 0 for place in places)


def test_a_process_may_end_while_workers_look_out_for_jobs():
    code = """
import numpy as np, numstax
f = numstax.jit(lambda x: np.sqrt(x) + 1, strict=True)
numstax.set_num_threads(4)
x = np.ones(1 << 20, np.float32)
assert (f(x) == 2).all()
for _ in range(50):
    f(x)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


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
