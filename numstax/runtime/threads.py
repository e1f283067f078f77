"""Worker threads: one range of tasks, shared among the caller and the idle workers.

A job is a native function over ``lo <= task < hi``.  The caller takes part; chunks are handed out dynamically.
Workers are Python threads that stay in native code while jobs come (see `dispatch`) and then wait in a queue; they
start on first use, and are started anew in a forked child.  Several threads may run jobs at once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np

from numstax.runtime.dispatch import CHUNKS_PER_WORKER, JOB_WORDS, SLOT_WORDS, TEAM_WORDS, Dispatch
from numstax.runtime.load import address_in
from numstax.runtime.memory import address_of

MOST_WORKERS = 1024
PATIENCE = 5000
"""How many pauses a worker waits for a job before it sleeps: 100 to 250 us."""
ALIGNMENT = 64

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


class Workers:
    """At most `limit` threads, the caller included, work on one job."""

    def __init__(self, limit: int, dispatch: Callable[[], Dispatch]) -> None:
        self.limit = limit
        self._dispatch = dispatch
        self.after_fork()

    def after_fork(self) -> None:
        """Forget all workers: a forked child has none of its parent's threads."""
        self._slots = (ctypes.c_int64 * (SLOT_WORDS * MOST_WORKERS))()
        self._wake: list[SimpleQueue[None]] = []
        self._lock = threading.Lock()

    def parallel_for(self, part: int, words: bytes, tasks: int, grain: int = 1, scratch: int = 0) -> None:
        """Run the native function at `part` over all tasks, at least `grain` at a time; `scratch` bytes are private to
        each thread.  `words` are the arguments (see `load.part_symbol`)."""
        threads = max(min(self.limit, -(-tasks // max(grain, 1)), MOST_WORKERS), 1)
        helpers = threads - 1
        if len(self._wake) < helpers:
            self._start(helpers)
        step = max(grain, -(-tasks // (threads * CHUNKS_PER_WORKER))) if helpers else max(tasks, 1)
        stride = -(-scratch // ALIGNMENT) * ALIGNMENT
        memory = scratch_address(stride * threads)
        dispatch, slots, wake = self._dispatch(), self._slots, self._wake
        job = (ctypes.c_int64 * (JOB_WORDS + threads + helpers))()
        try:
            for k in range(dispatch.post(slots, helpers, job, part, words, tasks, step, memory, stride)):
                wake[job[JOB_WORDS + threads + k]].put(None)
        except BaseException:
            # an interrupt: a worker that has a job and sleeps on would not be woken again
            for sleeper in wake:
                sleeper.put(None)
            raise
        finally:
            # workers may have begun
            dispatch.work(slots, helpers, job)

    @contextmanager
    def team(self, scratch: int) -> Iterator[tuple[int, int]]:
        """While a native loop runs that shares out tasks: the addresses of its team (see `dispatch.Dispatch.share`) and
        of `scratch` bytes.  The workers stay awake for it; it does not need any of them to come."""
        helpers = min(self.limit, MOST_WORKERS) - 1
        if len(self._wake) < helpers:
            self._start(helpers)
        stride = -(-scratch // ALIGNMENT) * ALIGNMENT
        memory = scratch_address(stride * (helpers + 1))
        share = address_in(self._dispatch().share)
        slots, wake = self._slots, self._wake
        words = (ctypes.c_int64 * TEAM_WORDS)(share, ctypes.addressof(slots), helpers, memory, stride)
        self._hold(slots, helpers, 1)
        try:
            for k in range(helpers):
                if slots[k * SLOT_WORDS] == 0:
                    wake[k].put(None)
            yield ctypes.addressof(words), memory
        finally:
            self._hold(slots, helpers, -1)

    def _hold(self, slots: ctypes.Array, helpers: int, change: int) -> None:
        with self._lock:
            for k in range(helpers):
                slots[k * SLOT_WORDS + 1] += change

    def _start(self, wanted: int) -> None:
        serve = self._dispatch().serve
        with self._lock:
            while len(self._wake) < wanted:
                wake: SimpleQueue[None] = SimpleQueue()
                arguments = (serve, self._slots, len(self._wake), wake)
                threading.Thread(target=_serve, args=arguments, name="numstax", daemon=True).start()
                self._wake.append(wake)


def _serve(serve: Callable[..., int], slots: ctypes.Array, index: int, wake: SimpleQueue[None]) -> None:
    while True:
        serve(slots, index, PATIENCE)
        wake.get()
