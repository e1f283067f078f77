"""Who makes what several threads need: one of them, while the others wait for it.

A key enters; threads that ask for the same one come in turn, so that all but the first find what it has made.  Nobody
waits for ever: not a thread that is making something itself, which may be what the other one needs, nor one that
holds a lock of the user's which the other one wants (it waits for `patience` seconds), nor a forked child, in which
the other one does not exist.  Such a thread goes on alone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

PATIENCE = 30.0


class Turns:
    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self.after_fork()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._locks: weakref.WeakValueDictionary[Hashable, threading.RLock] = weakref.WeakValueDictionary()
        self._own = threading.local()

    def alone(self) -> threading.Lock:
        """For what takes no time, and waits for nothing: one thread at a time."""
        return self._lock

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """The turn of this thread."""
        with self.alone():
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.RLock()
        depth = getattr(self._own, "depth", 0)
        is_ours = lock.acquire(timeout=0 if depth else self._patience)
        self._own.depth = depth + 1
        try:
            yield
        finally:
            self._own.depth = depth
            if is_ours:
                lock.release()
