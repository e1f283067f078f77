"""Worker threads: one range of tasks, shared among the caller and the idle workers.

A job is a native function over ``lo <= task < hi``.  The caller takes part; chunks are handed out dynamically.
Workers are Python threads, since native code runs without the GIL; they sleep in a queue between jobs, start
on first use, and are started anew in a forked child.  Several threads may run jobs at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

import numpy as np

from numstax.runtime.memory import address_of

Chunk = Callable[[int, int, int], object]
"""Runs tasks lo <= task < hi; the third argument is the address of scratch memory."""

CHUNKS_PER_WORKER = 4
"""Enough to even out chunks of unequal cost or a worker that wakes late."""

_scratch = threading.local()


def scratch_address(nbytes: int) -> int:
    """The address of at least `nbytes` bytes, 64-byte aligned, private to the calling thread."""
    if nbytes == 0:
        return 0
    held: np.ndarray | None = getattr(_scratch, "array", None)
    if held is None or held.nbytes < nbytes + 64:
        held = _scratch.array = np.empty(nbytes + 64, np.uint8)
    address = address_of(held)
    return address + -address % 64


class _Job:
    __slots__ = ("busy", "chunk", "chunks", "done", "finished", "next", "scratch", "step", "tasks")

    def __init__(self, chunk: Chunk, tasks: int, step: int, scratch: int) -> None:
        self.chunk, self.tasks, self.step, self.scratch = chunk, tasks, step, scratch
        self.chunks = -(-tasks // step)
        # next() of a count is one step under the GIL: no two threads get the same number
        self.next, self.finished = count().__next__, count(1).__next__
        self.busy: list[None] = []
        self.done = threading.Lock()
        self.done.acquire()

    def take_part(self) -> None:
        """Run chunks until none is left."""
        scratch = scratch_address(self.scratch)
        while (k := self.next()) < self.chunks:
            lo = k * self.step
            self.chunk(lo, min(lo + self.step, self.tasks), scratch)
            if self.finished() == self.chunks:
                self.done.release()

    def serve(self) -> None:
        """`take_part` in a worker."""
        self.busy.append(None)
        try:
            self.take_part()
        finally:
            self.busy.pop()

    def abandon(self) -> None:
        """Hand out no more chunks, and return when no worker runs one."""
        while self.next() < self.chunks:
            pass
        while self.busy:
            time.sleep(1e-4)


class Workers:
    """At most `limit` threads, the caller included, work on one job."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.after_fork()

    def after_fork(self) -> None:
        """Forget all workers: a forked child has none of its parent's threads."""
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def parallel_for(self, chunk: Chunk, tasks: int, grain: int = 1, scratch: int = 0) -> None:
        """Run `chunk` over all tasks, at least `grain` at a time; `scratch` bytes are private to each thread."""
        limit = min(self.limit, -(-tasks // max(grain, 1)))
        if limit <= 1:
            chunk(0, tasks, scratch_address(scratch))
            return
        if self._started < limit - 1:
            self._start(limit - 1)
        step = max(grain, -(-tasks // (limit * CHUNKS_PER_WORKER)))
        job = _Job(chunk, tasks, step, scratch)
        for _ in range(limit - 1):
            self._jobs.put(job)
        try:
            job.take_part()
            job.done.acquire()
        except BaseException:
            # an interrupt: the arrays must outlive the chunks still running
            job.abandon()
            raise

    def _start(self, wanted: int) -> None:
        with self._lock:
            while self._started < wanted:
                thread = threading.Thread(target=_serve, args=(self._jobs,), name="numstax", daemon=True)
                thread.start()
                self._started += 1


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().serve()
