"""Warps that run by themselves: each has its own place in the text, and waits where others have to do something first.

What each warp runs enters; all of it is run, one warp at a time, until each has ended.  A warp goes on until it waits;
then another one takes its turn, and copies by the machine land only when no warp can go on, as late as they may.  With
a `seed` the turns are random: any warp may be the next at each instruction, or a copy may land.  When nothing can go
on, what every warp waits for is reported, and the run ends.

A warp is a thread of Python's that runs only while it has its turn, so that what it runs needs to know nothing of this.
"""

from __future__ import annotations

import contextvars
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from numstax.runtime.simulate_report import Report


class Landing:
    """A copy, started at a line, that moves what it moves at some time, once."""

    def __init__(self, move: Callable[[], None], line: int) -> None:
        self.line, self.done, self._move = line, False, move

    def land(self) -> None:
        if not self.done:
            self.done = True
            self._move()


class Ended(BaseException):
    """Raised in a warp that waits when the run has ended."""


class Warp:
    """A warp with its place in the text.  `line` : tells where that is."""

    def __init__(self, team: Team, number: int, body: Callable[[], None], line: Callable[[], int]) -> None:
        self.number, self.line = number, line
        self.ready: Callable[[], bool] | None = None
        self.wants: Callable[[], str] = str
        self.error: BaseException | None = None
        self.done = False
        self._team, self._body = team, body
        self._turn = _taken()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._main,), daemon=True)
        self._thread.start()

    def _main(self) -> None:
        self._turn.acquire()
        try:
            if not self._team.ended:
                self._body()
        except Ended:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self._team.back.release()

    def go(self) -> None:
        """Have a turn: until it waits, or is done."""
        self._turn.release()
        self._team.back.acquire()

    def give_turn(self) -> None:
        """Called by the warp itself; returns when it has its next turn."""
        self._team.back.release()
        self._turn.acquire()
        if self._team.ended:
            raise Ended

    def join(self) -> None:
        self._thread.join()


class Team:
    """Warps of one block, or of several that run at once."""

    def __init__(self, report: Report, seed: int | None) -> None:
        self.back, self.ended = _taken(), False
        self._report, self._random = report, None if seed is None else random.Random(seed)
        self._running: list[Warp] = []
        self._current: Warp | None = None
        self._landings: list[Landing] = []

    def run(self, bodies: Sequence[tuple[int, Callable[[], None], Callable[[], int]]]) -> None:
        """Run warps, each given by its number, its body, and what tells the line at which it is."""
        self._running = [Warp(self, *body) for body in bodies]
        every = list(self._running)
        try:
            while self._running:
                if not self._step():
                    self._report_waiting()
                    break
            for landing in self._landings:
                if not landing.done:
                    landing.land()
                    self._report.add("flight", landing.line, "the block ends while the copy is under way")
        finally:
            self.ended = True
            for warp in self._running:
                if not warp.done:
                    warp.go()
            for warp in every:
                warp.join()

    def alive(self) -> list[int]:
        """The warps that are not done."""
        return [warp.number for warp in self._running]

    # --- called by warps

    def wait(self, ready: Callable[[], bool], wants: Callable[[], str]) -> None:
        """Go on when it is ready; `wants` says what that takes."""
        warp = self._current
        assert warp is not None
        while not ready():
            warp.ready, warp.wants = ready, wants
            warp.give_turn()
        warp.ready = None

    def pause(self) -> None:
        """Others may go on first."""
        if self._random is not None and self._current is not None:
            self._current.give_turn()

    def later(self, move: Callable[[], None], line: int) -> Landing:
        landing = Landing(move, line)
        self._landings.append(landing)
        return landing

    # --- turns

    def _step(self) -> bool:
        """One turn of a warp, or a landing; False if there is none."""
        able = [warp for warp in self._running if warp.ready is None or warp.ready()]
        if self._landings and (not able or (self._random and self._random.random() * (len(able) + 1) < 1)):
            self._landings.pop(self._random.randrange(len(self._landings)) if self._random else 0).land()
            return True
        if not able:
            return False
        self._current = warp = self._random.choice(able) if self._random else self._next(able)
        warp.go()
        if warp.error is not None:
            raise warp.error
        if warp.done:
            self._running.remove(warp)
        return True

    def _next(self, able: list[Warp]) -> Warp:
        last = self._current.number if self._current else -1
        return next((warp for warp in able if warp.number > last), able[0])

    def _report_waiting(self) -> None:
        places: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for warp in self._running:
            places[warp.line()][warp.wants()].append(str(warp.number))
        for line, wanted in places.items():
            waiting = "; ".join(f"warps {', '.join(warps)}: {wants}" for wants, warps in wanted.items())
            self._report.add("deadlock", line, f"all wait; for {waiting}")


def _taken() -> threading.Lock:
    """A lock that whoever acquires it waits for."""
    lock = threading.Lock()
    lock.acquire()
    return lock
