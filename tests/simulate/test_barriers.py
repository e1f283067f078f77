"""Barriers of the kernels that are printed: none can be left out, and none can be reached by a part of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numstax.program import Program
from numstax.runtime.simulate import run
from tests.simulate.running import launches
from tests.simulate.test_sectors import CASES

BARRIERS = ("barrier()", "mailbox_wait(")
"""Where threads wait for others of their block or cluster."""
WITHOUT = ("pointwise", "broadcast", "joined", "scan of columns")
"""Cases in which no thread waits for another begin like this."""
WAITING = [case for case in CASES if not case.startswith(WITHOUT)]


def changed(case: str, change: Callable[[str], str]) -> Iterator[tuple[Program, list[Any]]]:
    """The programs of a case, each with one of its barriers changed, and their arguments."""
    function, shape, dtype = CASES[case]
    x = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    for item, values in launches(function, [x]):
        lines = item.program.text.splitlines()
        for k, line in enumerate(lines):
            if line.strip().startswith(BARRIERS):
                indent = line[: len(line) - len(line.lstrip())]
                text = "\n".join([*lines[:k], indent + change(line.strip()), *lines[k + 1 :]]) + "\n"
                copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
                yield replace(item.program, text=text), copies


@pytest.mark.parametrize("case", WAITING)
def test_each_barrier_is_needed(case: str) -> None:
    found = [run(*given, check=False).of("race") for given in changed(case, lambda call: "pass")]
    assert found
    assert all(found)


@pytest.mark.parametrize("case", WAITING)
def test_all_threads_of_a_block_reach_each_barrier(case: str) -> None:
    partly = changed(case, lambda call: f"if thread_x() < 16: {call}")
    found = [run(*given, check=False).of("divergence") for given in partly]
    assert found
    assert all(found)
