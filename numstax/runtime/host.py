"""What compiled calls of one process share: memory pool, workers, disk cache, loaded code, turns of threads.

A `Host` is made from `Knobs` and handed to whoever launches; it stays usable in a forked child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from numstax.hardware import host as this_machine
from numstax.knobs import Knobs
from numstax.program import Plan, Program
from numstax.runtime.cache import DiskCache
from numstax.runtime.compile_together import compile_together
from numstax.runtime.dispatch import load_dispatch
from numstax.runtime.load import RETURN_SLOTS, Entry, ObjectCode, address_in, load
from numstax.runtime.memory import Pool
from numstax.runtime.threads import Workers, scratch_address
from numstax.runtime.turns import Turns
from numstax.runtime.wrapper_cpu import CpuStyle

HELPER_STARTS = 24
"""Programs that this process compiles before a helper would have started."""


@dataclass(slots=True)
class Counts:
    """Programs compiled, read from disk, and found already loaded, since the process began."""

    compiled: int = 0
    read: int = 0
    loaded: int = 0


class Host:
    def __init__(self, knobs: Knobs) -> None:
        self.style = CpuStyle(knobs.parallel_threshold)
        self.pool = Pool(knobs.pool_bytes)
        self.cache: DiskCache[ObjectCode] = DiskCache(knobs.cache_dir if knobs.cache else None, knobs.code_key())
        self.workers = Workers(knobs.threads or this_machine().cores, cache(lambda: load_dispatch(self.cache)))
        self.turns = Turns()
        self.counts = Counts()
        self._entries: weakref.WeakValueDictionary[str, Entry] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        renew = weakref.WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: (method := renew()) and method())

    def namespace(self, plan: Plan) -> dict[str, object]:
        """What wrappers in `style` name."""
        entries = self.entries(plan.programs)
        return {
            "RET": RETURN_SLOTS[0],
            "EXC": RETURN_SLOTS[1],
            "scratch_address": scratch_address,
            "pooled": self.pool.empty,
            "parallel": self.workers.parallel_for,
            "team_of": self.workers.team,
            **entries,
            **{f"{name}_part": entry.part for name, entry in entries.items()},  # type: ignore[attr-defined]
            **{f"{name}_calls": entry.calls for name, entry in entries.items()},  # type: ignore[attr-defined]
        }

    def entries(self, programs: Sequence[Program]) -> dict[str, Entry]:
        """The callables of programs by name, each after those it calls.  Raises CompileError."""
        found: dict[str, Entry] = {}
        for program in programs:
            found[program.name] = self.entry(program, [found[s.name] for s in program.calls])
        return found

    def entry(self, program: Program, called: Sequence[Entry] = ()) -> Entry:
        """The callable of a program, which calls the `called`: loaded already, read from disk, or compiled.  Each is
        compiled once, however many threads ask.  Raises CompileError."""
        key = self.cache.key(program)
        together = _with(key, called)
        with self._lock:
            entry = self._entries.get(together)
            if entry is None:
                entry = self._entries[together] = load(self._object_code(program, key), program.params, called)
            else:
                self.counts.loaded += 1
            return entry

    def prepare(self, programs: Sequence[Program]) -> list[Entry]:
        """The callables of programs that call no others, to be held as long as they are needed; those that have to be
        compiled are compiled together.  Raises CompileError."""
        with self._lock:
            keys = {program: self.cache.key(program) for program in programs}
            codes = {key: self.cache.read(program, key) for program, key in keys.items()}
            missing = {key: program for program, key in keys.items() if codes[key] is None}
            self.counts.compiled += len(missing)
            for (key, program), code in zip(
                missing.items(), compile_together(list(missing.values()), HELPER_STARTS), strict=True
            ):
                self.cache.write(program, key, code)
                codes[key] = code
        return [self.adopt(program, code) for program in programs if (code := codes[keys[program]]) is not None]

    def object_code(self, program: Program) -> ObjectCode:
        """The code of a program, to be kept somewhere.  Raises CompileError."""
        with self._lock:
            return self._object_code(program, self.cache.key(program))

    def adopt(self, program: Program, code: ObjectCode, called: Sequence[Entry] = ()) -> Entry:
        """Load code that was kept; the program uses it as long as somebody holds the result."""
        together = _with(self.cache.key(program), called)
        with self._lock:
            return self._entries.setdefault(together, load(code, program.params, called))

    def _object_code(self, program: Program, key: str) -> ObjectCode:
        compiled = self.counts.compiled
        code = self.cache.get(program, key, self._compile)
        self.counts.read += self.counts.compiled == compiled
        return code

    def _compile(self, program: Program) -> ObjectCode:
        # importing Numba takes 0.3 s: only when something compiles
        from numstax.runtime.compile_cpu import compile_program

        self.counts.compiled += 1
        return compile_program(program)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self.turns.after_fork()
        self.pool.after_fork()
        self.workers.after_fork()


def _with(key: str, called: Sequence[Entry]) -> str:
    """The key of a program together with those it calls."""
    return " ".join((key, *(str(address_in(entry)) for entry in called)))
